#include "host/conform_bench.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cinttypes>
#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "abi/probe.h"
#include "host/loader.h"
#include "host/reason.h"
#include "outrider/ext/tandem.h"

namespace outrider::host::conformance {
namespace {

std::string format_text(const char* format, va_list args) {
  char text[1024];
  std::vsnprintf(text, sizeof text, format, args);
  char line[sizeof text];
  copy_line(line, sizeof line, text);  // names and texts of a provider may hold anything
  return line;
}

void keep_first(std::string* slot, const char* format, va_list args) {
  if (slot->empty()) *slot = format_text(format, args);
}

}  // namespace

void Verdict::fail(const char* format, ...) {
  va_list args;
  va_start(args, format);
  keep_first(&failure_, format, args);
  va_end(args);
}

void Verdict::skip(const char* format, ...) {
  va_list args;
  va_start(args, format);
  keep_first(&skip_, format, args);
  va_end(args);
}

void Verdict::advise(const char* format, ...) {
  va_list args;
  va_start(args, format);
  keep_first(&advice_, format, args);
  va_end(args);
}

ConformCheck Verdict::check(const char* name, bool strict) const {
  using enum ConformOutcome;
  if (!failure_.empty()) return {name, kFailed, failure_};
  if (!skip_.empty()) return {name, kSkipped, skip_};
  if (advice_.empty()) return {name, kPassed, ""};
  return {name, strict ? kFailed : kPassed, "advice: " + advice_};
}

// ---- one runtime -------------------------------------------------------------------------------

Instance::Instance(Bench* bench, const frt_model_runtime_v1* owned)
    : bench_(bench), runtime_(owned) {
  auto plan = abi::query_plan(owned);
  if (plan && plan.value() != nullptr && abi::check_plan(plan.value(), owned)) plan_ = plan.value();
}

Instance::Instance(Instance&& other) noexcept
    : bench_(other.bench_),
      runtime_(std::exchange(other.runtime_, nullptr)),
      plan_(std::exchange(other.plan_, nullptr)) {}

Instance& Instance::operator=(Instance&& other) noexcept {
  std::swap(bench_, other.bench_);
  std::swap(runtime_, other.runtime_);
  std::swap(plan_, other.plan_);
  return *this;
}

void Instance::release() {
  const auto* r = std::exchange(runtime_, nullptr);
  plan_ = nullptr;
  if (r != nullptr && r->release != nullptr)
    bench_->foreign(ProviderCall::kRetainRelease, [&] { return r->release(r->owner), 0; });
}

std::span<const frt_generic_stage_desc_v1> Instance::stages() const {
  if (plan_ == nullptr) return {};
  return {plan_->stages, static_cast<size_t>(plan_->n_stages)};
}

std::optional<uint32_t> Instance::port(std::string_view name) const {
  for (uint32_t i = 0; i < runtime_->n_ports; ++i)
    if (runtime_->ports[i].name == name) return i;
  return std::nullopt;
}

std::optional<uint32_t> Instance::stage(std::string_view name) const {
  for (uint32_t i = 0; i < stages().size(); ++i)
    if (stages()[i].name == name) return i;
  return std::nullopt;
}

int Instance::set(uint32_t port, const void* data, uint64_t bytes) {
  if (runtime_->verbs.set_input == nullptr) return FRT_ERR_UNSUPPORTED;
  return bench_->foreign(ProviderCall::kSetInput, [&] {
    return runtime_->verbs.set_input(runtime_->self, port, data, bytes, -1);
  });
}

int Instance::get(uint32_t port, void* out, uint64_t capacity, uint64_t* written) {
  if (runtime_->verbs.get_output == nullptr) return FRT_ERR_UNSUPPORTED;
  return bench_->foreign(ProviderCall::kGetOutput, [&] {
    return runtime_->verbs.get_output(runtime_->self, port, out, capacity, written, -1);
  });
}

int Instance::run_ref(uint32_t executor_ref) {
  return bench_->foreign(ProviderCall::kRunStage,
                         [&] { return plan_->run_opaque(plan_->stage_self, executor_ref); });
}

int Instance::step() {
  if (!has_step()) return FRT_ERR_UNSUPPORTED;
  return bench_->foreign(ProviderCall::kStep, [&] { return runtime_->verbs.step(runtime_->self); });
}

int Instance::tick() {
  if (plan_ == nullptr) return step();
  for (size_t i = 0; i < stages().size(); ++i)
    if (const int code = run_stage(i); code != 0) return code;
  return 0;
}

int Instance::query(uint64_t id, uint32_t min_version, const void** out) {
  return bench_->foreign(ProviderCall::kQueryExtension,
                         [&] { return runtime_->query_extension(runtime_, id, min_version, out); });
}

int Instance::prepare(uint32_t graph, uint64_t key) {
  if (runtime_->verbs.prepare == nullptr) return FRT_ERR_UNSUPPORTED;
  return bench_->foreign(ProviderCall::kPrepare,
                         [&] { return runtime_->verbs.prepare(runtime_->self, graph, key); });
}

const char* Instance::raw_error() {
  const char* text = nullptr;
  if (runtime_->verbs.last_error != nullptr)
    bench_->foreign(ProviderCall::kLastError,
                    [&] { return text = runtime_->verbs.last_error(runtime_->self), 0; });
  return text;
}

std::string Instance::error() {
  char line[kReasonBytes];
  copy_line(line, sizeof line, raw_error());
  return line;
}

// Room behind every output that the provider is not told of: one that writes too far spoils a
// verdict, not this process.
constexpr uint64_t kSlackBytes = 64;

Output Instance::read(uint32_t port) {
  Output out;
  uint64_t needed = fixed_bytes(ports()[port]).value_or(0);
  if (needed == 0) {
    out.code = get(port, nullptr, 0, &needed);
    if (out.code != FRT_ERR_STORAGE) return out;
  }
  if (needed > kMaxPayloadBytes) {
    out.code = FRT_ERR_STORAGE;
    return out;
  }
  out.bytes.resize(needed + kSlackBytes);
  uint64_t written = 0;
  out.code = get(port, out.bytes.data(), needed, &written);
  out.bytes.resize(out.code == 0 && written <= needed ? written : 0);
  bench_->note_nonfinite(port, ports()[port], out);
  return out;
}

std::vector<Output> Instance::read_all() {
  std::vector<Output> all;
  for (uint32_t i = 0; i < runtime_->n_ports; ++i)
    if (bench_->judges(ports()[i])) all.push_back(read(i));
  return all;
}

// ---- the bench ---------------------------------------------------------------------------------

Bench::Bench(std::string path, std::string config, const ConformOptions& options)
    : path_(std::move(path)), config_(std::move(config)), options_(options) {
  auto parsed = Json::parse(config_, Json::Dialect::kFlatOpen);
  if (parsed) json_ = std::move(parsed.value());
  remote_ = text_key("model_family") == "remote";
  auto served = Json::parse(options.served, Json::Dialect::kFlatOpen);
  if (remote_ && served) served_ = std::move(served.value());
  family_ = text_key("model_family");
  std::string why;
  open_fn_ = load(path_, &handle_, &why);
}

Bench::~Bench() {
  close();
}

void Bench::close() {
  main.reset();
  sound = false;
  open_fn_ = nullptr;
  unload(std::exchange(handle_, nullptr));
}

void Bench::unload(void* handle) {
  if (handle == nullptr) return;
  tell(ProviderCall::kLoad);
  dlclose(handle);
  tell(ProviderCall::kNone);
}

namespace {

// Index of the first value that is not finite. Other types than floats have none.
std::optional<size_t> first_nonfinite(uint32_t dtype, const std::vector<std::byte>& bytes) {
  // All exponent bits set: infinite or no number.
  struct Row {
    uint32_t dtype;
    size_t value_bytes;
    uint32_t exponent;
  };
  constexpr Row kRows[] = {
      {FRT_DTYPE_F32, 4, 0x7f800000}, {FRT_DTYPE_F16, 2, 0x7c00}, {FRT_DTYPE_BF16, 2, 0x7f80}};
  for (const Row& row : kRows) {
    if (row.dtype != dtype) continue;
    for (size_t i = 0; (i + 1) * row.value_bytes <= bytes.size(); ++i) {
      uint32_t bits = 0;
      std::memcpy(&bits, bytes.data() + i * row.value_bytes, row.value_bytes);
      if ((bits & row.exponent) == row.exponent) return i;
    }
  }
  return std::nullopt;
}

}  // namespace

void Bench::note_nonfinite(uint32_t index, const frt_runtime_port_desc& port, const Output& out) {
  if (port.modality != FRT_MODALITY_ACTION || out.code != 0 || !nonfinite_.empty()) return;
  if (const auto at = first_nonfinite(port.dtype, out.bytes))
    nonfinite_ = "port " + std::to_string(index) + " (" + port.name + "): value " +
                 std::to_string(*at) + " is not finite after a tick with finite inputs";
}

void Bench::look_at_stdout(const char* check_name) {
  if (options_.stdout_fd < 0 || !stdout_writer_.empty()) return;
  std::fflush(stdout);
  if (::lseek(options_.stdout_fd, 0, SEEK_CUR) > 0) stdout_writer_ = check_name;
}

const Json* Bench::value_of(const char* key) const {
  const Json* facts = served_ ? &*served_ : json();
  return facts == nullptr ? nullptr : facts->find(key);
}

std::string Bench::text_key(const char* key) const {
  const Json* value = value_of(key);
  return value != nullptr && value->is_string() ? value->text() : "";
}

std::optional<int64_t> Bench::integer_key(const char* key) const {
  const Json* value = value_of(key);
  if (value == nullptr || !value->is_integer()) return std::nullopt;
  return value->integer();
}

double Bench::number_key(const char* key, double otherwise) const {
  const Json* value = value_of(key);
  return value != nullptr && value->is_number() ? value->number() : otherwise;
}

bool Bench::is_tandem() const {
  if (family_ == "tandem") return true;
  if (!main) return false;
  const auto has = [&](const char* name, uint32_t direction, uint32_t dtype, int64_t size) {
    const auto at = main->port(name);
    if (!at) return false;
    const frt_runtime_port_desc& p = main->ports()[*at];
    return p.direction == direction && p.dtype == dtype && p.rank == 1 && p.shape[0] == size;
  };
  return has("engaged", FRT_PORT_IN, FRT_DTYPE_U8, 1) &&
         has("origin", FRT_PORT_OUT, FRT_DTYPE_I64, OUTRIDER_ORIGIN_COUNT) &&
         has("counters", FRT_PORT_OUT, FRT_DTYPE_I64, OUTRIDER_TANDEM_COUNT);
}

bool Bench::judges(const frt_runtime_port_desc& port) const {
  const std::string_view name = port.name;
  const bool about_itself = is_tandem() && (name == "origin" || name == "counters");
  return port.direction == FRT_PORT_OUT && port.update == FRT_UPDATE_STAGED && !about_itself &&
         !options_.ignored_outputs.contains(port.name);
}

bool Bench::may_vary() const {
  // What stands behind any of these may remember, or be another every time.
  if (family_ == "remote" || family_ == "tandem" || family_ == "camera") return true;
  if (!text_key("state_pairs").empty() || integer_key("history").has_value()) return true;
  return is_text() && number_key("temp", 0) > 0 && number_key("seed", 0) == 0;
}

frt_model_runtime_open_v1_fn Bench::load(const std::string& path, void** handle, std::string* why) {
  tell(ProviderCall::kLoad);
  *handle = load_library(path.c_str(), *why);
  tell(ProviderCall::kNone);
  if (*handle == nullptr) return nullptr;
  void* symbol = dlsym(*handle, FRT_MODEL_RUNTIME_OPEN_SYMBOL);
  if (symbol == nullptr) *why = "no symbol " FRT_MODEL_RUNTIME_OPEN_SYMBOL;
  return reinterpret_cast<frt_model_runtime_open_v1_fn>(symbol);
}

Bench::Opened Bench::try_open(const char* config, frt_model_runtime_open_v1_fn fn) {
  static frt_model_runtime_v1 dirt;
  frt_model_runtime_v1* out = &dirt;
  if (fn == nullptr) fn = open_fn_;
  publish_reason_sink();
  clear_open_reason();
  Opened opened;
  opened.code = foreign(ProviderCall::kOpen, [&] { return fn(config, &out); });
  opened.touched = out != &dirt;
  opened.runtime = opened.touched ? out : nullptr;
  return opened;
}

std::optional<Instance> Bench::open(Verdict& v, frt_model_runtime_open_v1_fn fn) {
  const Opened opened = try_open(config_.c_str(), fn);
  if (opened.code != 0 || opened.runtime == nullptr) {
    char reason[kReasonBytes];
    read_open_reason(reason);
    v.fail("open of the given configuration answered %d%s%s", opened.code,
           reason[0] == 0 ? "; no reason was left" : ": ", reason);
    return std::nullopt;
  }
  if (auto prefix = abi::check_runtime_prefix(opened.runtime); !prefix) {
    v.fail("%s", prefix.error().text);  // nobody knows how to release it
    return std::nullopt;
  }
  return std::optional<Instance>(std::in_place, this, opened.runtime);
}

bool Bench::wants(const frt_runtime_port_desc& port) const {
  if (port.direction != FRT_PORT_IN || port.update != FRT_UPDATE_STAGED) return false;
  return port.required == 1 || options_.inputs.contains(port.name) || fixed_bytes(port).has_value();
}

bool Bench::stage_all(Instance& in, Verdict& v, int variant, int64_t except) {
  for (uint32_t i = 0; i < in.ports().size(); ++i) {
    const frt_runtime_port_desc& port = in.ports()[i];
    if (!wants(port) || i == except) continue;
    auto made = payload(port, variant);
    if (!made) {
      v.skip("port %u (%s): this suite cannot make an input of that shape; give one", i, port.name);
      return false;
    }
    if (const int code = in.set(i, *made); code != 0) {
      v.fail("port %u (%s): set_input of a generated input answered %d: %s", i, port.name, code,
             in.error().c_str());
      return false;
    }
  }
  return true;
}

bool Bench::run_tick(Instance& in, Verdict& v, int variant) {
  if (!stage_all(in, v, variant)) return false;
  if (const int code = in.tick(); code != 0) {
    v.fail("a tick with every input staged answered %d: %s", code, in.error().c_str());
    return false;
  }
  return true;
}

}  // namespace outrider::host::conformance
