// A JSON schema, then NUL, then bytes that choose among the allowed ids.
//
// Properties: compiling ends within its limits; in every state that is reached some id is allowed;
// an id is taken exactly when it is allowed; what is written when an end is taken is JSON.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "text/constraint.h"

namespace outrider {
namespace {

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "property broken: %s\n", what);
  std::abort();
}

// SentencePiece style with all bytes, and pieces that reach over the borders of JSON tokens.
LanguageTokenizer make_tokenizer() {
  std::string vocab = "\"<unk>\":0,\"</s>\":1";
  size_t next = 2;
  for (int b = 0; b < 256; ++b) {
    char text[24];
    std::snprintf(text, sizeof text, ",\"<0x%02X>\":%zu", static_cast<unsigned>(b), next++);
    vocab += text;
  }
  for (const char* piece :
       {"{\\\"", "\\\":", "\\\",\\\"", "true", "\\\"}", "]}", "12", "\xC3\xA9\\\"", ", \\\""})
    vocab += std::string(",\"") + piece + "\":" + std::to_string(next++);
  auto made = LanguageTokenizer::from_json(
      "{\"added_tokens\":[{\"id\":1,\"content\":\"</"
      "s>\",\"special\":true}],\"model\":{\"type\":\"BPE\","
      "\"byte_fallback\":true,\"unk_token\":\"<unk>\",\"vocab\":{" +
          vocab + "},\"merges\":[]}}",
      "", "fixed");
  require(bool(made), "the fixed vocabulary loads");
  return std::move(made.value());
}

}  // namespace
}  // namespace outrider

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t n_bytes) {
  using namespace outrider;
  static const LanguageTokenizer tokenizer = make_tokenizer();
  const std::string_view all(reinterpret_cast<const char*>(data), n_bytes);
  const size_t cut = std::min(all.find('\0'), all.size());
  const auto schema = Json::parse(all.substr(0, cut));
  if (!schema) return 0;
  const Constraint::Limits limits{
      .max_states = 800, .max_mask_bytes = size_t{1} << 20, .max_depth = 8, .free_depth = 1};
  const auto made = Constraint::compile(schema.value(), tokenizer, limits);
  if (!made) {
    require(!made.error().message().empty(), "a refusal has a message");
    return 0;
  }
  const Constraint& constraint = made.value();
  Constraint::State state = constraint.start();
  std::string text;
  for (const char choice : all.substr(std::min(cut + 1, all.size()))) {
    const TokenMask mask = constraint.allowed(state);
    std::vector<int32_t> next;
    for (int32_t id = 0; id < tokenizer.n_pieces(); ++id) {
      const bool allowed = (mask[static_cast<size_t>(id) / 64] >> (id % 64) & 1) != 0;
      Constraint::State copy = state;
      require(constraint.advance(copy, id) == allowed, "an id is taken exactly when it is allowed");
      if (allowed) next.push_back(id);
    }
    require(!next.empty(), "some id is allowed");
    const int32_t id = next[static_cast<uint8_t>(choice) % next.size()];
    constraint.advance(state, id);
    if (!state.ended) {
      text += tokenizer.bytes(id);
      continue;
    }
    const auto value = Json::parse(text);
    const std::string why(value ? "" : value.error().message());
    require(bool(value) || why.find("a second time") != why.npos, "what was written is JSON");  // keys of a
    break;  // free mapping may come twice
  }
  return 0;
}
