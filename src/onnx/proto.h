// From the generated messages of the schema to model.h. The only files that see protobuf are this
// header's users: reader.cpp, proto_tensor.cpp, proto_graph.cpp.
#pragma once
#include <map>
#include <memory>
#include <string>

#include "base/mapped_file.h"
#include "base/result.h"
#include "onnx/model.h"

#if defined(__clang__)
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wshadow"
#else
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
#endif
#include "onnx/schema/onnx.pb.h"
#if defined(__clang__)
#pragma clang diagnostic pop
#else
#pragma GCC diagnostic pop
#endif

namespace outrider::onnx {

// What every conversion needs: names for messages, files that hold external data, counts.
struct ProtoContext {
  std::string file, folder;
  std::map<std::string, std::shared_ptr<const MappedFile>> external;
  size_t n_nodes = 0;
  int64_t n_parameters = 0;

  __attribute__((format(printf, 2, 3))) Error damaged(const char* format, ...) const;
};

// Takes the bytes out of `proto` instead of copying them. `where` names the owner in messages.
Result<Tensor> take_tensor(::onnx::TensorProto& proto, const std::string& where,
                           ProtoContext& context);
Result<Graph> take_graph(::onnx::GraphProto& proto, int depth, ProtoContext& context);
Result<Attribute> take_attribute(::onnx::AttributeProto& proto, const std::string& node, int depth,
                                 ProtoContext& context);
Result<Node> take_node(::onnx::NodeProto& proto, int depth, ProtoContext& context);
// proto_function.cpp
Result<std::vector<Function>> take_functions(::onnx::ModelProto& proto, int64_t model_opset,
                                             ProtoContext& context);

}  // namespace outrider::onnx
