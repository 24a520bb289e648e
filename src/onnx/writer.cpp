#include "onnx/writer.h"

#include "base/output_file.h"
#include "onnx/proto.h"

namespace outrider::onnx {
namespace {

constexpr int64_t kIrVersion = 8;

void declare(::onnx::ValueInfoProto& value, const std::string& name, DType dtype,
             const std::vector<int64_t>& dims) {
  value.set_name(name);
  auto& tensor = *value.mutable_type()->mutable_tensor_type();
  tensor.set_elem_type(type_number(dtype));
  auto& shape = *tensor.mutable_shape();
  for (const int64_t dim : dims) shape.add_dim()->set_dim_value(dim);
}

}  // namespace

struct ModelWriter::Proto {
  ::onnx::ModelProto model;
};

ModelWriter::ModelWriter(const std::string& producer, int64_t opset)
    : proto_(std::make_unique<Proto>()) {
  proto_->model.set_ir_version(kIrVersion);
  proto_->model.set_producer_name(producer);
  auto& import = *proto_->model.add_opset_import();
  import.set_domain("");
  import.set_version(opset);
  proto_->model.mutable_graph()->set_name("graph");
}

ModelWriter::~ModelWriter() = default;

void ModelWriter::input(const std::string& name, DType dtype, const std::vector<int64_t>& dims) {
  declare(*proto_->model.mutable_graph()->add_input(), name, dtype, dims);
}

void ModelWriter::output(const std::string& name, DType dtype, const std::vector<int64_t>& dims) {
  declare(*proto_->model.mutable_graph()->add_output(), name, dtype, dims);
}

void ModelWriter::constant(const std::string& name, DType dtype, const std::vector<int64_t>& dims,
                           std::string raw) {
  auto& tensor = *proto_->model.mutable_graph()->add_initializer();
  tensor.set_name(name);
  tensor.set_data_type(type_number(dtype));
  for (const int64_t dim : dims) tensor.add_dims(dim);
  tensor.set_raw_data(std::move(raw));
}

void ModelWriter::constant(const std::string& name, const std::vector<int64_t>& values) {
  constant(
      name, DType::kI64, {static_cast<int64_t>(values.size())},
      std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(int64_t)));
}

std::string ModelWriter::node(const std::string& op, const std::vector<std::string>& inputs,
                              const std::string& output, std::initializer_list<Ints> attributes) {
  auto& node = *proto_->model.mutable_graph()->add_node();
  node.set_op_type(op);
  node.set_name(output);
  for (const std::string& name : inputs) node.add_input(name);
  node.add_output(output);
  for (const Ints& ints : attributes) {
    auto& attribute = *node.add_attribute();
    attribute.set_name(ints.name);
    attribute.set_type(ints.single ? ::onnx::AttributeProto::INT : ::onnx::AttributeProto::INTS);
    if (ints.single)
      attribute.set_i(ints.values.at(0));
    else
      for (const int64_t value : ints.values) attribute.add_ints(value);
  }
  return output;
}

void ModelWriter::metadata(const std::string& key, const std::string& value) {
  auto& entry = *proto_->model.add_metadata_props();
  entry.set_key(key);
  entry.set_value(value);
}

std::string ModelWriter::bytes() const {
  return proto_->model.SerializeAsString();
}

Result<void> ModelWriter::write(const std::string& path) const {
  if (proto_->model.ByteSizeLong() > kMaxFileBytes)
    return make_error(Code::kShape, "%s: %zu bytes, an ONNX file holds %zu", path.c_str(),
                      proto_->model.ByteSizeLong(), kMaxFileBytes);
  return write_output(path, bytes());
}

}  // namespace outrider::onnx
