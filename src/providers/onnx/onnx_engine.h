// What runs a plan: its arena, kernels and threads.
#pragma once
#include <memory>
#include <string>

#include "onnx/plan.h"
#include "providers/onnx/onnx_files.h"
#include "tensor/ops.h"

namespace outrider {

struct OnnxEngine {
  std::unique_ptr<Ops> ops;
  std::unique_ptr<onnx::Run> run;
  int n_threads = 1;
  std::string threads_note;  // why so many
};

// [setup] n_threads <= 0: one for small graphs, else all that this process may use. Errors: those
// of the pool, kNoMemory.
Result<OnnxEngine> make_onnx_engine(std::shared_ptr<const onnx::Plan> plan, int64_t n_threads);

// Members that the description of every face begins with (JSON, without braces): where it comes
// from, what it computes with, how large it is.
std::string graph_facts(const OnnxOpenConfig& config, const OnnxFile& file,
                        const OnnxEngine& engine);

}  // namespace outrider
