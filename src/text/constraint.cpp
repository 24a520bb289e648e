#include "text/constraint.h"

#include <algorithm>
#include <map>
#include <new>

#include "text/byte_automaton.h"
#include "text/json_grammar.h"
#include "text/token_trie.h"

namespace outrider {
namespace {

constexpr uint32_t kNoMask = UINT32_MAX;
constexpr size_t kNfaPerDfa = 16;  // parts of strings have many states that determinising joins

}  // namespace

struct Constraint::Tables {
  const LanguageTokenizer* tokenizer = nullptr;
  ByteDfa dfa;
  size_t mask_words = 0;
  std::vector<uint32_t> mask_of;  // per state of the automaton: which mask, or kNoMask
  std::vector<uint64_t> masks;    // one after the other; the first is empty, for the end
  size_t n_states = 0;            // with a mask

  std::span<const uint64_t> mask(uint32_t which) const noexcept {
    return std::span(masks).subspan(size_t{which} * mask_words, mask_words);
  }
};

namespace {

// Finds for every state that ids can lead to which ids may come next.
class MaskMaker {
 public:
  MaskMaker(const ByteDfa& dfa, const TokenTrie& trie, const LanguageTokenizer& tokenizer)
      : dfa_(dfa),
        trie_(trie),
        tokenizer_(tokenizer),
        n_words_((static_cast<size_t>(tokenizer.n_pieces()) + 63) / 64),
        path_(trie.longest() + 1) {}

  Result<void> run(size_t max_mask_bytes, std::vector<uint32_t>& mask_of,
                   std::vector<uint64_t>& masks) {
    reach();
    if (!every_byte_is_a_piece()) keep_those_with_a_way_out();
    if (!good_[dfa_.start()])
      return make_error(Code::kNotFound,
                        "schema: the vocabulary has no pieces to write any text that follows it");
    mask_of.assign(dfa_.n_states(), kNoMask);
    masks.assign(n_words_, 0);
    std::map<std::vector<uint64_t>, uint32_t> known;
    std::vector<uint64_t> mask(n_words_);
    for (const uint32_t state : reached_) {
      if (!good_[state]) continue;
      std::fill(mask.begin(), mask.end(), 0);
      walk(state, [&](int32_t id, uint32_t to) {
        if (good_[to]) mask[static_cast<size_t>(id) / 64] |= uint64_t{1} << (id % 64);
      });
      if (dfa_.accepts(state))
        for (const int32_t id : tokenizer_.end_ids())
          mask[static_cast<size_t>(id) / 64] |= uint64_t{1} << (id % 64);
      const auto next = static_cast<uint32_t>(masks.size() / n_words_);
      const auto [at, added] = known.emplace(mask, next);
      mask_of[state] = at->second;
      if (!added) continue;
      masks.insert(masks.end(), mask.begin(), mask.end());
      if (2 * masks.size() * sizeof(uint64_t) > max_mask_bytes)
        return make_error(
            Code::kInvalid,
            "schema: its masks for %d pieces need more than max_mask_bytes %zu; bound "
            "its strings lower",
            tokenizer_.n_pieces(), max_mask_bytes);
    }
    return {};
  }
  size_t n_reached() const { return reached_.size(); }

 private:
  // Every id that can follow in `from`, with the state it leads to.
  template <class F>
  void walk(uint32_t from, F&& found) {
    path_[0] = from;
    const auto& nodes = trie_.nodes();
    for (uint32_t i = 0; i < nodes.size();) {
      const TokenTrie::Node& node = nodes[i];
      const uint32_t to = dfa_.step(path_[node.depth - 1u], node.byte);
      if (to == ByteDfa::kDead) {
        i = node.end;
        continue;
      }
      path_[node.depth] = to;
      for (int32_t id = node.first_id; id >= 0; id = trie_.next_id(id)) found(id, to);
      ++i;
    }
  }

  void reach() {
    good_.assign(dfa_.n_states(), 0);
    reached_ = {dfa_.start()};
    good_[dfa_.start()] = 1;
    for (size_t i = 0; i < reached_.size(); ++i)
      walk(reached_[i], [&](int32_t, uint32_t to) {
        if (good_[to] != 0) return;
        good_[to] = 1;
        reached_.push_back(to);
      });
  }

  // Then every text can be written to its end, byte by byte if need be.
  bool every_byte_is_a_piece() const {
    for (uint32_t state = 0; state < dfa_.n_states(); ++state)
      for (uint32_t byte = 0; byte < 256; ++byte)
        if (dfa_.step(state, static_cast<uint8_t>(byte)) != ByteDfa::kDead &&
            !trie_.has_byte(static_cast<uint8_t>(byte)))
          return false;
    return true;
  }

  // Good: complete, or some id leads to a good one.
  void keep_those_with_a_way_out() {
    for (uint32_t state = 0; state < dfa_.n_states(); ++state)
      good_[state] = dfa_.accepts(state) ? 1 : 0;
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t i = reached_.size(); i-- > 0;) {
        if (good_[reached_[i]] != 0) continue;
        bool way = false;
        walk(reached_[i], [&](int32_t, uint32_t to) { way = way || good_[to] != 0; });
        if (!way) continue;
        good_[reached_[i]] = 1;
        changed = true;
      }
    }
  }

  const ByteDfa& dfa_;
  const TokenTrie& trie_;
  const LanguageTokenizer& tokenizer_;
  const size_t n_words_;
  std::vector<uint32_t> path_, reached_;
  std::vector<uint8_t> good_;
};

}  // namespace

Result<Constraint> Constraint::compile(const Json& schema, const LanguageTokenizer& tokenizer) {
  return compile(schema, tokenizer, Limits{});
}

Result<Constraint> Constraint::compile(const Json& schema, const LanguageTokenizer& tokenizer,
                                       const Limits& limits) {
  if (tokenizer.end_ids().empty())
    return make_error(Code::kNotFound, "schema: the vocabulary has no id that ends a generation");
  try {
    ByteNfa nfa(size_t{limits.max_states} * kNfaPerDfa);
    const auto whole =
        json_grammar(schema, {.max_depth = limits.max_depth, .free_depth = limits.free_depth}, nfa);
    if (!whole) return whole.error();
    if (nfa.full())
      return make_error(Code::kInvalid,
                        "schema: more parts than max_states %u allows; bound its strings and lists "
                        "lower or split it",
                        limits.max_states);
    auto tables = std::make_unique<Tables>();
    auto dfa = ByteDfa::build(nfa, whole.value(), limits.max_states);
    if (!dfa) return dfa.error();
    tables->dfa = std::move(dfa.value());
    tables->tokenizer = &tokenizer;
    tables->mask_words = (static_cast<size_t>(tokenizer.n_pieces()) + 63) / 64;
    const TokenTrie trie(tokenizer);
    MaskMaker maker(tables->dfa, trie, tokenizer);
    OUTRIDER_TRY(maker.run(limits.max_mask_bytes, tables->mask_of, tables->masks));
    tables->n_states = maker.n_reached();
    return Constraint(std::move(tables));
  } catch (const std::bad_alloc&) {
    return make_error(Code::kNoMemory, "schema: no memory for its automaton");
  }
}

Constraint::State Constraint::start() const noexcept {
  return {tables_->dfa.start(), false};
}

TokenMask Constraint::allowed(State state) const noexcept {
  return tables_->mask(state.ended ? 0 : tables_->mask_of[state.at]);
}

bool Constraint::advance(State& state, int32_t id) const noexcept {
  if (id < 0 || id >= tables_->tokenizer->n_pieces()) return false;
  const TokenMask mask = allowed(state);
  if ((mask[static_cast<size_t>(id) / 64] >> (id % 64) & 1) == 0) return false;
  if (tables_->tokenizer->ends_generation(id)) {
    state.ended = true;
    return true;
  }
  for (const char c : tables_->tokenizer->bytes(id))
    state.at = tables_->dfa.step(state.at, static_cast<uint8_t>(c));
  return true;
}

bool Constraint::complete(State state) const noexcept {
  return state.ended || tables_->dfa.accepts(state.at);
}
size_t Constraint::n_states() const noexcept {
  return tables_->n_states;
}
size_t Constraint::mask_bytes() const noexcept {
  return tables_->masks.size() * sizeof(uint64_t);
}

Constraint::Constraint(std::unique_ptr<Tables> tables) : tables_(std::move(tables)) {}
Constraint::Constraint(Constraint&&) noexcept = default;
Constraint& Constraint::operator=(Constraint&&) noexcept = default;
Constraint::~Constraint() = default;

}  // namespace outrider
