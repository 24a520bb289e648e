// Regular sets of byte strings: put together from parts, then made deterministic.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace outrider {

class ByteNfa {
 public:
  // A part: what leads from its first to its last state. Each may be used once.
  struct Part {
    uint32_t first = 0, last = 0;
  };
  explicit ByteNfa(size_t max_states) : max_states_(max_states) {}

  Part nothing();  // the empty string
  Part bytes(std::string_view text);
  Part range(uint8_t low, uint8_t high);
  Part any_of(std::string_view bytes);  // one of these bytes
  Part then(Part a, Part b);
  Part either(std::span<const Part> parts);  // not empty
  Part either(std::initializer_list<Part> parts) {
    return either(std::span(parts.begin(), parts.size()));
  }
  Part maybe(Part a);
  Part many(Part a);  // none or more
  // min .. max times what `make` makes anew each time; max UINT32_MAX: no end.
  template <class F>
  Part repeat(uint32_t min, uint32_t max, F&& make) {
    Part all = nothing();
    for (uint32_t i = 0; i < min && !full(); ++i) all = then(all, make());
    if (max == UINT32_MAX) return then(all, many(make()));
    // (x(x(x)?)?)?: every optional part ends at the same state.
    const uint32_t end = state();
    empty_edge(all.last, end);
    for (uint32_t i = min; i < max && !full(); ++i) {
      all = then(all, make());
      empty_edge(all.last, end);
    }
    return {all.first, end};
  }
  // More states were asked for than allowed: what is there is not whole.
  bool full() const { return states_.size() > max_states_; }
  size_t n_states() const { return states_.size(); }

 private:
  friend class ByteDfa;
  struct Edge {
    uint8_t low, high;
    uint32_t to;
  };
  struct State {
    std::vector<Edge> edges;
    std::vector<uint32_t> empty;
  };
  uint32_t state();
  void empty_edge(uint32_t from, uint32_t to) { states_[from].empty.push_back(to); }

  size_t max_states_;
  std::vector<State> states_;
};

class ByteDfa {
 public:
  static constexpr uint32_t kDead = UINT32_MAX;

  // [setup] Errors: kInvalid naming the limit.
  static Result<ByteDfa> build(const ByteNfa& nfa, ByteNfa::Part whole, size_t max_states);

  // [hot]
  uint32_t step(uint32_t state, uint8_t byte) const noexcept {
    return next_[size_t{state} * 256 + byte];
  }
  bool accepts(uint32_t state) const noexcept { return accepting_[state] != 0; }
  uint32_t start() const noexcept { return 0; }
  size_t n_states() const noexcept { return accepting_.size(); }

 private:
  std::vector<uint32_t> next_;
  std::vector<uint8_t> accepting_;
};

}  // namespace outrider
