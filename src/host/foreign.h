// Calls into code we did not write. A provider must not throw through the C border; if one does,
// the exception ends here and becomes a failed call.
#pragma once

namespace outrider::host {

struct ForeignCall {
  int code = 0;
  bool threw = false;
  bool ok() const { return code == 0 && !threw; }
};

template <class F>
ForeignCall call_foreign(F&& call) noexcept {
  try {
    return {call(), false};
  } catch (...) {
    return {0, true};
  }
}

}  // namespace outrider::host
