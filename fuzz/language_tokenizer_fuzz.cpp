// A tokenizer.json and a text for it, parted by a NUL byte; the first byte chooses the options.
//
// Properties: what loads encodes every valid text without a crash, reports the same count whatever
// the room, gives ids of the vocabulary only, none of them control without parse_special; what the
// detokenizer gives is UTF-8 and, joined, does not depend on how the bytes are cut into ids.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "base/utf8.h"
#include "text/detokenizer.h"
#include "text/language_tokenizer.h"

namespace outrider {
namespace {

constexpr size_t kMaxTextBytes = 512;

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "property broken: %s\n", what);
  std::abort();
}

void check(const LanguageTokenizer& tokenizer, std::string_view text, uint8_t options_byte) {
  text = text.substr(0, kMaxTextBytes);
  const ForeignText part{text.size() / 4, text.size() / 2};
  TokenizeOptions options{.add_special = (options_byte & 1) != 0,
                          .parse_special = (options_byte & 2) != 0,
                          .bos_once = (options_byte & 4) != 0};
  if ((options_byte & 8) != 0) options.foreign = {&part, 1};
  LanguageTokenizer::Scratch scratch(tokenizer, kMaxTextBytes);
  std::vector<int32_t> ids(8 * kMaxTextBytes);
  const auto whole = tokenizer.encode(text, options, scratch, ids);
  const auto few = tokenizer.encode(text, options, scratch, std::span(ids).first(3));
  require(whole.code == few.code && whole.n_ids == few.n_ids,
          "the count does not depend on the room");
  require(whole.code == Code::kFailed || (whole.code == Code::kOk) == utf8_valid(text),
          "the code follows from the text");
  if (whole.code != Code::kOk) return;
  require(whole.n_ids <= ids.size(), "at most a few ids a byte");
  ids.resize(whole.n_ids);
  tokenizer.encode(text, options, scratch, ids);
  Detokenizer detokenizer(tokenizer);
  std::string joined;
  for (const int32_t id : ids) {
    require(id >= 0 && id < tokenizer.n_pieces(), "ids are of the vocabulary");
    const PieceType type = tokenizer.piece(id).type;
    if (!options.parse_special && !options.add_special)
      require(type != PieceType::kControl, "plain text has no control ids");
    const std::string_view now = detokenizer.push(id);
    require(utf8_valid(now), "parts of a text are UTF-8");
    joined += now;
  }
  joined += detokenizer.finish();
  require(utf8_valid(joined), "a text is UTF-8");
  const std::string bytes = tokenizer.decode(ids, false);
  require(!utf8_valid(bytes) || joined == bytes, "valid bytes come out as they are");
}

}  // namespace
}  // namespace outrider

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t n_bytes) {
  using namespace outrider;
  if (n_bytes == 0) return 0;
  const std::string_view all(reinterpret_cast<const char*>(data + 1), n_bytes - 1);
  const size_t cut = std::min(all.find('\0'), all.size());
  const auto tokenizer = LanguageTokenizer::from_json(all.substr(0, cut), "", "fuzz");
  require(bool(tokenizer) || !tokenizer.error().message().empty(), "a refusal has a message");
  if (tokenizer) check(tokenizer.value(), all.substr(std::min(cut + 1, all.size())), data[0]);
  return 0;
}
