// A model file made ready, shared by all runtimes of it in one process.
#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/mapped_file.h"
#include "driving/spec.h"
#include "onnx/plan.h"
#include "providers/onnx/onnx_open_config.h"

namespace outrider {

struct OnnxFile {
  std::shared_ptr<const onnx::Plan> plan;
  std::string sha256;           // of the model file
  std::string external_sha256;  // over the digests of its external data; "": it has none
  uint64_t n_bytes = 0;         // of the model file
  int64_t opset = 0, n_parameters = 0;
  std::string producer;
  // What the file and the plan say about themselves: for driving graphs.
  driving::GraphFacts facts;
};

using IdentityPairs = std::vector<std::pair<std::string, std::string>>;
// What the identity of every runtime of a file begins with.
IdentityPairs file_identity(const OnnxOpenConfig& config, const OnnxFile& file);

std::vector<driving::NamedShape> shapes_of(std::span<const onnx::Port> ports);

// Opens, checks, digests and plans, or hands out what a living runtime already has (decided by
// device, inode, size, mtime and ctime, the dims and the precision). Errors: those of every part;
// kInvalid for a name in dims that the model does not have.
Result<std::shared_ptr<const OnnxFile>> open_onnx_file(const OnnxOpenConfig& config);

}  // namespace outrider
