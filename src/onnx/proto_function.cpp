// Functions of the file's own.
#include <google/protobuf/io/coded_stream.h>

#include "base/printable.h"
#include "onnx/proto.h"

namespace outrider::onnx {
namespace {

// Defaults of attributes came with a later schema (field 11) than the one this build reads with.
constexpr uint32_t kDefaultsField = 11;
constexpr uint32_t kBytes = 2;  // wire type

Result<void> take_defaults(const ::onnx::FunctionProto& proto, Function& f, ProtoContext& c) {
  const std::string& rest = proto.unknown_fields();
  google::protobuf::io::CodedInputStream in(reinterpret_cast<const uint8_t*>(rest.data()),
                                            static_cast<int>(rest.size()));
  while (const uint32_t tag = in.ReadTag()) {
    uint32_t n = 0;
    uint64_t number = 0;
    std::string bytes;
    bool whole = false;
    switch (tag & 7) {
      case 0:
        whole = in.ReadVarint64(&number);
        break;
      case 1:
        whole = in.ReadLittleEndian64(&number);
        break;
      case kBytes:
        whole =
            in.ReadVarint32(&n) && n <= rest.size() && in.ReadString(&bytes, static_cast<int>(n));
        break;
      case 5:
        whole = in.ReadLittleEndian32(&n);
        break;
      default:
        break;
    }
    ::onnx::AttributeProto attribute;
    const bool is_default = (tag >> 3) == kDefaultsField && (tag & 7) == kBytes;
    if (!whole || (is_default && !attribute.ParseFromString(bytes)))
      return c.damaged("function %s is damaged", printable(f.name, 40).c_str());
    if (!is_default) continue;
    auto taken = take_attribute(attribute, "function " + printable(f.name, 40), 0, c);
    if (!taken) return taken.error();
    f.defaults.push_back(std::move(taken.value()));
  }
  return {};
}

Result<Function> take_function(::onnx::FunctionProto& proto, int64_t model_opset, ProtoContext& c) {
  Function f;
  f.name = proto.name();
  f.domain = proto.domain() == "ai.onnx" ? "" : proto.domain();
  f.opset = model_opset;
  for (const auto& entry : proto.opset_import())
    if (entry.domain().empty() || entry.domain() == "ai.onnx") f.opset = entry.version();
  if (f.opset < kMinOpset || f.opset > kMaxOpset)
    return make_error(
        Code::kUnsupported, "%s: function %s has opset %lld, this build runs %lld to %lld",
        short_path(c.file).c_str(), printable(f.name, 40).c_str(), static_cast<long long>(f.opset),
        static_cast<long long>(kMinOpset), static_cast<long long>(kMaxOpset));
  f.inputs.assign(proto.input().begin(), proto.input().end());
  f.outputs.assign(proto.output().begin(), proto.output().end());
  for (auto& node : *proto.mutable_node()) {
    auto taken = take_node(node, 0, c);
    if (!taken) return taken.error();
    f.nodes.push_back(std::move(taken.value()));
  }
  OUTRIDER_TRY(take_defaults(proto, f, c));
  return f;
}

}  // namespace

Result<std::vector<Function>> take_functions(::onnx::ModelProto& proto, int64_t model_opset,
                                             ProtoContext& c) {
  std::vector<Function> functions;
  for (auto& function : *proto.mutable_functions()) {
    auto taken = take_function(function, model_opset, c);
    if (!taken) return taken.error();
    functions.push_back(std::move(taken.value()));
  }
  return functions;
}

}  // namespace outrider::onnx
