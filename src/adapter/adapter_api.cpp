// The C side of include/outrider/adapter.h.
#include <exception>

#include "adapter/conform.h"

extern "C" void outrider_adapter_init(outrider_adapter_v1* adapter) {
  if (adapter == nullptr) return;
  *adapter = {};
  adapter->version = OUTRIDER_ADAPTER_VERSION;
  adapter->struct_size = sizeof *adapter;
}

extern "C" int outrider_adapter_conform(const outrider_adapter_v1* adapter,
                                        outrider_adapter_line_fn line, void* user) {
  try {
    int n_failed = 0;
    for (const auto& check : outrider::adapter::conform(adapter)) {
      n_failed += check.passed ? 0 : 1;
      if (line != nullptr)
        line(user, check.name.c_str(), check.passed ? 1 : 0, check.detail.c_str());
    }
    return n_failed;
  } catch (...) {  // out of memory: not conform, as far as anybody can tell
    return 1;
  }
}
