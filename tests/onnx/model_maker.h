// Builds ONNX files in memory, good and bad ones, with the schema's own messages.
#pragma once
#include <initializer_list>
#include <string>
#include <vector>

#include "base/result.h"
#include "kernels/cpu_ops.h"
#include "onnx/plan.h"
#include "onnx/reader.h"
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
#include "onnx/schema/onnx.pb.h"
#pragma GCC diagnostic pop

namespace outrider::onnx::test {

inline std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

class ModelMaker {
 public:
  explicit ModelMaker(int64_t opset = 17) {
    model.set_ir_version(8);
    auto* import = model.add_opset_import();
    import->set_domain("");
    import->set_version(opset);
    graph().set_name("made");
  }
  ::onnx::GraphProto& graph() { return *model.mutable_graph(); }

  static void declare(::onnx::ValueInfoProto* value, const std::string& name, int type,
                      const std::vector<int64_t>& dims) {
    value->set_name(name);
    auto* tensor = value->mutable_type()->mutable_tensor_type();
    tensor->set_elem_type(type);
    auto* shape = tensor->mutable_shape();
    for (const int64_t dim : dims) {
      auto* d = shape->add_dim();
      if (dim >= 0)
        d->set_dim_value(dim);
      else
        d->set_dim_param("n" + std::to_string(-dim));  // -1 is "n1"
    }
  }
  ModelMaker& input(const std::string& name, const std::vector<int64_t>& dims,
                    int type = ::onnx::TensorProto::FLOAT) {
    declare(graph().add_input(), name, type, dims);
    return *this;
  }
  ModelMaker& output(const std::string& name, const std::vector<int64_t>& dims = {},
                     int type = ::onnx::TensorProto::FLOAT) {
    declare(graph().add_output(), name, type, dims);
    return *this;
  }
  ::onnx::NodeProto& node(const std::string& op, const std::vector<std::string>& in,
                          const std::vector<std::string>& out) {
    return add_node(graph(), op, in, out);
  }
  static ::onnx::NodeProto& add_node(::onnx::GraphProto& g, const std::string& op,
                                     const std::vector<std::string>& in,
                                     const std::vector<std::string>& out) {
    auto* n = g.add_node();
    n->set_op_type(op);
    for (const auto& name : in) n->add_input(name);
    for (const auto& name : out) n->add_output(name);
    return *n;
  }
  ::onnx::TensorProto& floats(const std::string& name, const std::vector<int64_t>& dims,
                              const std::vector<float>& values) {
    auto* t = graph().add_initializer();
    t->set_name(name);
    t->set_data_type(::onnx::TensorProto::FLOAT);
    for (const int64_t d : dims) t->add_dims(d);
    t->set_raw_data(values.data(), values.size() * sizeof(float));
    return *t;
  }
  ::onnx::TensorProto& ints(const std::string& name, const std::vector<int64_t>& dims,
                            const std::vector<int64_t>& values) {
    auto* t = graph().add_initializer();
    t->set_name(name);
    t->set_data_type(::onnx::TensorProto::INT64);
    for (const int64_t d : dims) t->add_dims(d);
    for (const int64_t v : values) t->add_int64_data(v);
    return *t;
  }
  std::string bytes() const { return model.SerializeAsString(); }
  Result<Model> read(const std::string& folder = "") const {
    const std::string text = bytes();
    return read_model(bytes_of(text), "made.onnx", {folder});
  }

  ::onnx::ModelProto model;
};

inline void set_int(::onnx::NodeProto& node, const std::string& name, int64_t value) {
  auto* a = node.add_attribute();
  a->set_name(name);
  a->set_type(::onnx::AttributeProto::INT);
  a->set_i(value);
}
inline void set_float(::onnx::NodeProto& node, const std::string& name, float value) {
  auto* a = node.add_attribute();
  a->set_name(name);
  a->set_type(::onnx::AttributeProto::FLOAT);
  a->set_f(value);
}
inline void set_text(::onnx::NodeProto& node, const std::string& name, const std::string& value) {
  auto* a = node.add_attribute();
  a->set_name(name);
  a->set_type(::onnx::AttributeProto::STRING);
  a->set_s(value);
}
inline void set_ints(::onnx::NodeProto& node, const std::string& name,
                     const std::vector<int64_t>& values) {
  auto* a = node.add_attribute();
  a->set_name(name);
  a->set_type(::onnx::AttributeProto::INTS);
  for (const int64_t v : values) a->add_ints(v);
}

// One model with everything it needs to run.
struct Runner {
  std::unique_ptr<Ops> ops;
  std::unique_ptr<Run> run;
};
inline Result<Runner> make_runner(Model model, const PlanOptions& options = {}, int n_threads = 1,
                                  PlanProblems* problems = nullptr) {
  auto ops = make_cpu_ops({.n_threads = n_threads});
  if (!ops) return ops.error();
  auto plan = Plan::make(std::move(model), options, *ops.value(), problems);
  if (!plan) return plan.error();
  auto run = Run::make(plan.value(), *ops.value());
  if (!run) return run.error();
  return Runner{std::move(ops.value()), std::move(run.value())};
}

}  // namespace outrider::onnx::test
