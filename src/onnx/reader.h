// Reads an ONNX file. The file is taken to be hostile: every count, size, offset and name is
// checked before it is used, and what is wrong is refused in one line.
#pragma once
#include <span>
#include <string>

#include "base/result.h"
#include "onnx/model.h"

namespace outrider::onnx {

struct ReadOptions {
  // Folder for external data; "": external data is refused. Only plain names below it are followed.
  std::string folder;
};

// `name` stands in messages. Errors: kNotFound (damaged, cut off, cyclic, contradictory),
// kUnsupported (opset, IR version, sparse constants), kNoMemory.
Result<Model> read_model(std::span<const std::byte> bytes, const std::string& name,
                         const ReadOptions& options);

// The file at `path`, with external data from its folder.
Result<Model> read_model_file(const std::string& path);

// One serialised TensorProto: what the standard's test data is made of. Errors: as read_model.
Result<Tensor> read_tensor(std::span<const std::byte> bytes, const std::string& name);

}  // namespace outrider::onnx
