// Tells a tandem when its tick was due, so that what a loop lost before it began the tick comes off
// the time the lead is given. Every other runtime is told nothing.
#pragma once
#include <cstddef>
#include <cstdint>

#include "outrider/ext/tandem.h"
#include "outrider/host.h"

namespace outrider::loop {

class DueTime {
 public:
  DueTime() = default;
  // [setup] The session must outlive it.
  explicit DueTime(const outrider_session* session) {
    const auto* table =
        static_cast<const outrider_tandem_v1*>(outrider_extension(session, OUTRIDER_EXT_TANDEM, 1));
    constexpr size_t kLeastBytes = offsetof(outrider_tandem_v1, due) + sizeof table->due;
    if (table != nullptr && table->struct_size >= kLeastBytes) table_ = table;
  }
  // [hot] The tick that comes next was due then, by CLOCK_MONOTONIC.
  void tell(int64_t due_ns) const noexcept {
    if (table_ != nullptr && table_->due != nullptr) table_->due(table_->self, due_ns);
  }

 private:
  const outrider_tandem_v1* table_ = nullptr;
};

}  // namespace outrider::loop
