// The one exported symbol of provider_tandem.so, and the ABI object of a tandem.
#include "abi/provider.h"

#include <cinttypes>
#include <cstdio>
#include <memory>

#include "abi/identity.h"
#include "outrider/frt_v1.h"
#include "providers/tandem/tandem_runtime.h"

namespace outrider::tandem {
namespace {

constexpr uint32_t kInfer = 37;  // the reference that a whole request has everywhere

struct Published {
  std::unique_ptr<TandemRuntime> runtime;
  std::string description;
  outrider_status_v1 status{};
  outrider_tandem_v1 tandem{};
};

TandemRuntime& of(void* self) {
  return *static_cast<Published*>(self)->runtime;
}

// ---- verbs --------------------------------------------------------------------------------------

int set_input(void* self, uint32_t port, const void* data, uint64_t bytes, int) {
  return self == nullptr ? FRT_ERR_INVALID : of(self).set_input(port, data, bytes);
}
int get_output(void* self, uint32_t port, void* out, uint64_t capacity, uint64_t* written, int) {
  return self == nullptr ? FRT_ERR_INVALID : of(self).get_output(port, out, capacity, written);
}
int prepare(void* self, uint32_t, uint64_t) {
  return self == nullptr ? FRT_ERR_INVALID : FRT_ERR_UNSUPPORTED;
}
int do_step(void* self) {
  return self == nullptr ? FRT_ERR_INVALID : of(self).tick();
}
int run_opaque(void* self, uint32_t ref) {
  if (self == nullptr) return FRT_ERR_INVALID;
  return ref == kInfer ? of(self).tick() : of(self).unknown_executor(ref);
}
const char* last_error(void* self) {
  return self == nullptr ? "self is NULL" : of(self).last_error();
}

// ---- extensions ---------------------------------------------------------------------------------

constexpr const char* kCounterNames[OUTRIDER_TANDEM_USED] = {
    "ticks",         "by_lead",         "by_standby",       "held",          "refused",
    "handovers",     "takeovers",       "handbacks",        "losses",        "connects",
    "stale_answers", "late_answers",    "repeated_answers", "forecasts",     "shadows",
    "covered",       "dropped_periods", "late_ticks",       "worst_tick_ns", "last_lead_ns",
    "worst_lead_ns", "standby_ns",      "resets",           "phase",         "standby_failures",
    "proving"};

const char* counter_name(uint64_t index) {
  return index < OUTRIDER_TANDEM_USED ? kCounterNames[index] : nullptr;
}
const char* phase_words(int64_t phase) {
  return phase >= 0 && phase <= static_cast<int64_t>(Phase::kUnavailable)
             ? phase_name(static_cast<Phase>(phase))
             : nullptr;
}
const char* reason_words(int64_t reason) {
  return reason >= 0 && reason < static_cast<int64_t>(Reason::kCount)
             ? reason_name(static_cast<Reason>(reason))
             : nullptr;
}
static_assert(OUTRIDER_REASON_STOPPED == static_cast<int>(Reason::kStopped));
static_assert(OUTRIDER_REASON_FORECAST == static_cast<int>(Reason::kForecast));
static_assert(OUTRIDER_REASON_STOPPED + 1 == static_cast<int>(Reason::kCount));

void read_origin(void* self, int64_t out[OUTRIDER_ORIGIN_COUNT]) {
  of(self).runner().read_origin(*reinterpret_cast<int64_t(*)[OUTRIDER_ORIGIN_COUNT]>(out));
}
void read_counters(void* self, int64_t out[OUTRIDER_TANDEM_COUNT]) {
  of(self).runner().read_counters(*reinterpret_cast<int64_t(*)[OUTRIDER_TANDEM_COUNT]>(out));
}
void replugged(void* self) {
  of(self).runner().replugged();
}
int note_warp(void* self, const char* route, const char* reason) {
  return self == nullptr ? FRT_ERR_INVALID : of(self).note_warp(route, reason);
}
void due(void* self, int64_t due_ns) {
  of(self).runner().due(due_ns);
}
const char* lead_error(void* self) {
  return of(self).lead_error();
}

uint64_t status_read(void* self, outrider_counter_v1* out, uint64_t capacity) {
  int64_t numbers[OUTRIDER_TANDEM_COUNT];
  of(self).runner().read_counters(numbers);
  for (uint64_t i = 0; out != nullptr && i < OUTRIDER_TANDEM_USED && i < capacity; ++i)
    out[i] = {kCounterNames[i], numbers[i]};
  return OUTRIDER_TANDEM_USED;
}
const char* status_describe(void* self) {
  return static_cast<Published*>(self)->description.c_str();
}

// ---- building -----------------------------------------------------------------------------------

void add_ports(abi::MetadataBuilder& b, const TandemRuntime& runtime) {
  const frt_model_runtime_v1& rt = runtime.standby();
  for (uint64_t i = 0; i < rt.n_ports; ++i) b.port_like(rt.ports[i]);
  const auto own = [&b](const char* name, uint32_t dtype, uint32_t direction, int64_t n) {
    b.port({name, FRT_MODALITY_TENSOR, dtype, FRT_LAYOUT_FLAT, direction, 0, {n}});
  };
  own("engaged", FRT_DTYPE_U8, FRT_PORT_IN, 1);
  own("origin", FRT_DTYPE_I64, FRT_PORT_OUT, OUTRIDER_ORIGIN_COUNT);
  own("counters", FRT_DTYPE_I64, FRT_PORT_OUT, OUTRIDER_TANDEM_COUNT);
}

// What can change a result: both sides, and every limit that is not its preset's.
void add_identity(abi::MetadataBuilder& b, const TandemRuntime& runtime) {
  const auto add = [&b](const char* key, const std::string& value) { b.identity(key, value); };
  char hex[32];
  std::snprintf(hex, sizeof hex, "%016" PRIx64, runtime.standby().exp->fingerprint);
  add("provider", "outrider_tandem");
  add("model_family", "tandem");
  add("standby_config_sha256", runtime.side(false).digest);
  add("standby_fingerprint", hex);
  add("lead_config_sha256", runtime.side(true).digest);
  add("preset", runtime.config().preset);
  const Limits preset = preset_limits(runtime.config().preset).value();
  for (const LimitRow& row : limit_rows())
    if (runtime.config().limits.*row.field != preset.*row.field)
      add(row.name, std::to_string(runtime.config().limits.*row.field));
}

Result<frt_model_runtime_v1*> publish(std::unique_ptr<TandemRuntime> runtime) {
  auto owned = std::make_unique<Published>();
  owned->runtime = std::move(runtime);
  owned->description = owned->runtime->description();
  owned->status = {1, sizeof owned->status, owned.get(), &status_read, &status_describe};
  owned->tandem = {1,
                   sizeof owned->tandem,
                   owned.get(),
                   &read_origin,
                   &read_counters,
                   &counter_name,
                   &phase_words,
                   &reason_words,
                   &lead_error,
                   &replugged,
                   &note_warp,
                   &due};
  abi::MetadataBuilder builder;
  add_identity(builder, *owned->runtime);
  add_ports(builder, *owned->runtime);
  builder.stage("infer", kInfer);
  builder.runner(run_opaque, owned.get());
  if (!builder.ok()) return builder.refusal(Code::kInvalid, "tandem");
  const frt_model_runtime_verbs verbs = {sizeof verbs, 0,        &set_input, &get_output,
                                         &prepare,     &do_step, &last_error};
  const abi::ExtensionTable tables[] = {{OUTRIDER_EXT_STATUS, 1, &owned->status},
                                        {OUTRIDER_EXT_TANDEM, 1, &owned->tandem}};
  return abi::publish(builder, std::move(owned), verbs, tables);
}

Result<frt_model_runtime_v1*> open_tandem(const Json& json) {
  auto config = read_tandem_config(json);
  if (!config) return config.error();
  auto runtime = TandemRuntime::open(config.value());
  if (!runtime) return runtime.error();
  return publish(std::move(runtime.value()));
}

}  // namespace

std::string TandemRuntime::description() const {
  std::string text = "{\"family\":\"tandem\",\"preset\":\"" + config_.preset + "\"";
  for (const Side* side : {&standby_side_, &lead_side_})
    text += ",\"" + side->role + "\":{\"family\":\"" + side->family + "\",\"config_sha256\":\"" +
            side->digest + "\"}";
  char number[96];
  for (const LimitRow& row : limit_rows()) {
    std::snprintf(number, sizeof number, ",\"%s\":%g", row.name, limit_value(config_.limits, row));
    text += number;
  }
  std::snprintf(number, sizeof number, ",\"memory_bytes\":%zu}", arena_.capacity_bytes());
  return text + number;
}

}  // namespace outrider::tandem

extern "C" __attribute__((visibility("default"))) int frt_model_runtime_open_v1(
    const char* config_json, frt_model_runtime_v1** out) {
  constexpr outrider::abi::Family kFamilies[] = {{"tandem", outrider::tandem::open_tandem}};
  return outrider::abi::open_provider(config_json, out, kFamilies);
}
