// Any bytes: either a one-line refusal, or a model whose every array is as long as its shape says,
// which is then planned, with small limits, and run once.
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/assert.h"
#include "kernels/cpu_ops.h"
#include "onnx/plan.h"
#include "onnx/reader.h"

namespace {

using namespace outrider;
using namespace outrider::onnx;

void require_plain(const Error& error) {
  OUTRIDER_ASSERT(error.code != Code::kOk);
  for (const char c : error.message()) OUTRIDER_ASSERT(c >= 0x20 && c < 0x7F);
}

uint64_t read_all(const Graph& graph) {
  uint64_t sum = 0;  // reads every byte, for the sanitizer
  for (const Tensor& tensor : graph.initializers) {
    if (!tensor.computable) continue;
    OUTRIDER_ASSERT(tensor.n_bytes ==
                    static_cast<size_t>(tensor.n_values()) * dtype_bytes(tensor.dtype));
    for (size_t i = 0; i < tensor.n_bytes; ++i) sum += static_cast<uint8_t>(tensor.data[i]);
  }
  for (const Node& node : graph.nodes)
    for (const Attribute& a : node.attributes)
      if (a.graph) sum += read_all(*a.graph);
  return sum;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto model = read_model(std::as_bytes(std::span(data, size)), "fuzz", {});
  if (!model) {
    require_plain(model.error());
    return 0;
  }
  OUTRIDER_ASSERT(read_all(model.value().graph) != UINT64_MAX);
  static const auto ops =
      std::move(make_cpu_ops({.n_threads = 1, .kernel_table = "scalar"}).value());
  PlanOptions options;
  options.max_bytes = 1 << 20;
  for (const Declared& input : model.value().graph.inputs)
    for (const Dim& dim : input.dims)
      if (!dim.name.empty()) options.dims[dim.name] = 2;
  auto plan = Plan::make(std::move(model.value()), options, *ops);
  if (!plan) {
    require_plain(plan.error());
    return 0;
  }
  auto run = Run::make(plan.value(), *ops);
  if (run) run.value()->run();
  return 0;
}
