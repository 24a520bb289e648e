#include "models/synthetic_vocab.h"

#include <algorithm>
#include <cstdio>
#include <set>
#include <string>
#include <vector>

#include "base/assert.h"

namespace outrider {
namespace {

constexpr std::string_view kBlank = "\xE2\x96\x81";  // U+2581

constexpr std::string_view kWords[] = {
    // Frame of the PI0.5 prompt.
    "=Task",
    "State",
    "=Action",
    // Verbs, with the bare form where they begin an instruction.
    "pick",
    "=pick",
    "place",
    "=place",
    "put",
    "=put",
    "push",
    "=push",
    "pull",
    "open",
    "=open",
    "close",
    "=close",
    "move",
    "=move",
    "grasp",
    "lift",
    "release",
    "turn",
    "the",
    "up",
    "into",
    "on",
    "to",
    "left",
    "right",
    "red",
    "block",
    "blue",
    "cube",
    "and",
    "in",
    "of",
    "cup",
    "green",
    "bowl",
    "drawer",
    "gripper",
    "towel",
    "fold",
    "wipe",
    "table",
    "tray",
    "box",
    "a",
    "down",
    "from",
    "with",
    "under",
    "over",
    "yellow",
    "plate",
    "lid",
    "bottle",
    "stack",
    "slowly",
    "next",
    "front",
    "back",
    "behind",
    "between",
    "black",
    "white",
    "orange",
    "small",
    "large",
    "round",
    "top",
    "bottom",
    "middle",
    "handle",
    "door",
    "button",
    "switch",
    "press",
    "pour",
    "water",
    "shelf",
    "hand",
    "arm",
    "both",
    "then",
    "stop",
    "wait",
    "return",
    "home",
    "object",
    "spoon",
    "fork",
    "knife",
    "pan",
    "pot",
    "sponge",
    "cloth",
    "bin",
    "basket",
    "insert",
    "peg",
    "hole",
    "socket",
    "plug",
    "cable",
    "screw",
    "bolt",
    "nut",
    "tool",
    "hammer",
    "unscrew",
    "align",
    "rotate",
    "flip",
    "slide",
    "sweep",
    "stir",
    "shake",
    "hang",
    "hook",
    "ring",
    "ball",
    "toy",
    "book",
    "pen",
    "paper",
    "carrot",
    "apple",
    "banana",
    "lemon",
    "tomato",
    "bread",
    "egg",
    "kettle",
    "microwave",
    "oven",
    "sink",
    "faucet",
    "dish",
    "washer",
    "laundry",
    "shirt",
    "sock",
    "zip",
    "clear",
    "clean",
    "sort",
    "pack",
    "unpack",
    "load",
    "unload",
    "carry",
    "deliver",
    "hold",
    "give",
    "take",
    "reach",
    "touch",
    "drop",
    "throw",
    "catch",
    "cut",
    "peel",
    "slice",
    "scoop",
    "serve",
    "set",
    "all",
    "each",
    "every",
    "one",
    "two",
    "three",
    "first",
    "second",
    "last",
    "same",
    "other",
    "near",
    "far",
    "inside",
    "outside",
    "away",
    "toward",
    "around",
    "across",
    "along",
    "above",
    "below",
    "corner",
    "edge",
    "center",
    "side",
    "is",
    "are",
    "not",
    "do",
    "it",
    "its",
    "without",
    "spilling",
    "carefully",
    "quickly",
    "gently",
    "robot",
    "camera",
    "wrist",
    "finger",
    "base",
    "wheel",
    "walk",
    "forward",
    "backward",
    "stand",
    "sit",
    "kick",
    "step",
    "stairs",
    "room",
    "kitchen",
    "floor",
    "wall",
    "window",
    "chair",
};

// Text of a listed word as it stands in the vocabulary.
std::string piece_of(std::string_view word) {
  if (word.front() == '=') return std::string(word.substr(1));
  return std::string(kBlank) + std::string(word);
}

// Every beginning of two characters or more: what merging passes through on its way to the piece.
std::vector<std::string> beginnings(const std::string& piece) {
  size_t first = piece.starts_with(kBlank) ? kBlank.size() : 1;
  std::vector<std::string> out;
  for (size_t n = first + 1; n <= piece.size(); ++n) out.push_back(piece.substr(0, n));
  return out;
}

size_t n_characters(const std::string& piece) {
  return piece.size() - (piece.starts_with(kBlank) ? kBlank.size() - 1 : 0);
}

// Beginnings of as many words as fit, short ones first: a beginning must score above what it grows
// to.
std::vector<std::string> merged_pieces(size_t n_most) {
  std::vector<std::string> out;
  std::set<std::string> seen;
  for (const std::string_view word : kWords) {
    std::vector<std::string> fresh;
    for (std::string& b : beginnings(piece_of(word)))
      if (!seen.contains(b)) fresh.push_back(std::move(b));
    if (out.size() + fresh.size() > n_most) break;
    seen.insert(fresh.begin(), fresh.end());
    out.insert(out.end(), fresh.begin(), fresh.end());
  }
  std::stable_sort(out.begin(), out.end(), [](const std::string& a, const std::string& b) {
    return n_characters(a) < n_characters(b);
  });
  return out;
}

std::string numbered(const char* format, int64_t n) {
  char text[32];
  std::snprintf(text, sizeof text, format, static_cast<long long>(n));
  return text;
}

void add_fixed_ids(std::vector<Piece>& pieces) {
  pieces = {{"<pad>", 0, PieceType::kControl},
            {"<eos>", 0, PieceType::kControl},
            {"<bos>", 0, PieceType::kControl},
            {"<unk>", 0, PieceType::kUnknown}};
  while (pieces.size() < 106)
    pieces.push_back({numbered("<reserved%lld>", int64_t(pieces.size())), 0, PieceType::kUnused});
  const char* markers[] = {"<file_prefix>", "<file_middle>", "<file_suffix>", "<file_separator>"};
  for (size_t i = 0; i < 4; ++i) pieces[67 + i] = {markers[i], 0, PieceType::kControl};
  pieces.push_back({"<start_of_turn>", 0, PieceType::kControl});
  pieces.push_back({"<end_of_turn>", 0, PieceType::kControl});
  pieces.push_back({"\n", 0, PieceType::kUserDefined});
  for (int64_t byte = 0; byte < 256; ++byte)
    pieces.push_back({numbered("<0x%02llX>", byte), 0, PieceType::kByte});
}

}  // namespace

std::span<const std::string_view> synthetic_words() {
  return kWords;
}

SpmVocab synthetic_vocab(int64_t n_pieces) {
  OUTRIDER_ASSERT(n_pieces >= kSyntheticVocabMin);
  SpmVocab vocab;
  add_fixed_ids(vocab.pieces);
  std::vector<std::string> singles = {std::string(kBlank)};
  for (char c = 0x21; c < 0x7F; ++c) singles.push_back(std::string(1, c));
  const size_t room = size_t(n_pieces) - vocab.pieces.size() - singles.size();
  float score = 0;
  const auto add_normal = [&](const std::string& text) {
    vocab.pieces.push_back({text, score, PieceType::kNormal});
    score -= 1;
  };
  for (const std::string& piece : merged_pieces(room)) add_normal(piece);
  for (const std::string& single : singles) add_normal(single);
  while (int64_t(vocab.pieces.size()) < n_pieces)
    vocab.pieces.push_back(
        {numbered("<spare%lld>", int64_t(vocab.pieces.size())), -1e4f, PieceType::kUnused});
  vocab.bos = 2, vocab.eos = 1, vocab.unk = 3, vocab.pad = 0;
  vocab.add_space_prefix = false;
  return vocab;
}

}  // namespace outrider
