#include "text/token_trie.h"

#include <algorithm>

namespace outrider {

TokenTrie::TokenTrie(const LanguageTokenizer& tokenizer)
    : next_id_(static_cast<size_t>(tokenizer.n_pieces()), -1) {
  std::vector<int32_t> ids;
  for (int32_t id = 0; id < tokenizer.n_pieces(); ++id) {
    const PieceType type = tokenizer.piece(id).type;
    const bool writes =
        type == PieceType::kNormal || type == PieceType::kUserDefined || type == PieceType::kByte;
    if (writes && !tokenizer.ends_generation(id) && !tokenizer.bytes(id).empty()) ids.push_back(id);
  }
  const auto unsigned_less = [&](int32_t a, int32_t b) {
    const std::string_view x = tokenizer.bytes(a), y = tokenizer.bytes(b);
    const int order = x.compare(y);  // char_traits compares as unsigned bytes
    return order != 0 ? order < 0 : a < b;
  };
  std::sort(ids.begin(), ids.end(), unsigned_less);
  std::vector<uint32_t> path;  // nodes from the root to the last piece
  std::string_view previous;
  const auto close_to = [&](size_t depth) {
    while (path.size() > depth) {
      nodes_[path.back()].end = static_cast<uint32_t>(nodes_.size());
      path.pop_back();
    }
  };
  for (const int32_t id : ids) {
    const std::string_view text = tokenizer.bytes(id);
    size_t common = 0;
    while (common < std::min(text.size(), previous.size()) && text[common] == previous[common])
      ++common;
    close_to(common);
    for (size_t i = common; i < text.size(); ++i) {
      path.push_back(static_cast<uint32_t>(nodes_.size()));
      nodes_.push_back({static_cast<uint8_t>(text[i]), static_cast<uint16_t>(i + 1), 0, -1});
    }
    Node& last = nodes_[path.back()];
    next_id_[static_cast<size_t>(id)] = last.first_id;
    last.first_id = id;
    if (text.size() == 1) bytes_[static_cast<uint8_t>(text[0])] = true;
    longest_ = std::max(longest_, text.size());
    previous = text;
  }
  close_to(0);
}

}  // namespace outrider
