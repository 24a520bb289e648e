#include "text/byte_automaton.h"

#include <algorithm>
#include <map>

namespace outrider {

uint32_t ByteNfa::state() {
  states_.emplace_back();
  return static_cast<uint32_t>(states_.size() - 1);
}

ByteNfa::Part ByteNfa::nothing() {
  const uint32_t one = state();
  return {one, one};
}

ByteNfa::Part ByteNfa::bytes(std::string_view text) {
  Part part = nothing();
  for (const char c : text) {
    if (full()) break;
    const uint32_t next = state();
    states_[part.last].edges.push_back({static_cast<uint8_t>(c), static_cast<uint8_t>(c), next});
    part.last = next;
  }
  return part;
}

ByteNfa::Part ByteNfa::range(uint8_t low, uint8_t high) {
  const uint32_t first = state(), last = state();
  states_[first].edges.push_back({low, high, last});
  return {first, last};
}

ByteNfa::Part ByteNfa::any_of(std::string_view bytes) {
  const uint32_t first = state(), last = state();
  for (const char c : bytes)
    states_[first].edges.push_back({static_cast<uint8_t>(c), static_cast<uint8_t>(c), last});
  return {first, last};
}

ByteNfa::Part ByteNfa::then(Part a, Part b) {
  empty_edge(a.last, b.first);
  return {a.first, b.last};
}

ByteNfa::Part ByteNfa::either(std::span<const Part> parts) {
  const uint32_t first = state(), last = state();
  for (const Part& part : parts) {
    empty_edge(first, part.first);
    empty_edge(part.last, last);
  }
  return {first, last};
}

ByteNfa::Part ByteNfa::maybe(Part a) {
  return either({a, nothing()});
}

ByteNfa::Part ByteNfa::many(Part a) {
  const uint32_t hub = state();
  empty_edge(hub, a.first);
  empty_edge(a.last, hub);
  return {hub, hub};
}

namespace {

using Set = std::vector<uint32_t>;

constexpr size_t kMembersPerState = 64;  // on average: what a set of states may hold

}  // namespace

Result<ByteDfa> ByteDfa::build(const ByteNfa& nfa, ByteNfa::Part whole, size_t max_states) {
  ByteDfa dfa;
  std::map<Set, uint32_t> numbers;
  std::vector<Set> sets;
  std::vector<uint8_t> seen(nfa.states_.size(), 0);
  // The states reached without a byte, ascending. `seen` is clean before and after.
  const auto closed = [&](Set set) {
    for (const uint32_t s : set) seen[s] = 1;
    for (size_t i = 0; i < set.size(); ++i)
      for (const uint32_t to : nfa.states_[set[i]].empty)
        if (seen[to] == 0) {
          seen[to] = 1;
          set.push_back(to);
        }
    for (const uint32_t s : set) seen[s] = 0;
    // Only states with edges, and the end, tell sets apart.
    std::erase_if(set, [&](uint32_t s) { return nfa.states_[s].edges.empty() && s != whole.last; });
    std::sort(set.begin(), set.end());
    return set;
  };
  const auto number = [&](Set set) {
    const auto [at, added] = numbers.emplace(set, static_cast<uint32_t>(sets.size()));
    if (added) sets.push_back(std::move(set));
    return at->second;
  };
  number(closed({whole.first}));
  std::vector<Set> targets(256);
  size_t n_members = 0;
  for (size_t i = 0; i < sets.size(); ++i) {
    n_members += sets[i].size();
    if (sets.size() > max_states || n_members > kMembersPerState * max_states)
      return make_error(Code::kInvalid,
                        "schema: its automaton has more than max_states %zu; bound its strings and "
                        "lists lower or split it",
                        max_states);
    for (Set& target : targets) target.clear();
    for (const uint32_t s : sets[i])
      for (const ByteNfa::Edge& edge : nfa.states_[s].edges)
        for (uint32_t b = edge.low; b <= edge.high; ++b) targets[b].push_back(edge.to);
    dfa.accepting_.push_back(std::binary_search(sets[i].begin(), sets[i].end(), whole.last) ? 1
                                                                                            : 0);
    dfa.next_.resize(dfa.accepting_.size() * 256, kDead);
    for (size_t b = 0; b < 256; ++b) {
      if (targets[b].empty()) continue;
      uint32_t& next = dfa.next_[i * 256 + b];
      if (b > 0 && targets[b] == targets[b - 1]) {
        next = dfa.next_[i * 256 + b - 1];
        continue;
      }
      Set set = targets[b];
      std::sort(set.begin(), set.end());
      set.erase(std::unique(set.begin(), set.end()), set.end());
      next = number(closed(std::move(set)));
    }
  }
  return dfa;
}

}  // namespace outrider
