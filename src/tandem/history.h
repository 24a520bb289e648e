// The history of a model (queues, recurrent state): kept from tick to tick, and put back to its
// start in place.
#pragma once
#include "host/session_core.h"
#include "outrider/ext/history.h"

namespace outrider::tandem {

// [setup] An extension table of a runtime, or nullptr.
const void* extension_of(const host::SessionCore& session, uint64_t id, uint32_t revision) noexcept;

// A runtime tells that it has one in two ways: by the history extension, or by a stage "reset" in
// its plan, which runs before the others. Then a tick of ours runs the others alone. A runtime that
// does neither is taken to have none.
class History {
 public:
  History() = default;
  // [setup] Resets three times, so that nothing is done for the first time when it counts.
  // Errors: those of the reset, with its words.
  static Result<History> of(host::SessionCore& session);

  bool exists() const { return table_ != nullptr || reset_stage_ >= 0; }
  // [hot] One tick that goes on from the one before. A code of frt_v1.h.
  int tick(host::SessionCore& session) const noexcept;
  // [hot] Back to the start, in place. FRT_OK also where there is none.
  int reset(host::SessionCore& session) const noexcept;

 private:
  const outrider_history_v1* table_ = nullptr;
  int reset_stage_ = -1;
};

}  // namespace outrider::tandem
