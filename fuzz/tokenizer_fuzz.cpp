// Arbitrary bytes as text, against fixed vocabularies.
//
// Properties, checked on every input:
// - encode accepts exactly the inputs that are valid UTF-8 and fit the scratch; it reports the same
//   count whatever the room, writes nothing beyond it, and gives ids of the vocabulary only;
// - it takes no heap;
// - with byte pieces, no unused pieces and no blank added, decode(encode(x)) is x with each U+2581
//   turned into a blank: for normal pieces and bytes always, and also where special pieces were
//   parsed, because these decode to their own text;
// - without parse_special no id is a control or unknown one.
// One byte of the input chooses the options, the rest is the text.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "base/utf8.h"
#include "text/pi_prompt.h"
#include "text/tokenizer.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
extern "C" size_t __sanitizer_get_current_allocated_bytes();
#define OUTRIDER_ALLOCATED_BYTES() __sanitizer_get_current_allocated_bytes()
#endif
#endif
#ifndef OUTRIDER_ALLOCATED_BYTES
#define OUTRIDER_ALLOCATED_BYTES() \
  size_t {                         \
    0                              \
  }
#endif

namespace outrider {
namespace {

constexpr size_t kMaxTextBytes = 4096;
constexpr int32_t kCanary = -77;

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "property broken: %s\n", what);
  std::abort();
}

SpmTokenizer make_tokenizer(bool add_space_prefix) {
  SpmVocab vocab;
  vocab.add_space_prefix = add_space_prefix;
  vocab.pieces = {{"<unk>", 0, PieceType::kUnknown},
                  {"<s>", 0, PieceType::kControl},
                  {"</s>", 0, PieceType::kControl}};
  for (int b = 0; b < 256; ++b) {
    char text[8];
    std::snprintf(text, sizeof(text), "<0x%02X>", b);
    vocab.pieces.push_back({text, 0, PieceType::kByte});
  }
  for (const char* text : {"\n", "\n\n", "<a", "a>b", "🤖"})
    vocab.pieces.push_back({text, 0, PieceType::kUserDefined});
  float score = 0;
  for (const char* text :
       {"aa", "aaaa", "ab", "ba", "▁a", "▁▁", "é", "éa", "<s", "/s", "语言", "a", "b", "▁", "s"})
    vocab.pieces.push_back(
        {text, static_cast<float>(static_cast<int>(score++) % 4), PieceType::kNormal});
  auto tokenizer = SpmTokenizer::from_vocab(std::move(vocab));
  require(static_cast<bool>(tokenizer), "the fixed vocabulary loads");
  return std::move(tokenizer.value());
}

std::string with_blanks(std::string text) {
  for (size_t at = text.find("▁"); at != std::string::npos; at = text.find("▁", at))
    text.replace(at, 3, " ");
  return text;
}

void check(const SpmTokenizer& tokenizer, std::string_view text, EncodeOptions options, size_t room,
           bool reversible) {
  static SpmTokenizer::Scratch scratch(kMaxTextBytes);
  static int32_t all[3 * kMaxTextBytes + 16];
  static int32_t few[256];
  few[room] = kCanary;

  const size_t heap_before = OUTRIDER_ALLOCATED_BYTES();
  const auto whole = tokenizer.encode(text, options, scratch, all);
  const auto part = tokenizer.encode(text, options, scratch, std::span(few).first(room));
  require(OUTRIDER_ALLOCATED_BYTES() == heap_before, "encode leaves the heap alone");

  const Code wanted = text.size() > kMaxTextBytes ? Code::kShape
                      : utf8_valid(text)          ? Code::kOk
                                                  : Code::kInvalid;
  require(whole.code == wanted && part.code == wanted, "the code follows from the text");
  require(whole.n_ids == part.n_ids, "the count does not depend on the room");
  require(few[room] == kCanary, "nothing is written beyond the room");
  if (wanted != Code::kOk) return;
  require(whole.n_ids <= std::size(all), "at most three ids per byte and blank");
  for (size_t i = 0; i < whole.n_ids; ++i) {
    require(all[i] >= 0 && all[i] < tokenizer.n_pieces(), "ids are of the vocabulary");
    if (i < room) require(few[i] == all[i], "the first ids are the same whatever the room");
    const PieceType type = tokenizer.vocab().pieces[all[i]].type;
    if (!options.parse_special && !options.add_special)
      require(type != PieceType::kControl && type != PieceType::kUnknown,
              "plain text has no control ids");
  }
  if (!reversible || options.add_special) return;
  require(tokenizer.decode({all, whole.n_ids}) == with_blanks(std::string(text)),
          "decode gives the text back");
}

}  // namespace
}  // namespace outrider

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t n_bytes) {
  using namespace outrider;
  static const SpmTokenizer plain = make_tokenizer(false), prefixed = make_tokenizer(true);
  if (n_bytes == 0) return 0;
  const EncodeOptions options{.add_special = (data[0] & 1) != 0,
                              .parse_special = (data[0] & 2) != 0};
  const std::string_view text(reinterpret_cast<const char*>(data + 1), n_bytes - 1);
  const size_t room = data[0] >> 2;
  check(plain, text, options, room, true);
  check(prefixed, text, options, room, false);

  const std::string cleaned = clean_instruction(text);
  require(cleaned.size() <= text.size(), "cleaning never lengthens");
  require(!utf8_valid(text) || utf8_valid(cleaned), "cleaning keeps UTF-8");
  return 0;
}
