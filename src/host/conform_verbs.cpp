// Verbs on an instance that has not run yet: argument rules, ordering, error texts. ABI text 6,
// 11, 12.
#include <cinttypes>
#include <cstring>

#include "base/utf8.h"
#include "host/conform_bench.h"

namespace outrider::host::conformance {
namespace {

// After a failed call there must be a text.
void expect_text(Bench& b, Verdict& v, const char* what) {
  const char* text = b.main->raw_error();
  if (text == nullptr)
    v.fail("last_error is NULL after %s", what);
  else if (text[0] == 0)
    v.fail("last_error is empty after %s", what);
}

// Longer texts are taken for ones that never end.
constexpr size_t kMaxErrorBytes = 16384;

// A host logs the text and shows it to people: it must end, be UTF-8 and hold no control bytes.
void judge_text(Instance& in, Verdict& v, const char* what) {
  const char* text = in.raw_error();
  if (text == nullptr) return v.fail("last_error is NULL %s", what);
  const std::string_view line(text, strnlen(text, kMaxErrorBytes + 1));
  if (line.size() > kMaxErrorBytes)
    return v.fail("last_error does not end within %zu bytes %s", kMaxErrorBytes, what);
  if (!utf8_valid(line)) v.fail("last_error is no UTF-8 %s: %.200s", what, text);
  for (const char c : line) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte == '\n' || byte == '\t')
      v.advise("last_error holds byte 0x%02x %s; one line suits a log", byte, what);
    else if (byte < 0x20 || byte == 0x7f)
      return v.fail("last_error holds the control byte 0x%02x %s: %.200s", byte, what, text);
  }
}

bool is_out(const frt_runtime_port_desc& p) {
  return p.direction == FRT_PORT_OUT && p.update == FRT_UPDATE_STAGED;
}

void last_error_before_any_call(Bench& b, Verdict& v) {
  if (b.main->get()->verbs.last_error == nullptr) return v.skip("verbs.last_error is NULL");
  if (b.main->raw_error() == nullptr) v.fail("last_error is NULL on a fresh instance");
}

// Every kind of failure, and the fresh instance: none may leave a text that hurts its reader.
void last_error_is_readable(Bench& b, Verdict& v) {
  if (b.main->get()->verbs.last_error == nullptr) return v.skip("verbs.last_error is NULL");
  judge_text(*b.main, v, "before any failure");
  unsigned char room[64];
  uint64_t written = 0;
  b.main->set(UINT32_MAX, room, 0);
  judge_text(*b.main, v, "after set_input of an unknown port");
  b.main->get(UINT32_MAX, room, sizeof room, &written);
  judge_text(*b.main, v, "after get_output of an unknown port");
  for (uint32_t i = 0; i < b.main->ports().size(); ++i) {
    const auto& p = b.main->ports()[i];
    if (p.update != FRT_UPDATE_STAGED) continue;
    if (p.direction == FRT_PORT_OUT)
      b.main->get(i, room, 0, nullptr);
    else
      b.main->set(i, "\xff\x01\n", 3);  // a provider that quotes what it refuses must clean it
    judge_text(*b.main, v, "after a refused call on a port");
  }
  if (b.main->plan() != nullptr) b.main->run_ref(0x7eadbeef);
  judge_text(*b.main, v, "after an unknown executor reference");
}

void prepare_unsupported(Bench& b, Verdict& v) {
  if (b.main->get()->verbs.prepare == nullptr) return v.skip("verbs.prepare is NULL");
  for (const uint32_t graph : {0u, 1u, UINT32_MAX})
    if (const int code = b.main->prepare(graph, graph); code != FRT_ERR_UNSUPPORTED)
      v.fail("prepare(%u) answered %d; a provider has no graph variants: -3", graph, code);
}

void written_is_needed(Bench& b, Verdict& v) {
  unsigned char room[64];
  bool any = false;
  for (uint32_t i = 0; i < b.main->ports().size(); ++i) {
    if (!is_out(b.main->ports()[i])) continue;
    any = true;
    if (const int code = b.main->get(i, room, sizeof room, nullptr); code != FRT_ERR_INVALID)
      v.fail("port %u (%s): get_output with written NULL answered %d, must be -1", i,
             b.main->ports()[i].name, code);
    expect_text(b, v, "get_output with written NULL");
  }
  if (!any) v.skip("no STAGED output");
}

void get_output_refuses_inputs_and_unknown_ports(Bench& b, Verdict& v) {
  unsigned char room[64];
  uint64_t written = 0;
  for (uint32_t i = 0; i < b.main->ports().size(); ++i) {
    if (b.main->ports()[i].direction != FRT_PORT_IN) continue;
    const int code = b.main->get(i, room, sizeof room, &written);
    if (code != FRT_ERR_INVALID)
      v.fail("port %u (%s): get_output of an input answered %d, must be -1", i,
             b.main->ports()[i].name, code);
  }
  for (const uint64_t port : {b.main->get()->n_ports, uint64_t{UINT32_MAX}}) {
    const int code = b.main->get(static_cast<uint32_t>(port), room, sizeof room, &written);
    if (code >= 0)
      v.fail("get_output of port %" PRIu64 " answered %d; there is no such port", port, code);
    else if (code != FRT_ERR_INVALID && code != kThrew)
      v.advise("get_output of port %" PRIu64 " answered %d, usual is -1", port, code);
    expect_text(b, v, "get_output of an unknown port");
  }
}

void set_input_refuses_outputs_and_unknown_ports(Bench& b, Verdict& v) {
  const unsigned char bytes[48] = {};
  for (uint32_t i = 0; i < b.main->ports().size(); ++i) {
    if (b.main->ports()[i].direction != FRT_PORT_OUT) continue;
    if (const int code = b.main->set(i, bytes, sizeof bytes); code >= 0)
      v.fail("port %u (%s): set_input of an output answered %d", i, b.main->ports()[i].name, code);
  }
  for (const uint64_t port : {b.main->get()->n_ports, uint64_t{UINT32_MAX}}) {
    if (const int code = b.main->set(static_cast<uint32_t>(port), bytes, sizeof bytes); code >= 0)
      v.fail("set_input of port %" PRIu64 " answered %d; there is no such port", port, code);
    expect_text(b, v, "set_input of an unknown port");
  }
}

void unknown_executor(Bench& b, Verdict& v) {
  if (b.main->plan() == nullptr) return v.skip("no generic stage plan");
  for (uint32_t ref : {0u, 1u, 0x7eadbeefu, UINT32_MAX}) {
    bool known = false;
    for (const auto& stage : b.main->stages()) known |= stage.executor_ref == ref;
    if (known) continue;
    if (const int code = b.main->run_ref(ref); code != FRT_ERR_NOT_FOUND)
      v.fail("run_opaque(%u) answered %d; an unknown reference is -2", ref, code);
    expect_text(b, v, "an unknown executor reference");
  }
}

void nothing_is_ready_before_a_run(Bench& b, Verdict& v) {
  for (uint32_t i = 0; i < b.main->ports().size(); ++i) {
    const auto& p = b.main->ports()[i];
    if (!b.judges(p)) continue;
    const Output out = b.main->read(i);
    if (out.code == 0 && p.modality == FRT_MODALITY_TEXT && out.bytes.empty())
      v.advise("port %u (%s): 0 bytes of text before any run; -7 says more", i, p.name);
    else if (out.code == 0)
      v.fail("port %u (%s): get_output before any run delivered %zu bytes", i, p.name,
             out.bytes.size());
    else if (out.code != FRT_ERR_NOT_READY)
      v.fail("port %u (%s): get_output before any run answered %d, not ready is -7", i, p.name,
             out.code);
  }
}

void required_inputs_are_demanded(Bench& b, Verdict& v) {
  auto fresh = b.open(v);
  if (!fresh) return;
  bool any = false;
  for (uint32_t i = 0; i < fresh->ports().size(); ++i) {
    const auto& p = fresh->ports()[i];
    if (p.required != 1 || !b.wants(p)) continue;
    any = true;
    const int code = fresh->tick();
    const std::string error = fresh->error();
    if (code < 0 && fresh->get()->verbs.last_error != nullptr) {
      if (error.empty()) v.fail("last_error is empty after a tick without %s", p.name);
      judge_text(*fresh, v, "after a tick without a required input");
    }
    if (code >= 0) {
      v.fail("a tick answered %d while the required port %u (%s) was never staged", code, i,
             p.name);
    } else if (code != FRT_ERR_INVALID) {
      v.fail("a tick without the required port %u (%s) answered %d, must be -1", i, p.name, code);
    } else if (error.find(p.name) == std::string::npos) {
      v.advise("a tick without port %s does not name it: %.200s", p.name, error.c_str());
    }
    const auto made = b.payload(p);
    if (!made)
      return v.skip("port %u (%s): this suite cannot make an input of that shape", i, p.name);
    if (const int set = fresh->set(i, *made); set != 0)
      return v.fail("port %u (%s): set_input of a generated input answered %d: %s", i, p.name, set,
                    fresh->error().c_str());
  }
  if (!any) v.skip("no required input");
}

// A stage that waits for another must refuse to run first. A text model's prefill may start a
// session by itself, so only its decode counts there; text_checks look at that.
void stages_keep_their_order(Bench& b, Verdict& v) {
  if (b.main->plan() == nullptr) return v.skip("no generic stage plan");
  if (b.is_text()) return v.skip("a text model's prefill may start a session by itself");
  bool any = false;
  for (size_t i = 0; i < b.main->stages().size(); ++i) {
    if (b.main->stages()[i].n_after == 0) continue;
    any = true;
    auto fresh = b.open(v);
    if (!fresh || !b.stage_all(*fresh, v)) return;
    if (const int code = fresh->run_stage(i); code >= 0)
      v.fail("stage %zu (%s) answered %d before the stages it waits for had run", i,
             b.main->stages()[i].name, code);
  }
  if (!any) v.skip("no stage waits for another");
}

constexpr Check kChecks[] = {
    {"verbs: last_error is never NULL", Check::kSound, last_error_before_any_call},
    {"verbs: last_error ends, is UTF-8 and holds no control bytes", Check::kSound,
     last_error_is_readable},
    {"verbs: prepare answers -3", Check::kSound, prepare_unsupported},
    {"get_output: written NULL is -1", Check::kSound, written_is_needed},
    {"get_output: inputs and unknown ports are refused", Check::kSound,
     get_output_refuses_inputs_and_unknown_ports},
    {"set_input: outputs and unknown ports are refused", Check::kSound,
     set_input_refuses_outputs_and_unknown_ports},
    {"stages: an unknown executor reference is -2", Check::kSound, unknown_executor},
    {"outputs: nothing is ready before a run", Check::kSound, nothing_is_ready_before_a_run},
    {"inputs: a run without a required one is -1", Check::kSound, required_inputs_are_demanded},
    {"stages: a stage refuses to run before those it waits for", Check::kSound,
     stages_keep_their_order},
};

}  // namespace

std::span<const Check> verb_checks() {
  return kChecks;
}

}  // namespace outrider::host::conformance
