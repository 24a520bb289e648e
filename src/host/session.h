// The C++ face of the host, for commands and tests: ports by name, typed inputs, owned outputs.
//
// One session belongs to one thread at a time. Every failure is a code and one line that names the
// port or stage.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "outrider/ext/status.h"
#include "outrider/ext/taps.h"
#include "outrider/frt_v1.h"

namespace outrider {
class Clock;
}

namespace outrider::host {

class SessionCore;

// No output of a variable size is fetched beyond this.
inline constexpr uint64_t kMaxOutputBytes = uint64_t{1} << 30;

class Session {
 public:
  // [setup] See outrider_open. `config_json` goes to the provider verbatim.
  static Result<Session> open(const std::string& provider_path, const std::string& config_json);
  // [setup] As above, stage times by another clock (it must outlive the session).
  static Result<Session> open(const std::string& provider_path, const std::string& config_json,
                              const Clock& clock);
  // [setup] Retains a runtime that somebody else made.
  static Result<Session> adopt(const frt_model_runtime_v1* runtime);

  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;
  ~Session();  // releases the runtime, then unloads the library

  const frt_model_runtime_v1& runtime() const;
  uint64_t fingerprint() const;
  std::string_view identity() const;

  // ---- ports -------------------------------------------------------------------------------
  std::span<const frt_runtime_port_desc> ports() const;
  // Errors: kNotFound, with the names there are.
  Result<uint32_t> port_by_name(const char* name) const;
  // First port of this direction and modality (FRT_PORT_*, FRT_MODALITY_*), or nothing.
  std::optional<uint32_t> port_by_kind(uint32_t direction, uint32_t modality) const;

  // [hot] Inputs; the callee copies. set_image takes one view per declared camera, in order;
  // set_text UTF-8; set_state and set_values raw values of the port's type. Errors: the runtime's
  // own, and kInvalid when the port has another modality or element type than the call delivers.
  Result<void> set_image(uint32_t port, std::span<const frt_image_view> views);
  Result<void> set_text(uint32_t port, std::string_view text);
  Result<void> set_state(uint32_t port, std::span<const float> values);
  Result<void> set_raw(uint32_t port, std::span<const std::byte> bytes);

  // [hot] Copies an output into the caller's storage; returns the bytes stored. kNoMemory when it
  // does not fit: `needed` (may be nullptr) then holds what it takes.
  Result<uint64_t> get_into(uint32_t port, std::span<std::byte> out, uint64_t* needed = nullptr);
  // Owned outputs of any size. get_actions (f32, row major, the port's shape) refuses a NaN or an
  // infinity with kFailed and its index: such a chunk is never handed out here. The C function
  // outrider_get_output delivers what the runtime delivers.
  Result<std::vector<std::byte>> get_raw(uint32_t port);
  Result<std::vector<float>> get_actions(uint32_t port);
  Result<std::string> get_text(uint32_t port);

  // ---- running -----------------------------------------------------------------------------
  uint64_t n_stages() const;
  const char* stage_name(uint64_t stage) const;  // nullptr beyond n_stages
  Result<uint64_t> stage_by_name(const char* name) const;
  Result<void> tick();
  Result<void> run_stage(uint64_t stage);
  Result<void> step();
  bool has_step() const;
  int64_t stage_ns(uint64_t stage) const;  // of its last run; 0 before the first

  // ---- extensions --------------------------------------------------------------------------
  // nullptr when the runtime does not offer it, or offers a table that is too short.
  const outrider_taps_v1* taps() const;
  const outrider_status_v1* status() const;
  const void* extension(uint64_t id, uint32_t min_version) const;

 private:
  explicit Session(std::unique_ptr<SessionCore> core);
  Result<void> verdict(int code) const;
  Result<void> expect(uint32_t port, uint32_t modality, const char* what) const;
  std::unique_ptr<SessionCore> core_;
};

// Index of the first NaN or infinity, or -1.
int64_t first_non_finite(std::span<const float> values) noexcept;

}  // namespace outrider::host
