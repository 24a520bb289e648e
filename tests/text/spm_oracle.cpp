#include "spm_oracle.h"

#include <algorithm>
#include <random>
#include <set>
#include <string>

#include "fixtures.h"

namespace outrider::text_test {
namespace {

constexpr const char* kAlphabet[] = {"a", "b", "c", " ", "\n", "<", ">", "é", "😀", "▁"};
constexpr const char* kForeign[] = {"Z", "ß", "語", "🤖"};

bool cuts(PieceType type, bool parse_special) {
  if (type == PieceType::kUserDefined) return true;
  return parse_special && (type == PieceType::kControl || type == PieceType::kUnknown);
}

int32_t find_piece(const SpmVocab& vocab, std::string_view text, bool parse_special) {
  for (size_t i = 0; i < vocab.pieces.size(); ++i) {
    const Piece& piece = vocab.pieces[i];
    if (piece.text.empty() || piece.text != text) continue;
    const bool control = piece.type == PieceType::kControl || piece.type == PieceType::kUnknown;
    return control && !parse_special ? -1 : static_cast<int32_t>(i);
  }
  return -1;
}

std::vector<std::string> characters(std::string_view text) {
  std::vector<std::string> chars;
  for (const char c : text) {
    if ((static_cast<unsigned char>(c) & 0xC0) == 0x80) {
      chars.back() += c;
    } else {
      chars.emplace_back(1, c);
    }
  }
  return chars;
}

void encode_raw(const SpmVocab& vocab, std::string_view raw, bool parse_special,
                std::vector<int32_t>& ids) {
  std::string text = vocab.add_space_prefix ? "▁" : "";
  for (const char c : raw) text += c == ' ' ? std::string("▁") : std::string(1, c);
  std::vector<std::string> symbols = characters(text);
  while (true) {
    size_t best = symbols.size();
    float best_score = 0;
    for (size_t i = 0; i + 1 < symbols.size(); ++i) {
      const int32_t id = find_piece(vocab, symbols[i] + symbols[i + 1], parse_special);
      if (id < 0) continue;
      if (best == symbols.size() || vocab.pieces[id].score > best_score) {
        best = i;
        best_score = vocab.pieces[id].score;
      }
    }
    if (best == symbols.size()) break;
    symbols[best] += symbols[best + 1];
    symbols.erase(symbols.begin() + static_cast<ptrdiff_t>(best) + 1);
  }
  const auto byte_id = [&](char c) {
    const std::string wanted = byte_piece(static_cast<unsigned char>(c));
    for (size_t i = 0; i < vocab.pieces.size(); ++i)
      if (vocab.pieces[i].text == wanted) return static_cast<int32_t>(i);
    return -1;
  };
  for (const std::string& symbol : symbols) {
    const int32_t id = find_piece(vocab, symbol, parse_special);
    if (id >= 0) {
      ids.push_back(id);
    } else if (byte_id('\0') < 0) {
      ids.push_back(vocab.unk);
    } else {
      for (const char c : symbol) ids.push_back(byte_id(c));
    }
  }
}

}  // namespace

std::vector<OracleFragment> oracle_cut(const SpmVocab& vocab, std::string_view text,
                                       bool parse_special) {
  std::vector<int32_t> specials;
  for (size_t i = 0; i < vocab.pieces.size(); ++i)
    if (cuts(vocab.pieces[i].type, parse_special) && !vocab.pieces[i].text.empty())
      specials.push_back(static_cast<int32_t>(i));
  std::stable_sort(specials.begin(), specials.end(), [&](int32_t a, int32_t b) {
    return vocab.pieces[a].text.size() > vocab.pieces[b].text.size();
  });

  std::vector<OracleFragment> fragments;
  if (!text.empty()) fragments.push_back({text});
  for (const int32_t id : specials) {
    const std::string& special = vocab.pieces[id].text;
    std::vector<OracleFragment> next;
    for (OracleFragment fragment : fragments) {
      if (fragment.id >= 0) {
        next.push_back(fragment);
        continue;
      }
      std::string_view left = fragment.text;
      for (size_t at = left.find(special); at != left.npos; at = left.find(special)) {
        if (at > 0) next.push_back({left.substr(0, at)});
        next.push_back({left.substr(at, special.size()), id});
        left.remove_prefix(at + special.size());
      }
      if (!left.empty()) next.push_back({left});
    }
    fragments = std::move(next);
  }
  return fragments;
}

std::vector<int32_t> oracle_encode(const SpmVocab& vocab, std::string_view text,
                                   EncodeOptions options) {
  std::vector<int32_t> ids;
  if (options.add_special && vocab.add_bos) ids.push_back(vocab.bos);
  for (const OracleFragment& fragment : oracle_cut(vocab, text, options.parse_special)) {
    if (fragment.id >= 0) {
      ids.push_back(fragment.id);
    } else {
      encode_raw(vocab, fragment.text, options.parse_special, ids);
    }
  }
  if (options.add_special && vocab.add_eos) ids.push_back(vocab.eos);
  return ids;
}

SpmVocab random_vocab(uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto below = [&](uint64_t n) { return random() % n; };
  SpmVocab vocab;
  vocab.pieces = {{"<unk>", 0, PieceType::kUnknown},
                  {"<s>", 0, PieceType::kControl},
                  {"</s>", 0, PieceType::kControl}};
  vocab.add_bos = below(2) != 0;
  vocab.add_eos = below(2) != 0;
  vocab.add_space_prefix = below(2) != 0;
  if (below(3) != 0) add_byte_pieces(vocab);
  std::set<std::string> used;
  const size_t n_pieces = 1 + below(60);
  for (size_t i = 0; i < n_pieces; ++i) {
    Piece piece;
    const size_t n_chars = 1 + below(below(4) == 0 ? 7 : 3);
    for (size_t k = 0; k < n_chars; ++k) piece.text += kAlphabet[below(std::size(kAlphabet))];
    if (!used.insert(piece.text).second) continue;
    piece.score = -static_cast<float>(below(6));
    const uint64_t kind = below(20);
    piece.type = kind < 4   ? PieceType::kUserDefined
                 : kind < 6 ? PieceType::kControl
                 : kind < 7 ? PieceType::kUnused
                 : kind < 8 ? PieceType::kUnknown
                            : PieceType::kNormal;
    vocab.pieces.push_back(piece);
  }
  return vocab;
}

std::string random_text(uint64_t seed, size_t n_chars) {
  std::mt19937_64 random(seed);
  std::string text;
  for (size_t i = 0; i < n_chars; ++i) {
    text += random() % 12 == 0 ? kForeign[random() % std::size(kForeign)]
                               : kAlphabet[random() % std::size(kAlphabet)];
  }
  return text;
}

}  // namespace outrider::text_test
