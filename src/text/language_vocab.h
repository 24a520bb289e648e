// What a model file or a tokenizer.json says about a tokenizer, before anything is built from it.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "text/bpe_merge.h"
#include "text/tokenizer.h"

namespace outrider {

enum class TokenizerKind : uint8_t {
  kSentencePiece,  // characters joined by score
  kByteBpe,        // bytes as printable stand-ins, joined by rank inside words
  kCharBpe,        // characters joined by rank, byte pieces for unknown ones
  kUnigram,
};

// When a blank goes in front of a raw fragment.
enum class BlankPrefix : uint8_t {
  kNone,
  kAlways,           // also when one is there
  kUnlessThere,      // in front of every fragment
  kFirstUnlessThere  // only where the text itself begins
};

inline constexpr uint8_t kStripLeft = 1, kStripRight = 2;  // white space beside a special piece

struct LanguageVocab {
  TokenizerKind kind = TokenizerKind::kSentencePiece;
  std::vector<Piece> pieces;
  std::vector<uint8_t> strips;  // per piece, or empty
  int32_t bos = -1, eos = -1, unk = -1, pad = -1;
  bool add_bos = false, add_eos = false;
  BlankPrefix prefix = BlankPrefix::kNone;  // not for kSentencePiece: see add_space_prefix
  bool add_space_prefix = false;            // kSentencePiece
  bool blanks = false;                      // ' ' is U+2581 in pieces
  bool nfc = false;                         // fragments are normalised first
  bool byte_pieces = false;                 // unknown characters become <0xNN>
  bool fuse_unknown = false;
  bool whole_words = false;  // a word that is a piece is taken at once
  struct Split {
    std::string pattern;
    bool drop_gaps = false;  // what no match covers is left out
  };
  std::vector<Split> splits;
  std::vector<BpeMerges::Pair> merges;  // views into the file that this was read from
  std::vector<int32_t> more_ends;       // eot, eom and the infill ids, as given
  std::vector<std::pair<std::string, std::string>> chat_templates;  // "" is the default
};

// The file must outlive the use of `merges`.
Result<LanguageVocab> read_gguf_vocab(const GgufFile& file);

// [setup] tokenizer.json and, when not empty, tokenizer_config.json. The documents must outlive the
// use of `merges`.
Result<LanguageVocab> read_json_vocab(const Json& tokenizer, const Json* config,
                                      const std::string& name);

}  // namespace outrider
