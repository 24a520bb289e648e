// Cuts a text at the exact texts of special pieces, before anything else looks at it.
//
// The rule: pieces are tried one after the other, longest text first (equal lengths: lower id
// first); each cuts every raw fragment that is left, leftmost occurrence first. Done here in one
// scan and a heap of at most one entry per byte, whatever the number of pieces; the naive form is
// the oracle in tests/text/special_cutter_test.cpp.
// Source: gguf-models.md C.1.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace outrider {

class SpecialCutter {
 public:
  // What `cut` leaves behind, per byte of the text.
  enum class Mark : uint8_t { kRaw, kStart, kInside };

  struct Candidate {
    uint32_t bytes;
    int32_t id;
    uint32_t at;
  };
  struct Scratch {
    explicit Scratch(size_t max_text_bytes)
        : node(max_text_bytes), mark(max_text_bytes), heap(max_text_bytes) {}
    std::vector<int32_t> node;  // state of the automaton; at a kStart: the id of the piece
    std::vector<Mark> mark;
    std::vector<Candidate> heap;
  };

  // [setup] ids: the special pieces of `pieces`; empty texts are left out.
  void build(std::span<const Piece> pieces, std::span<const int32_t> ids);

  // [hot] Fills scratch.mark[0 .. text.size()) and, where a mark is kStart, scratch.node with the
  // id.
  void cut(std::string_view text, Scratch& scratch) const noexcept {
    cut(text, 0, text.size(), scratch);
  }
  // [hot] The same for the bytes [begin, end) alone: no piece reaches across.
  void cut(std::string_view text, size_t begin, size_t end, Scratch& scratch) const noexcept;

 private:
  // An automaton over the reversed pieces: read from right to left, its state at a byte knows every
  // piece that starts there, longest first along `terminal` and `shorter`.
  struct Node {
    int32_t first_child = 0, next_sibling = 0;  // 0: none; the root is nobody's child
    int32_t fail = 0;                           // longest proper suffix that is a node
    int32_t terminal = 0;                       // this node or the nearest one that ends a piece
    int32_t shorter = 0;                        // the next terminal behind this one
    int32_t id = -1;                            // of the piece that ends here
    uint32_t depth = 0;
    char byte = 0;
  };
  int32_t child(int32_t node, char byte) const noexcept;
  int32_t step(int32_t node, char byte) const noexcept;
  int32_t longest_within(int32_t node, size_t max_bytes) const noexcept;
  void insert(const Piece& piece, int32_t id);
  void link();

  std::vector<Node> nodes_{1};
  std::array<int32_t, 256> root_children_{};
};

}  // namespace outrider
