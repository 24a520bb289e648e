#include "providers/tandem/tandem_runtime.h"

#include <cinttypes>
#include <cstdio>
#include <cstring>

#include "base/log.h"

namespace outrider::tandem {
namespace {

Error with_role(const std::string& role, const Error& error) {
  return make_error(error.code, "%s: %s", role.c_str(), error.text);
}

Result<std::unique_ptr<host::SessionCore>> open_side(const Side& side, const Clock& clock) {
  auto core = host::SessionCore::open(side.provider.c_str(), side.json.c_str(), clock);
  if (!core) return with_role(side.role, core.error());
  return core;
}

}  // namespace

Result<std::unique_ptr<TandemRuntime>> TandemRuntime::open(const TandemConfig& config) {
  auto standby = read_side("standby", config.standby, config.standby_provider);
  if (!standby) return standby.error();
  auto lead = read_side("lead", config.lead, config.lead_provider);
  if (!lead) return lead.error();
  std::unique_ptr<TandemRuntime> runtime(new TandemRuntime);
  runtime->config_ = config;
  runtime->standby_side_ = std::move(standby.value());
  runtime->lead_side_ = std::move(lead.value());
  OUTRIDER_TRY(runtime->prepare());
  OUTRIDER_TRY(runtime->await_lead());
  return runtime;
}

TandemRuntime::~TandemRuntime() {
  record_.reset();
  worker_.reset();  // its thread looks at the runner
  runner_.reset();
}

// Everything a tick needs is taken here.
Result<void> TandemRuntime::prepare() {
  auto core = open_side(standby_side_, clock_);
  if (!core) return core.error();
  standby_ = std::move(core.value());
  auto history = History::of(*standby_);
  if (!history) return with_role("standby", history.error());
  const frt_model_runtime_v1& rt = standby_->runtime();
  for (const char* own : {"engaged", "origin", "counters"})
    if (standby_->find_port(own) >= 0)
      return make_error(Code::kInvalid, "standby: has a port %s, a name that the tandem adds", own);
  auto ports = plan_ports(rt, config_.room);
  if (!ports) return ports.error();
  ports_ = std::move(ports.value());
  first_own_ = static_cast<uint32_t>(rt.n_ports);
  slot_of_port_.resize(rt.n_ports);
  for (const std::vector<Port>* list : {&ports_.in, &ports_.out})
    for (size_t i = 0; i < list->size(); ++i)
      slot_of_port_[(*list)[i].index] = static_cast<int32_t>(i);

  const bool compares = config_.limits.agree_ticks > 0;
  const int64_t n_ticks = config_.limits.history_ticks;
  OUTRIDER_TRY(arena_.reserve(InputRing::room_bytes(ports_, n_ticks, compares) +
                              Worker::room_bytes(ports_) + Runner::room_bytes(ports_) +
                              Arena::kAlignBytes));
  ring_ = std::make_unique<InputRing>(ports_, n_ticks, compares, arena_);
  auto library = host::Library::open(lead_side_.provider.c_str());
  if (!library) return with_role("lead", library.error());
  lead_library_ = std::move(library.value());
  worker_ = std::make_unique<Worker>(
      Worker::Parts{[this] { return open_side(lead_side_, clock_); }, &rt, &ports_, ring_.get(),
                    &clock_, config_.agree_distance, compares ? config_.limits.period_ns : 0,
                    [this] { tell_slow(); }},
      arena_);
  runner_ = std::make_unique<Runner>(
      Runner::Parts{config_.limits, &ports_, standby_.get(), history.value(), worker_.get(),
                    ring_.get(), &clock_, &changed_},
      arena_);
  shown_runner_.store(runner_.get(), std::memory_order_release);
  arena_.seal();
  if (!config_.record_path.empty()) {
    auto record = Record::start({config_.record_path, &runner_->glance(), &changed_, &clock_,
                                 [this] { return worker_->lead_name(); }});
    if (!record) return record.error();
    record_ = std::move(record.value());
  }
  return {};
}

// A lead on this machine must open; one at the end of a cable may be switched on later, but its
// configuration must be one.
Result<void> TandemRuntime::await_lead() {
  const bool remote = lead_side_.family == "remote";
  const int64_t until_ns = remote ? clock_.now_ns() + config_.open_wait_ms * 1000000 : INT64_MAX;
  worker_->wait_until(until_ns);
  const Report* report = worker_->peek();
  if (report == nullptr) return {};
  const Error failure = worker_->last_failure();
  const bool mistake = failure.code == Code::kInvalid;  // no waiting makes a configuration right
  if (report->event.kind == EventKind::kMismatch ||
      (report->event.kind == EventKind::kFailed && (!remote || mistake)))
    return failure;
  return {};
}

// ---- verbs
// ----------------------------------------------------------------------------------------

int TandemRuntime::refuse(int code, const char* text, uint64_t number) noexcept {
  refusal_ = {code, text, number};
  return code;
}

int TandemRuntime::set_input(uint32_t port, const void* data, uint64_t bytes) noexcept {
  refusal_ = {};
  if (port == engaged_port()) {
    if (bytes != 1 || data == nullptr) {
      runner_->forget_engaged();
      return refuse(bytes != 1 ? FRT_ERR_SHAPE : FRT_ERR_INVALID,
                    "engaged: %" PRIu64 " bytes, allowed is 1 (U8; 0: nobody acts on the output)",
                    bytes);
    }
    runner_->set_engaged(*static_cast<const uint8_t*>(data) != 0);
    return FRT_OK;
  }
  if (port >= n_ports() || port > engaged_port() || standby().ports[port].direction != FRT_PORT_IN)
    return refuse(FRT_ERR_INVALID, "set_input: port %" PRIu64 " is no input", port);
  if (data == nullptr && bytes > 0)
    return refuse(FRT_ERR_INVALID, "set_input: port %" PRIu64 ": NULL with a byte count above 0",
                  port);
  return runner_->set_input(static_cast<size_t>(slot_of_port_[port]), data, bytes);
}

template <size_t n>
int TandemRuntime::copy_numbers(const int64_t (&numbers)[n], void* out, uint64_t capacity,
                                uint64_t* written) noexcept {
  *written = sizeof numbers;
  if (out == nullptr || capacity < sizeof numbers)
    return refuse(FRT_ERR_STORAGE, "get_output: %" PRIu64 " bytes are needed", sizeof numbers);
  std::memcpy(out, numbers, sizeof numbers);
  return FRT_OK;
}

int TandemRuntime::get_output(uint32_t port, void* out, uint64_t capacity,
                              uint64_t* written) noexcept {
  refusal_ = {};
  if (written == nullptr) return refuse(FRT_ERR_INVALID, "get_output: written is NULL");
  *written = 0;
  if (out == nullptr && capacity > 0)
    return refuse(FRT_ERR_INVALID, "get_output: NULL with a capacity of %" PRIu64 " bytes",
                  capacity);
  if (port == origin_port()) {
    int64_t numbers[OUTRIDER_ORIGIN_COUNT];
    runner_->read_origin(numbers);
    return copy_numbers(numbers, out, capacity, written);
  }
  if (port == counters_port()) {
    int64_t numbers[OUTRIDER_TANDEM_COUNT];
    runner_->read_counters(numbers);
    return copy_numbers(numbers, out, capacity, written);
  }
  if (port >= engaged_port() || standby().ports[port].direction != FRT_PORT_OUT)
    return refuse(FRT_ERR_INVALID, "get_output: port %" PRIu64 " is no output", port);
  return runner_->get_output(static_cast<size_t>(slot_of_port_[port]), out, capacity, written);
}

int TandemRuntime::tick() noexcept {
  refusal_ = {};
  return runner_->tick();
}

int TandemRuntime::unknown_executor(uint32_t ref) noexcept {
  return refuse(FRT_ERR_NOT_FOUND, "executor %" PRIu64 " is unknown; there is 37 (infer)", ref);
}

const char* TandemRuntime::last_error() noexcept {
  error_[0] = '\0';
  if (refusal_.text != nullptr) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    std::snprintf(error_, sizeof error_, refusal_.text, refusal_.number);
#pragma GCC diagnostic pop
    return error_;
  }
  using Fault = Runner::Fault;
  const Runner::Failure& f = runner_->failure();
  const bool output = f.fault == Fault::kNotReady || f.fault == Fault::kStorage;
  const std::vector<Port>& list = output ? ports_.out : ports_.in;
  const char* name = f.port < list.size() ? list[f.port].name.c_str() : "";
  switch (f.fault) {
    case Fault::kNone:
      break;
    case Fault::kStandbyInput:
      std::snprintf(error_, sizeof error_, "standby: %s", standby_->error());
      break;
    case Fault::kTooLarge:
      std::snprintf(error_, sizeof error_,
                    "%s: %" PRIu64 " bytes, the tandem keeps at most %" PRIu64
                    " (max_input_bytes, max_image_bytes)",
                    name, f.bytes, list[f.port].bytes);
      break;
    case Fault::kBadImage:
      std::snprintf(error_, sizeof error_, "%s: a view is malformed", name);
      break;
    case Fault::kNotStaged:
      std::snprintf(error_, sizeof error_, "%s: not staged; stage every required input", name);
      break;
    case Fault::kRefused:
      std::snprintf(
          error_, sizeof error_, "standby: %s; the lead does not lead and nothing is held",
          standby_->error()[0] != '\0' ? standby_->error() : "an output is missing or not finite");
      break;
    case Fault::kNotReady:
      std::snprintf(error_, sizeof error_, "%s: no output since the inputs changed; run a tick",
                    name);
      break;
    case Fault::kStorage:
      std::snprintf(error_, sizeof error_, "%s: %" PRIu64 " bytes are needed", name, f.bytes);
      break;
  }
  return error_;
}

// A whole tick beyond its period is one line of the log with its parts, at most one a second.
// Control thread: the tick itself formats nothing.
void TandemRuntime::tell_slow() noexcept {
  constexpr int64_t kEveryNs = 1000000000;
  Runner* runner = shown_runner_.load(std::memory_order_acquire);
  SlowTick slow;
  if (runner == nullptr || !runner->take_slow(slow)) return;
  const int64_t now_ns = clock_.now_ns();
  if (slow_told_ns_ != INT64_MIN && now_ns - slow_told_ns_ < kEveryNs) {
    ++slow_untold_;
    return;
  }
  const auto ms = [](int64_t ns) { return static_cast<double>(ns) * 1e-6; };
  log_line(LogLevel::kWarn,
           "tandem: tick %" PRId64
           " took %.1f ms of %.1f: %.1f waiting for the lead, %.1f in the "
           "standby; %s%s; %" PRId64 " more since the last line",
           slow.tick, ms(slow.took_ns), ms(config_.limits.period_ns), ms(slow.lead_ns),
           ms(slow.standby_ns), leader_name(slow.leader), slow.held ? ", held" : "", slow_untold_);
  slow_told_ns_ = now_ns;
  slow_untold_ = 0;
}

int TandemRuntime::note_warp(const char* route, const char* reason) noexcept {
  constexpr size_t kMostBytes = 160;
  if (route == nullptr || reason == nullptr ||
      (std::strcmp(route, "direct") != 0 && std::strcmp(route, "staged") != 0) ||
      std::strlen(reason) > kMostBytes)
    return FRT_ERR_INVALID;
  try {
    if (record_ != nullptr) record_->note_warp(route, reason);
  } catch (...) {
    return FRT_ERR_STORAGE;
  }
  return FRT_OK;
}

const char* TandemRuntime::lead_error() noexcept {
  const Error failure = worker_->last_failure();
  constexpr int64_t kBlameTheCable = 2;
  int64_t numbers[OUTRIDER_TANDEM_COUNT];
  runner_->read_counters(numbers);
  const int64_t losses = numbers[OUTRIDER_TANDEM_LOSSES];
  if (lead_side_.family == "remote" && losses >= kBlameTheCable)
    std::snprintf(lead_error_, sizeof lead_error_, "%.*s; lost %" PRId64 " times: check the cable",
                  static_cast<int>(sizeof lead_error_) - 64, failure.text, losses);
  else
    std::snprintf(lead_error_, sizeof lead_error_, "%s", failure.text);
  return lead_error_;
}

}  // namespace outrider::tandem
