#include "host/session_core.h"

#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <utility>

#include "host/foreign.h"

namespace outrider::host {

const Clock& monotonic_clock() {
  static constinit const MonotonicClock clock;
  return clock;
}

SessionCore::SessionCore(Library library, RuntimeRef runtime, Contract contract, const Clock& clock)
    : library_(std::move(library)),
      runtime_(std::move(runtime)),
      contract_(std::move(contract)),
      order_(std::move(contract_.stages)),
      clock_(&clock) {}

Result<std::unique_ptr<SessionCore>> SessionCore::open(const char* provider_path,
                                                       const char* config_json,
                                                       const Clock& clock) {
  auto library = Library::open(provider_path);
  if (!library) return library.error();
  auto runtime = open_runtime(library.value(), provider_path, config_json);
  if (!runtime) return runtime.error();
  auto contract = check_runtime(runtime.value().get());
  if (!contract)
    return make_error(contract.error().code, "provider %s: %s", provider_path,
                      contract.error().text);
  return std::unique_ptr<SessionCore>(new SessionCore(
      std::move(library.value()), std::move(runtime.value()), std::move(contract.value()), clock));
}

Result<std::unique_ptr<SessionCore>> SessionCore::adopt(const frt_model_runtime_v1* runtime,
                                                        const Clock& clock) {
  auto contract = check_runtime(runtime);
  if (!contract) return contract.error();
  const ForeignCall call = call_foreign([&] { return runtime->retain(runtime->owner), 0; });
  if (call.threw) return make_error(Code::kFailed, "runtime: retain threw an exception");
  return std::unique_ptr<SessionCore>(
      new SessionCore(Library(), RuntimeRef(runtime), std::move(contract.value()), clock));
}

int SessionCore::find_port(const char* name) const noexcept {
  if (name == nullptr) return FRT_ERR_INVALID;
  for (uint64_t i = 0; i < runtime().n_ports; ++i)
    if (std::strcmp(runtime().ports[i].name, name) == 0) return static_cast<int>(i);
  return FRT_ERR_NOT_FOUND;
}

int SessionCore::find_stage(const char* name) const noexcept {
  if (name == nullptr) return FRT_ERR_INVALID;
  for (size_t i = 0; i < order_.size(); ++i)
    if (order_.stages()[i].name == name) return static_cast<int>(i);
  return FRT_ERR_NOT_FOUND;
}

// ---- verbs -----------------------------------------------------------------------------------

int SessionCore::refuse(Fault fault, Verb verb, int code, uint64_t index, uint64_t other) noexcept {
  failure_ = {fault, verb, code, index, other};
  return code;
}

// What a call into the runtime means for our caller: 0, or a negative code and a noted failure.
int SessionCore::settle(const ForeignCall& call, Verb verb, uint64_t index) noexcept {
  if (call.threw) return refuse(Fault::kThrew, verb, FRT_ERR_FAILED, index);
  if (call.code > 0)
    return refuse(Fault::kPositive, verb, FRT_ERR_FAILED, index, static_cast<uint64_t>(call.code));
  if (call.code < 0) return refuse(Fault::kProvider, verb, call.code, index);
  failure_.fault = Fault::kNone;
  return 0;
}

int SessionCore::set_input(uint32_t port, const void* data, uint64_t bytes) noexcept {
  constexpr Verb kVerb = Verb::kSetInput;
  if (port >= runtime().n_ports) return refuse(Fault::kNoPort, kVerb, FRT_ERR_INVALID, port);
  const frt_runtime_port_desc& desc = runtime().ports[port];
  if (desc.direction != FRT_PORT_IN) return refuse(Fault::kDirection, kVerb, FRT_ERR_INVALID, port);
  if (desc.update == FRT_UPDATE_SWAP)
    return refuse(Fault::kSwapPort, kVerb, FRT_ERR_UNSUPPORTED, port);
  if (data == nullptr && bytes > 0) return refuse(Fault::kNullData, kVerb, FRT_ERR_INVALID, port);
  const auto verb = contract_.verbs.set_input;
  if (verb == nullptr) return refuse(Fault::kNoVerb, kVerb, FRT_ERR_UNSUPPORTED, port);
  return settle(call_foreign([&] { return verb(runtime().self, port, data, bytes, -1); }), kVerb,
                port);
}

int SessionCore::get_output(uint32_t port, void* out, uint64_t capacity,
                            uint64_t* written) noexcept {
  constexpr Verb kVerb = Verb::kGetOutput;
  if (written == nullptr) return refuse(Fault::kNullWritten, kVerb, FRT_ERR_INVALID, port);
  *written = 0;
  if (port >= runtime().n_ports) return refuse(Fault::kNoPort, kVerb, FRT_ERR_INVALID, port);
  const frt_runtime_port_desc& desc = runtime().ports[port];
  if (desc.direction != FRT_PORT_OUT)
    return refuse(Fault::kDirection, kVerb, FRT_ERR_INVALID, port);
  if (desc.update == FRT_UPDATE_SWAP)
    return refuse(Fault::kSwapPort, kVerb, FRT_ERR_UNSUPPORTED, port);
  if (out == nullptr && capacity > 0) return refuse(Fault::kNullData, kVerb, FRT_ERR_INVALID, port);
  const auto verb = contract_.verbs.get_output;
  if (verb == nullptr) return refuse(Fault::kNoVerb, kVerb, FRT_ERR_UNSUPPORTED, port);
  const ForeignCall call =
      call_foreign([&] { return verb(runtime().self, port, out, capacity, written, -1); });
  if (call.ok() && *written > capacity) {  // believed, it would make the caller read too far
    const uint64_t claimed = *written;
    *written = 0;
    return refuse(Fault::kOverrun, kVerb, FRT_ERR_FAILED, port, claimed);
  }
  return settle(call, kVerb, port);
}

int SessionCore::fire(uint64_t stage) noexcept {
  order_.started(stage);
  const int64_t begin_ns = clock_->now_ns();
  const ForeignCall call = call_foreign([&] {
    return contract_.drive == Drive::kPlan
               ? contract_.plan->run_opaque(contract_.plan->stage_self,
                                            order_.stages()[stage].executor_ref)
               : contract_.verbs.step(runtime().self);
  });
  order_.timed(stage, clock_->now_ns() - begin_ns);
  if (call.ok()) order_.finished(stage);
  return settle(call, Verb::kRunStage, stage);
}

int SessionCore::run_stage(uint64_t stage) noexcept {
  if (stage >= order_.size())
    return refuse(Fault::kNoStage, Verb::kRunStage, FRT_ERR_INVALID, stage);
  const int64_t missing = order_.first_missing(stage);
  if (missing >= 0)
    return refuse(Fault::kOrder, Verb::kRunStage, FRT_ERR_INVALID, stage,
                  static_cast<uint64_t>(missing));
  return fire(stage);
}

int SessionCore::tick() noexcept {
  order_.begin_tick();
  for (uint64_t stage = 0; stage < order_.size(); ++stage)
    if (const int code = fire(stage); code != 0) return code;  // declared order is a valid order
  return 0;
}

int SessionCore::step() noexcept {
  const auto verb = contract_.verbs.step;
  if (verb == nullptr) return refuse(Fault::kNoVerb, Verb::kStep, FRT_ERR_UNSUPPORTED, 0);
  if (contract_.drive == Drive::kStep) return tick();
  order_.begin_tick();  // a whole run leaves no stage half way
  return settle(call_foreign([&] { return verb(runtime().self); }), Verb::kStep, 0);
}

// ---- words -----------------------------------------------------------------------------------

void SessionCore::provider_words(char* out, size_t n) const noexcept {
  const auto verb = contract_.verbs.last_error;
  const char* text = nullptr;
  if (verb != nullptr) call_foreign([&] { return text = verb(runtime().self), 0; });
  copy_line(out, n, text);
  if (out[0] == '\0') copy_line(out, n, "the runtime gave no reason");
}

void SessionCore::describe(char* out, size_t n) const noexcept {
  static constexpr const char* kVerbs[] = {"set_input", "get_output", "stage", "step"};
  const Failure& f = failure_;
  const bool port_verb = f.verb == Verb::kSetInput || f.verb == Verb::kGetOutput;
  const char* name = "";
  if (port_verb && f.index < runtime().n_ports) name = runtime().ports[f.index].name;
  if (f.verb == Verb::kRunStage && f.index < order_.size())
    name = order_.stages()[f.index].name.c_str();
  const char* verb = kVerbs[static_cast<size_t>(f.verb)];
  char words[kReasonBytes];
  switch (f.fault) {
    case Fault::kNone:
      copy_line(out, n, "");
      return;
    case Fault::kNoPort:
      std::snprintf(out, n,
                    "%s: port %" PRIu64 " unknown, this runtime has %" PRIu64
                    " ports (0 is the first)",
                    verb, f.index, runtime().n_ports);
      return;
    case Fault::kNoStage:
      std::snprintf(out, n,
                    "stage %" PRIu64 " unknown, this runtime has %zu stages (0 is the first)",
                    f.index, order_.size());
      return;
    case Fault::kNoVerb:
      std::snprintf(out, n, "%s %.96s: the runtime offers no such verb", verb, name);
      return;
    case Fault::kSwapPort:
      std::snprintf(out, n,
                    "%s: port %.96s is a SWAP window on the device; this host moves data through "
                    "STAGED ports only",
                    verb, name);
      return;
    case Fault::kDirection:
      std::snprintf(out, n, "%s: port %.96s is an %s port", verb, name,
                    f.verb == Verb::kSetInput ? "output" : "input");
      return;
    case Fault::kNullData:
      std::snprintf(out, n, "%s: port %.96s: NULL pointer with a byte count above 0", verb, name);
      return;
    case Fault::kNullWritten:
      std::snprintf(out, n, "%s: written is NULL; it must point at a uint64_t", verb);
      return;
    case Fault::kOrder:
      std::snprintf(
          out, n, "stage %.96s waits for stage %.96s, which has not run since the last tick began",
          name, order_.stages()[f.other].name.c_str());
      return;
    case Fault::kThrew:
      std::snprintf(out, n, "%s %.96s: the runtime threw an exception through the C border", verb,
                    name);
      return;
    case Fault::kPositive:
      std::snprintf(out, n, "%s %.96s: the runtime returned %" PRIu64 "; codes are 0 or negative",
                    verb, name, f.other);
      return;
    case Fault::kOverrun:
      std::snprintf(
          out, n, "%s %.96s: the runtime claims %" PRIu64 " bytes, more than it was given room for",
          verb, name, f.other);
      return;
    case Fault::kProvider:
      provider_words(words, sizeof words);
      std::snprintf(out, n, "%s %.96s: code %d: %s", verb, name, f.code, words);
      return;
  }
}

const char* SessionCore::error() const noexcept {
  char raw[kReasonBytes];
  describe(raw, sizeof raw);
  copy_line(text_, sizeof text_, raw);
  return text_;
}

}  // namespace outrider::host
