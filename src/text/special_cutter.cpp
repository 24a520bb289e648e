#include "text/special_cutter.h"

#include <algorithm>

#include "base/assert.h"

namespace outrider {
namespace {

// True when `a` is cut after `b`: the order of the rule, for a heap with the first cut on top.
bool later(const SpecialCutter::Candidate& a, const SpecialCutter::Candidate& b) noexcept {
  if (a.bytes != b.bytes) return a.bytes < b.bytes;
  if (a.id != b.id) return a.id > b.id;
  return a.at > b.at;
}

}  // namespace

void SpecialCutter::cut(std::string_view text, size_t begin, size_t end,
                        Scratch& scratch) const noexcept {
  OUTRIDER_ASSERT(begin <= end && end <= text.size() && text.size() <= scratch.mark.size());
  const auto heap = scratch.heap.begin();
  ptrdiff_t n_heap = 0;
  int32_t state = 0;
  for (size_t at = end; at-- > begin;) {
    state = step(state, text[at]);
    scratch.node[at] = state;
    scratch.mark[at] = Mark::kRaw;
    if (const int32_t best = nodes_[state].terminal; best != 0)
      heap[n_heap++] = {nodes_[best].depth, nodes_[best].id, static_cast<uint32_t>(at)};
  }
  std::make_heap(heap, heap + n_heap, later);

  while (n_heap > 0) {
    std::pop_heap(heap, heap + n_heap, later);
    const Candidate top = heap[--n_heap];
    if (scratch.mark[top.at] != Mark::kRaw) continue;
    // Every earlier cut is at least as long as this one: an overlap reaches one of its two ends.
    if (scratch.mark[top.at + top.bytes - 1] != Mark::kRaw) {
      size_t room = 1;
      while (scratch.mark[top.at + room] == Mark::kRaw) ++room;
      if (const int32_t best = longest_within(scratch.node[top.at], room); best != 0) {
        heap[n_heap++] = {nodes_[best].depth, nodes_[best].id, top.at};
        std::push_heap(heap, heap + n_heap, later);
      }
      continue;
    }
    std::fill_n(scratch.mark.begin() + top.at, top.bytes, Mark::kInside);
    scratch.mark[top.at] = Mark::kStart;
    scratch.node[top.at] = top.id;
  }
}

void SpecialCutter::build(std::span<const Piece> pieces, std::span<const int32_t> ids) {
  nodes_.assign(1, Node{});
  root_children_.fill(0);
  for (const int32_t id : ids) insert(pieces[id], id);
  link();
}

void SpecialCutter::insert(const Piece& piece, int32_t id) {
  if (piece.text.empty()) return;
  int32_t at = 0;
  for (size_t i = piece.text.size(); i-- > 0;) {
    const char byte = piece.text[i];
    int32_t next = child(at, byte);
    if (next == 0) {
      next = static_cast<int32_t>(nodes_.size());
      Node node;
      node.byte = byte;
      node.depth = nodes_[at].depth + 1;
      node.next_sibling = nodes_[at].first_child;
      nodes_.push_back(node);
      nodes_[at].first_child = next;
      if (at == 0) root_children_[static_cast<unsigned char>(byte)] = next;
    }
    at = next;
  }
  nodes_[at].id = id;
}

// Breadth first, so that the suffix of a node is linked before the node itself.
void SpecialCutter::link() {
  std::vector<int32_t> queue{0};
  queue.reserve(nodes_.size());
  for (size_t i = 0; i < queue.size(); ++i) {
    const int32_t parent = queue[i];
    for (int32_t at = nodes_[parent].first_child; at != 0; at = nodes_[at].next_sibling) {
      Node& node = nodes_[at];
      node.fail = parent == 0 ? 0 : step(nodes_[parent].fail, node.byte);
      node.shorter = nodes_[node.fail].terminal;
      node.terminal = node.id >= 0 ? at : node.shorter;
      queue.push_back(at);
    }
  }
}

int32_t SpecialCutter::child(int32_t node, char byte) const noexcept {
  if (node == 0) return root_children_[static_cast<unsigned char>(byte)];
  int32_t at = nodes_[node].first_child;
  while (at != 0 && nodes_[at].byte != byte) at = nodes_[at].next_sibling;
  return at;
}

int32_t SpecialCutter::step(int32_t node, char byte) const noexcept {
  while (true) {
    const int32_t next = child(node, byte);
    if (next != 0 || node == 0) return next;
    node = nodes_[node].fail;
  }
}

// The longest piece of this state with at most max_bytes, as its node; 0 when there is none.
int32_t SpecialCutter::longest_within(int32_t node, size_t max_bytes) const noexcept {
  int32_t at = nodes_[node].terminal;
  while (at != 0 && nodes_[at].depth > max_bytes) at = nodes_[at].shorter;
  return at;
}

}  // namespace outrider
