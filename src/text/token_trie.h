// All pieces that add bytes to a text, in one tree of their bytes, laid out so that a subtree is
// skipped in one step.
#pragma once
#include <cstdint>
#include <vector>

#include "text/language_tokenizer.h"

namespace outrider {

class TokenTrie {
 public:
  // [setup] Leaves out control, unknown and unused pieces, those that end a generation, and empty
  // texts.
  explicit TokenTrie(const LanguageTokenizer& tokenizer);

  struct Node {
    uint8_t byte = 0;
    uint16_t depth = 0;     // 1 for the first byte of a piece
    uint32_t end = 0;       // the node behind this one's subtree
    int32_t first_id = -1;  // a piece that ends here; others with the same bytes by next_id
  };
  const std::vector<Node>& nodes() const { return nodes_; }  // preorder
  int32_t next_id(int32_t id) const { return next_id_[static_cast<size_t>(id)]; }
  size_t longest() const { return longest_; }
  bool has_byte(uint8_t byte) const { return bytes_[byte]; }  // as a piece of its own

 private:
  std::vector<Node> nodes_;
  std::vector<int32_t> next_id_;
  size_t longest_ = 0;
  bool bytes_[256] = {};
};

}  // namespace outrider
