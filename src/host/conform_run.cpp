// Ticks: outputs, sizes, repeatability, stale values, independence of instances. ABI text 12.
#include <cinttypes>
#include <cstring>

#include "host/conform_bench.h"

namespace outrider::host::conformance {
namespace {

// First difference of two read_all results, "" when there is none.
std::string difference(const std::vector<Output>& a, const std::vector<Output>& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].code != b[i].code)
      return "output " + std::to_string(i) + ": code " + std::to_string(a[i].code) + ", then " +
             std::to_string(b[i].code);
    if (a[i].bytes.size() != b[i].bytes.size())
      return "output " + std::to_string(i) + ": " + std::to_string(a[i].bytes.size()) +
             " bytes, then " + std::to_string(b[i].bytes.size());
    for (size_t k = 0; k < a[i].bytes.size(); ++k)
      if (a[i].bytes[k] != b[i].bytes[k])
        return "output " + std::to_string(i) + " differs from byte " + std::to_string(k);
  }
  return "";
}

// The texts of a log or a counter may differ; a check of equality can be asked only of some.
bool repeats(Bench& b, Verdict& v) {
  if (b.may_vary()) v.skip("this configuration may answer differently from tick to tick");
  return !b.may_vary();
}

void a_tick_runs(Bench& b, Verdict& v) {
  if (!b.run_tick(*b.main, v)) return;
  bool any = false;
  for (uint32_t i = 0; i < b.main->ports().size(); ++i) {
    if (!b.judges(b.main->ports()[i])) continue;
    const Output out = b.main->read(i);
    any |= out.code == 0;
    if (out.code != 0 && out.code != FRT_ERR_NOT_READY)
      v.fail("port %u (%s): get_output after a good tick answered %d: %s", i,
             b.main->ports()[i].name, out.code, b.main->error().c_str());
  }
  if (!any) v.fail("no output is ready after a good tick");
}

void sizes_match_shapes(Bench& b, Verdict& v) {
  if (!b.run_tick(*b.main, v)) return;
  for (uint32_t i = 0; i < b.main->ports().size(); ++i) {
    const auto& p = b.main->ports()[i];
    if (!b.judges(p)) continue;
    const Output out = b.main->read(i);
    if (out.code != 0) continue;
    const auto fixed = fixed_bytes(p);
    const uint64_t element = dtype_bytes(p.dtype);
    if (fixed && out.bytes.size() != *fixed)
      v.fail("port %u (%s): %zu bytes, its shape makes %" PRIu64, i, p.name, out.bytes.size(),
             *fixed);
    else if (element != 0 && out.bytes.size() % element != 0)
      v.fail("port %u (%s): %zu bytes are no whole number of %" PRIu64 "-byte values", i, p.name,
             out.bytes.size(), element);
  }
}

// -5 with the size that is needed, nothing written beyond the capacity.
void expect_too_small(Instance& in, Verdict& v, uint32_t i, uint64_t capacity, uint64_t needed) {
  std::vector<unsigned char> room(capacity + 32, 0xA5);
  uint64_t written = UINT64_MAX;
  const int code = in.get(i, room.data(), capacity, &written);
  const char* name = in.ports()[i].name;
  if (code != FRT_ERR_STORAGE)
    v.fail("port %u (%s): %" PRIu64 " of %" PRIu64 " bytes of room answered %d, must be -5", i,
           name, capacity, needed, code);
  else if (written != needed)
    v.fail("port %u (%s): too small a room gave %" PRIu64 " as needed size, %" PRIu64 " it was", i,
           name, written, needed);
  for (size_t k = capacity; k < room.size(); ++k)
    if (room[k] != 0xA5)
      return v.fail("port %u (%s): wrote past a room of %" PRIu64 " bytes", i, name, capacity);
}

void rooms(Bench& b, Verdict& v) {
  if (!b.run_tick(*b.main, v)) return;
  for (uint32_t i = 0; i < b.main->ports().size(); ++i) {
    const auto& p = b.main->ports()[i];
    if (!b.judges(p)) continue;
    const Output out = b.main->read(i);
    if (out.code != 0 || out.bytes.empty()) continue;
    const uint64_t needed = out.bytes.size();
    for (const uint64_t capacity : {uint64_t{0}, needed / 2, needed - 1})
      expect_too_small(*b.main, v, i, capacity, needed);
    std::vector<unsigned char> room(needed + 32, 0xA5);
    uint64_t written = 0;
    if (b.main->get(i, room.data(), needed + 16, &written) != 0 || written != needed)
      v.fail("port %u (%s): more room than needed gave %" PRIu64 " of %" PRIu64 " bytes", i, p.name,
             written, needed);
    for (size_t k = needed; k < room.size(); ++k)
      if (room[k] != 0xA5)
        return v.fail("port %u (%s): wrote past its own %" PRIu64 " bytes", i, p.name, needed);
    const int null_code = b.main->get(i, nullptr, 0, &written);
    const bool fixed_actions = p.modality == FRT_MODALITY_ACTION && fixed_bytes(p);
    if (null_code >= 0 || (!fixed_actions && null_code != FRT_ERR_STORAGE))
      v.fail("port %u (%s): a size query (NULL, 0) answered %d, must be -5%s", i, p.name, null_code,
             fixed_actions ? " or -1" : "");
    else if (null_code == FRT_ERR_STORAGE && written != needed)
      v.fail("port %u (%s): a size query gave %" PRIu64 ", the output has %" PRIu64, i, p.name,
             written, needed);
  }
}

// Bench::note_nonfinite judges what is read, here and in every other check.
void actions_are_finite(Bench& b, Verdict& v) {
  bool any = false;
  for (const int variant : {0, 1, 2}) {
    if (!b.run_tick(*b.main, v, variant)) return;
    for (uint32_t i = 0; i < b.main->ports().size(); ++i) {
      const auto& p = b.main->ports()[i];
      if (p.modality != FRT_MODALITY_ACTION || !b.judges(p)) continue;
      any = true;
      if (const int code = b.main->read(i).code; code != 0)
        v.fail("port %u (%s): get_output after a good tick answered %d", i, p.name, code);
    }
  }
  if (!any) v.skip("no ACTION output");
}

void reading_twice(Bench& b, Verdict& v) {
  if (!b.run_tick(*b.main, v)) return;
  const auto first = b.main->read_all();
  if (auto d = difference(first, b.main->read_all()); !d.empty())
    v.fail("reading twice: %s", d.c_str());
}

void same_inputs_same_bytes(Bench& b, Verdict& v) {
  if (!repeats(b, v) || !b.run_tick(*b.main, v)) return;
  const auto first = b.main->read_all();
  if (!b.run_tick(*b.main, v, 1) || !b.run_tick(*b.main, v)) return;
  if (auto d = difference(first, b.main->read_all()); !d.empty())
    v.fail("the same inputs after others: %s", d.c_str());
}

// Inputs stay staged: a second run without staging gives the same again.
void inputs_stay_staged(Bench& b, Verdict& v) {
  if (!repeats(b, v) || !b.run_tick(*b.main, v)) return;
  const auto first = b.main->read_all();
  if (const int code = b.main->tick(); code != 0)
    return v.fail("a second tick with the same staged inputs answered %d: %s", code,
                  b.main->error().c_str());
  if (auto d = difference(first, b.main->read_all()); !d.empty())
    v.fail("a second tick: %s", d.c_str());
}

void step_equals_stages(Bench& b, Verdict& v) {
  if (b.main->plan() == nullptr) return v.skip("no generic stage plan");
  if (!repeats(b, v)) return;
  if (b.is_text() && b.main->stages().size() > 1)
    return v.skip("step writes the whole text, a tick one token; compared under `text`");
  if (!b.run_tick(*b.main, v)) return;
  const auto staged = b.main->read_all();
  if (!b.stage_all(*b.main, v)) return;
  const int code = b.main->step();
  if (code == FRT_ERR_UNSUPPORTED) return v.skip("no step verb");
  if (code != 0) return v.fail("step answered %d: %s", code, b.main->error().c_str());
  const auto whole = b.main->read_all();
  if (auto d = difference(staged, whole); !d.empty()) v.fail("step against stages: %s", d.c_str());
}

void expect_stale(Bench& b, Verdict& v, const char* after) {
  for (uint32_t i = 0; i < b.main->ports().size(); ++i) {
    const auto& p = b.main->ports()[i];
    if (!b.judges(p)) continue;
    const Output out = b.main->read(i);
    if (out.code == 0 && p.modality == FRT_MODALITY_TEXT && out.bytes.empty())
      v.advise("port %u (%s): 0 bytes of text after %s; -7 says more", i, p.name, after);
    else if (out.code == 0)
      v.fail("port %u (%s): still readable after %s", i, p.name, after);
    else if (out.code != FRT_ERR_NOT_READY)
      v.fail("port %u (%s): answered %d after %s, not ready is -7", i, p.name, out.code, after);
  }
}

void new_input_makes_outputs_stale(Bench& b, Verdict& v) {
  if (b.is_tandem()) return v.skip("a tandem answers every tick, with a held value if need be");
  for (uint32_t i = 0; i < b.main->ports().size(); ++i) {
    const auto& p = b.main->ports()[i];
    if (!b.wants(p)) continue;
    if (!b.run_tick(*b.main, v)) return;
    const auto made = b.payload(p, 1);
    if (!made || b.main->set(i, *made) != 0)
      return v.fail("port %u (%s): set_input of another value failed: %s", i, p.name,
                    b.main->error().c_str());
    expect_stale(b, v, (std::string("set_input of ") + p.name).c_str());
  }
}

// A payload that no port of this kind can take; nullopt where anything goes.
std::optional<std::vector<std::byte>> bad_payload(const frt_runtime_port_desc& p) {
  if (p.modality == FRT_MODALITY_IMAGE || p.modality == FRT_MODALITY_DEPTH)
    return std::vector<std::byte>(47);
  if (p.modality == FRT_MODALITY_TEXT) return std::nullopt;
  if (const auto fixed = fixed_bytes(p)) return std::vector<std::byte>(*fixed + 1);
  const uint64_t element = dtype_bytes(p.dtype);
  if (element < 2) return std::nullopt;
  return std::vector<std::byte>(element + 1);
}

void failed_input_drops_the_old_value(Bench& b, Verdict& v) {
  bool any = false;
  for (uint32_t i = 0; i < b.main->ports().size(); ++i) {
    const auto& p = b.main->ports()[i];
    const auto bad = bad_payload(p);
    if (!b.wants(p) || !bad) continue;
    any = true;
    if (!b.run_tick(*b.main, v)) return;
    if (const int code = b.main->set(i, bad->data(), bad->size()); code >= 0) {
      v.fail("port %u (%s): set_input of %zu bytes answered %d, no such input exists", i, p.name,
             bad->size(), code);
      continue;
    }
    if (b.main->error().empty())
      v.fail("port %u (%s): last_error is empty after a refused input", i, p.name);
    expect_stale(b, v, (std::string("a refused input for ") + p.name).c_str());
    if (p.required != 1) continue;
    if (const int code = b.main->tick(); code >= 0)
      v.fail("port %u (%s): a run after a refused input answered %d; the old value must be gone", i,
             p.name, code);
    else if (code != FRT_ERR_INVALID)
      v.fail("port %u (%s): a run after a refused input answered %d, must be -1", i, p.name, code);
    expect_stale(b, v, "a failed run");
    const auto good = b.payload(p);
    if (good && (b.main->set(i, *good) != 0 || b.main->tick() != 0))
      v.fail("port %u (%s): staging it again does not heal: %s", i, p.name,
             b.main->error().c_str());
  }
  if (!any) v.skip("no input whose bytes can be told to be wrong");
}

// The callee copies: the caller's memory may change right after set_input.
void inputs_are_copied(Bench& b, Verdict& v) {
  if (!repeats(b, v) || !b.run_tick(*b.main, v)) return;
  const auto first = b.main->read_all();
  std::vector<Payload> kept;  // a provider that borrows reads junk, not freed memory
  for (uint32_t i = 0; i < b.main->ports().size(); ++i) {
    if (!b.wants(b.main->ports()[i])) continue;
    auto made = b.payload(b.main->ports()[i]);
    if (!made || b.main->set(i, *made) != 0)
      return v.fail("staging failed: %s", b.main->error().c_str());
    std::fill(made->bytes.begin(), made->bytes.end(), std::byte{0xEE});
    for (auto& pixels : made->pixels) std::fill(pixels.begin(), pixels.end(), std::byte{0xEE});
    for (auto& view : made->views) std::memset(&view, 0xEE, sizeof view);
    kept.push_back(std::move(*made));
  }
  if (b.main->tick() != 0) return v.fail("a tick failed: %s", b.main->error().c_str());
  if (auto d = difference(first, b.main->read_all()); !d.empty())
    v.fail("memory that changed after set_input shows: %s", d.c_str());
}

void instances_are_independent(Bench& b, Verdict& v) {
  if (b.is_remote() || b.is_tandem()) return v.skip("may share what is behind it");
  if (!b.run_tick(*b.main, v)) return;
  const auto mine = b.main->read_all();
  auto other = b.open(v);
  if (!other || !b.run_tick(*other, v, 1)) return;
  if (auto d = difference(mine, b.main->read_all()); !d.empty())
    return v.fail("a tick of a second instance changed the first: %s", d.c_str());
  if (!repeats(b, v) || !b.run_tick(*other, v)) return;
  if (auto d = difference(mine, other->read_all()); !d.empty())
    v.fail("two instances of one configuration differ: %s", d.c_str());
  other.reset();
  if (auto d = difference(mine, b.main->read_all()); !d.empty())
    v.fail("the end of a second instance changed the first: %s", d.c_str());
}

constexpr Check kChecks[] = {
    {"tick: runs with every input staged", Check::kSound, a_tick_runs},
    {"outputs: sizes are those of the shapes", Check::kSound, sizes_match_shapes},
    {"outputs: too little room is -5 with the size needed", Check::kSound, rooms},
    {"outputs: actions are finite", Check::kSound, actions_are_finite},
    {"outputs: reading does not use them up", Check::kSound, reading_twice},
    {"repeat: the same inputs give the same bytes", Check::kSound, same_inputs_same_bytes},
    {"repeat: inputs stay staged", Check::kSound, inputs_stay_staged},
    {"repeat: step and stages give the same bytes", Check::kSound, step_equals_stages},
    {"inputs: are copied", Check::kSound, inputs_are_copied},
    {"stale: a new input makes outputs not ready", Check::kSound, new_input_makes_outputs_stale},
    {"stale: a refused input drops the old value", Check::kSound, failed_input_drops_the_old_value},
    {"instances: are independent", Check::kSound, instances_are_independent},
};

}  // namespace

std::span<const Check> run_checks() {
  return kChecks;
}

}  // namespace outrider::host::conformance
