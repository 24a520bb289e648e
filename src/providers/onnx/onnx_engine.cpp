#include "providers/onnx/onnx_engine.h"

#include <algorithm>

#include "base/cpu_budget.h"
#include "kernels/cpu_ops.h"

namespace outrider {
namespace {

// A graph with less work than this is done before a second thread has heard of it.
constexpr double kAloneFlop = 8e6;

}  // namespace

Result<OnnxEngine> make_onnx_engine(std::shared_ptr<const onnx::Plan> plan, int64_t n_threads) {
  OnnxEngine engine;
  const CpuBudget budget = cpu_budget();
  const bool alone = n_threads <= 0 && plan->flop() < kAloneFlop;
  const ThreadChoice choice = choose_threads(alone ? 1 : n_threads, budget);
  // Threads beyond the CPUs of this process only wait for each other.
  engine.n_threads =
      static_cast<int>(std::min(choice.n_threads, std::max(budget.n_allowed_cpus, uint32_t{1})));
  engine.threads_note = alone                    ? "1: a small graph"
                        : choice.warning.empty() ? budget.reason
                                                 : choice.warning;
  auto ops = make_cpu_ops({.n_threads = engine.n_threads});
  if (!ops) return ops.error();
  engine.ops = std::move(ops.value());
  auto run = onnx::Run::make(std::move(plan), *engine.ops);
  if (!run) return run.error();
  engine.run = std::move(run.value());
  return engine;
}

}  // namespace outrider
