// Requests and renderings for tests of chat templates.
#pragma once
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "text/chat_template.h"

namespace outrider::text_test {

inline ChatTemplate parsed(std::string_view source) {
  auto made = ChatTemplate::parse(source);
  EXPECT_TRUE(made) << made.error().message();
  return std::move(made.value());
}

inline Json json(std::string_view text) {
  auto made = Json::parse(text);
  EXPECT_TRUE(made) << made.error().message();
  return std::move(made.value());
}

inline std::string rendered(std::string_view source, const ChatRequest& request) {
  const auto chat = parsed(source).render(request);
  EXPECT_TRUE(chat) << chat.error().message();
  return chat ? chat.value().text : "";
}

inline ChatRequest conversation() {
  ChatRequest request;
  request.messages = {{"user", " Hi "}, {"assistant", "Hello!"}, {"user", "2+2?"}};
  request.bos_token = "<s>";
  request.eos_token = "</s>";
  return request;
}
inline ChatRequest with_system() {
  ChatRequest request = conversation();
  request.messages.insert(request.messages.begin(), {"system", "Be brief."});
  return request;
}

}  // namespace outrider::text_test
