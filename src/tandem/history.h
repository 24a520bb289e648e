// The history extension of a runtime, if it has one.
#pragma once
#include "host/session_core.h"
#include "outrider/ext/history.h"

namespace outrider::tandem {

// [setup] nullptr when the runtime offers none, or one that is too short to be used.
const outrider_history_v1* history_of(const host::SessionCore& session) noexcept;

}  // namespace outrider::tandem
