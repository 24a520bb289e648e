#include "host/session.h"

#include <cmath>
#include <cstring>

#include "abi/probe.h"
#include "host/session_core.h"

namespace outrider::host {
namespace {

// A set-up call that runs out of memory answers with a code like every other failure.
template <class T, class F>
Result<T> with_memory(F&& make, const char* what) {
  try {
    return make();
  } catch (const std::bad_alloc&) {
    return make_error(Code::kNoMemory, "host: out of memory for %s", what);
  }
}

// Bytes of one output of fixed shape, or 0 when a dimension is variable or the product too large.
uint64_t fixed_bytes(const frt_runtime_port_desc& port) {
  static constexpr uint64_t kDtypeBytes[] = {1, 4, 2, 2, 4, 8};
  if (port.dtype >= std::size(kDtypeBytes)) return 0;
  uint64_t n_bytes = kDtypeBytes[port.dtype];
  for (uint32_t i = 0; i < port.rank; ++i) {
    if (port.shape[i] <= 0 ||
        __builtin_mul_overflow(n_bytes, static_cast<uint64_t>(port.shape[i]), &n_bytes))
      return 0;
  }
  return n_bytes <= kMaxOutputBytes ? n_bytes : 0;
}

}  // namespace

int64_t first_non_finite(std::span<const float> values) noexcept {
  for (size_t i = 0; i < values.size(); ++i)
    if (!std::isfinite(values[i])) return static_cast<int64_t>(i);
  return -1;
}

Session::Session(std::unique_ptr<SessionCore> core) : core_(std::move(core)) {}
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;
Session::~Session() = default;

Result<Session> Session::open(const std::string& provider_path, const std::string& config_json) {
  return open(provider_path, config_json, monotonic_clock());
}

Result<Session> Session::open(const std::string& provider_path, const std::string& config_json,
                              const Clock& clock) {
  return with_memory<Session>(
      [&]() -> Result<Session> {
        auto core = SessionCore::open(provider_path.c_str(), config_json.c_str(), clock);
        if (!core) return core.error();
        return Session(std::move(core.value()));
      },
      "a session");
}

Result<Session> Session::adopt(const frt_model_runtime_v1* runtime) {
  return with_memory<Session>(
      [&]() -> Result<Session> {
        auto core = SessionCore::adopt(runtime, monotonic_clock());
        if (!core) return core.error();
        return Session(std::move(core.value()));
      },
      "a session");
}

const frt_model_runtime_v1& Session::runtime() const {
  return core_->runtime();
}
uint64_t Session::fingerprint() const {
  return runtime().exp->fingerprint;
}
std::string_view Session::identity() const {
  return runtime().exp->identity;
}

// ---- ports -------------------------------------------------------------------------------------

std::span<const frt_runtime_port_desc> Session::ports() const {
  return {runtime().ports, static_cast<size_t>(runtime().n_ports)};
}

Result<uint32_t> Session::port_by_name(const char* name) const {
  const int index = core_->find_port(name);
  if (index >= 0) return static_cast<uint32_t>(index);
  char names[256] = {};
  for (const auto& port : ports()) {
    const size_t used = std::strlen(names);
    std::snprintf(names + used, sizeof names - used, "%s%s", used == 0 ? "" : ", ", port.name);
  }
  return make_error(Code::kNotFound, "port %.96s: unknown; this runtime has: %s",
                    name == nullptr ? "(NULL)" : name, names);
}

std::optional<uint32_t> Session::port_by_kind(uint32_t direction, uint32_t modality) const {
  for (size_t i = 0; i < ports().size(); ++i)
    if (ports()[i].direction == direction && ports()[i].modality == modality)
      return static_cast<uint32_t>(i);
  return std::nullopt;
}

Result<void> Session::verdict(int code) const {
  if (code == 0) return {};
  return make_error(static_cast<Code>(code), "%s", core_->error());
}

// The call delivers `modality`; an unknown port is left to the core, which has the words for it.
Result<void> Session::expect(uint32_t port, uint32_t modality, const char* what) const {
  static constexpr const char* kNames[] = {"tensor", "image", "text",  "state",
                                           "action", "audio", "depth", "force"};
  if (port >= ports().size() || ports()[port].modality == modality) return {};
  const uint32_t found = ports()[port].modality;
  return make_error(Code::kInvalid, "port %.96s: takes %s, %s given", ports()[port].name,
                    found < std::size(kNames) ? kNames[found] : "an unknown kind", what);
}

Result<void> Session::set_image(uint32_t port, std::span<const frt_image_view> views) {
  if (port < ports().size() && ports()[port].modality != FRT_MODALITY_DEPTH)
    OUTRIDER_TRY(expect(port, FRT_MODALITY_IMAGE, "images"));
  return verdict(core_->set_input(port, views.data(), views.size_bytes()));
}

Result<void> Session::set_text(uint32_t port, std::string_view text) {
  OUTRIDER_TRY(expect(port, FRT_MODALITY_TEXT, "text"));
  return verdict(core_->set_input(port, text.data(), text.size()));
}

Result<void> Session::set_state(uint32_t port, std::span<const float> values) {
  if (port < ports().size() && ports()[port].dtype != FRT_DTYPE_F32)
    return make_error(Code::kInvalid, "port %.96s: element type %u, f32 (1) given",
                      ports()[port].name, ports()[port].dtype);
  OUTRIDER_TRY(expect(port, FRT_MODALITY_STATE, "a state"));
  return verdict(core_->set_input(port, values.data(), values.size_bytes()));
}

Result<void> Session::set_raw(uint32_t port, std::span<const std::byte> bytes) {
  return verdict(core_->set_input(port, bytes.data(), bytes.size()));
}

Result<uint64_t> Session::get_into(uint32_t port, std::span<std::byte> out, uint64_t* needed) {
  uint64_t written = 0;
  const int code = core_->get_output(port, out.data(), out.size(), &written);
  if (needed != nullptr) *needed = written;
  OUTRIDER_TRY(verdict(code));
  return written;
}

Result<std::vector<std::byte>> Session::get_raw(uint32_t port) {
  return with_memory<std::vector<std::byte>>(
      [&]() -> Result<std::vector<std::byte>> {
        std::vector<std::byte> bytes(port < ports().size() ? fixed_bytes(ports()[port]) : 0);
        // A size query and a fetch; once more for a runtime that changes its mind in between.
        for (int attempt = 0;; ++attempt) {
          uint64_t needed = 0;
          auto stored = get_into(port, bytes, &needed);
          if (stored) {
            bytes.resize(stored.value());
            return bytes;
          }
          if (stored.code() != Code::kNoMemory || needed <= bytes.size() || attempt == 2)
            return stored.error();
          if (needed > kMaxOutputBytes)
            return make_error(Code::kNoMemory,
                              "port %.96s: %llu bytes wanted, this host fetches at most %llu",
                              ports()[port].name, static_cast<unsigned long long>(needed),
                              static_cast<unsigned long long>(kMaxOutputBytes));
          bytes.resize(needed);
        }
      },
      "an output");
}

Result<std::vector<float>> Session::get_actions(uint32_t port) {
  auto raw = get_raw(port);
  if (!raw) return raw.error();
  const auto& desc = ports()[port];
  if (desc.dtype != FRT_DTYPE_F32 || raw.value().size() % sizeof(float) != 0)
    return make_error(Code::kShape,
                      "port %.96s: element type %u and %zu bytes, whole f32 values wanted",
                      desc.name, desc.dtype, raw.value().size());
  return with_memory<std::vector<float>>(
      [&]() -> Result<std::vector<float>> {
        std::vector<float> values(raw.value().size() / sizeof(float));
        std::memcpy(values.data(), raw.value().data(), raw.value().size());
        const int64_t bad = first_non_finite(values);
        if (bad >= 0)
          return make_error(Code::kFailed,
                            "port %.96s: value %lld of %zu is %f; actions must be finite",
                            desc.name, static_cast<long long>(bad), values.size(),
                            static_cast<double>(values[static_cast<size_t>(bad)]));
        return values;
      },
      "an output");
}

Result<std::string> Session::get_text(uint32_t port) {
  auto raw = get_raw(port);
  if (!raw) return raw.error();
  return with_memory<std::string>(
      [&]() -> Result<std::string> {
        return std::string(reinterpret_cast<const char*>(raw.value().data()), raw.value().size());
      },
      "an output");
}

// ---- running -----------------------------------------------------------------------------------

uint64_t Session::n_stages() const {
  return core_->order().size();
}

const char* Session::stage_name(uint64_t stage) const {
  return stage < n_stages() ? core_->order().stages()[stage].name.c_str() : nullptr;
}

Result<uint64_t> Session::stage_by_name(const char* name) const {
  const int index = core_->find_stage(name);
  if (index >= 0) return static_cast<uint64_t>(index);
  return make_error(Code::kNotFound,
                    "stage %.96s: unknown; this runtime has %llu stages, the first is %.96s",
                    name == nullptr ? "(NULL)" : name, static_cast<unsigned long long>(n_stages()),
                    stage_name(0));
}

Result<void> Session::tick() {
  return verdict(core_->tick());
}
Result<void> Session::run_stage(uint64_t stage) {
  return verdict(core_->run_stage(stage));
}
Result<void> Session::step() {
  return verdict(core_->step());
}
bool Session::has_step() const {
  return core_->has_step();
}
int64_t Session::stage_ns(uint64_t stage) const {
  return stage < n_stages() ? core_->order().last_ns(stage) : 0;
}

// ---- extensions --------------------------------------------------------------------------------

const void* Session::extension(uint64_t id, uint32_t min_version) const {
  const void* table = nullptr;
  abi::query_extension(&runtime(), id, min_version, &table);
  return table;
}

const outrider_taps_v1* Session::taps() const {
  const auto* table = static_cast<const outrider_taps_v1*>(extension(OUTRIDER_EXT_TAPS, 1));
  return table != nullptr && table->struct_size >= sizeof *table ? table : nullptr;
}

const outrider_status_v1* Session::status() const {
  const auto* table = static_cast<const outrider_status_v1*>(extension(OUTRIDER_EXT_STATUS, 1));
  return table != nullptr && table->struct_size >= sizeof *table ? table : nullptr;
}

}  // namespace outrider::host
