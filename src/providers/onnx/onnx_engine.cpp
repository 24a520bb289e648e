#include "providers/onnx/onnx_engine.h"

#include <algorithm>
#include <cstdio>

#include "base/cpu_budget.h"
#include "base/json_text.h"
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

std::string graph_facts(const OnnxOpenConfig& config, const OnnxFile& file,
                        const OnnxEngine& engine) {
  const onnx::Plan& plan = *file.plan;
  char numbers[400];
  std::snprintf(
      numbers, sizeof numbers,
      "\"opset\":%lld,\"parameters\":%lld,\"steps\":%zu,\"gflop\":%.9g,\"arena_bytes\":%zu,"
      "\"constant_bytes\":%zu,\"weights_bytes\":%llu,\"threads\":%d",
      static_cast<long long>(file.opset), static_cast<long long>(file.n_parameters), plan.n_steps(),
      plan.flop() * 1e-9, plan.arena_bytes(), plan.constant_bytes(),
      static_cast<unsigned long long>(file.n_bytes), engine.n_threads);
  const char* precision = onnx_precision(config) == Precision::kBf16   ? "bf16"
                          : onnx_precision(config) == Precision::kInt8 ? "int8"
                                                                       : "f32";
  return "\"provider\":\"outrider\",\"model_family\":\"onnx\",\"units\":\"model\",\"model\":" +
         json_quoted(config.model_path) + ",\"precision\":\"" + precision +
         "\",\"kernel_table\":\"" + engine.ops->kernel_table() + "\"," + numbers +
         ",\"threads_note\":" + json_quoted(engine.threads_note) +
         ",\"dims\":" + json_quoted(config.dims) + ",\"producer\":" + json_quoted(file.producer);
}

}  // namespace outrider
