// Arbitrary bytes as a chat template, rendered with a fixed conversation.
//
// Properties: parsing and rendering end within their limits; refusals name a line or a limit; the
// output is UTF-8 and no longer than allowed; foreign parts are in order and inside it; and nothing
// that a message brought stands outside of them. The message's mark is a character that a template
// can only write by naming it.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "base/utf8.h"
#include "text/chat_template.h"

namespace outrider {
namespace {

constexpr std::string_view kMark = "\xC2\xA7";  // U+00A7

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "property broken: %s\n", what);
  std::abort();
}

const ChatRequest& request() {
  static const Json tools = Json::parse(
                                "[{\"type\":\"function\",\"function\":{\"name\":\"\xC2\xA7go\","
                                "\"\xC2\xA7\":[1,2.5,null]}}]")
                                .value();
  static const Json variables =
      Json::parse("{\"x\":\"\xC2\xA7 a \xC2\xA7\",\"n\":3,\"l\":[\"\xC2\xA7\",\"b\"]}").value();
  static const ChatRequest fixed{.messages = {{"system", "\xC2\xA7 be brief"},
                                              {"user", "hi \xC2\xA7\n"},
                                              {"assistant", "", {{true, ""}, {false, "\xC2\xA7"}}}},
                                 .bos_token = "<s>",
                                 .eos_token = "</s>",
                                 .tools = &tools,
                                 .variables = &variables,
                                 .now_s = 1700000000};
  return fixed;
}

}  // namespace
}  // namespace outrider

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t n_bytes) {
  using namespace outrider;
  const std::string_view source(reinterpret_cast<const char*>(data), n_bytes);
  const ChatTemplate::Limits limits{
      .max_source_bytes = 8192, .max_depth = 64, .max_steps = 50'000, .max_output_bytes = 65536};
  const auto made = ChatTemplate::parse(source, limits);
  if (!made) {
    require(!made.error().message().empty(), "a refusal has a message");
    return 0;
  }
  const auto chat = made.value().render(request());
  if (!chat) {
    require(chat.error().message().starts_with("chat template line "), "a refusal names the line");
    return 0;
  }
  const std::string& text = chat.value().text;
  require(text.size() <= limits.max_output_bytes, "the output keeps its limit");
  require(utf8_valid(text), "the output is UTF-8");
  std::string own;
  size_t at = 0;
  for (const ForeignText& part : chat.value().foreign) {
    require(part.begin >= at && part.end > part.begin && part.end <= text.size(),
            "foreign parts are in order");
    own += text.substr(at, part.begin - at);
    at = part.end;
  }
  own += text.substr(at);
  const bool named = source.find(kMark) != source.npos || source.find("a7") != source.npos ||
                     source.find("A7") != source.npos;
  require(named || own.find(kMark) == own.npos, "what a message brought is marked");
  return 0;
}
