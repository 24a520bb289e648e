#include "providers/gguf/open_choices.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/cpu_budget.h"
#include "kernels/dispatch.h"

namespace outrider {

UsefulThreads choose_useful_threads(int64_t wanted) {
  const CpuBudget budget = cpu_budget();
  const ThreadChoice choice = choose_threads(wanted, budget);
  uint32_t most = std::max(budget.n_allowed_cpus, 1u);
  if (budget.quota_cpus > 0)
    most = std::min(most, static_cast<uint32_t>(std::ceil(budget.quota_cpus)));
  if (choice.n_threads <= most) {
    return {static_cast<int>(choice.n_threads),
            choice.warning.empty() ? budget.reason : choice.warning};
  }
  return {static_cast<int>(most), "warning: " + std::to_string(choice.n_threads) +
                                      " threads wanted, " + std::to_string(most) +
                                      " used: " + budget.reason};
}

bool cpu_has_bf16_dot() {
  return std::strstr(cpu_features(), "avx512_bf16") != nullptr;
}

const char* precision_name(Precision precision) {
  switch (precision) {
    case Precision::kBf16:
      return "bf16";
    case Precision::kInt8:
      return "int8";
    case Precision::kStored:
      return "stored";
    case Precision::kF32:
      break;
  }
  return "f32";
}

}  // namespace outrider
