#include "onnx/node_data.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>

#include "base/mapped_file.h"
#include "onnx/model_maker.h"
#include "onnx/operators.h"
#include "tensor/dtype.h"

namespace outrider::onnx::test {
namespace fs = std::filesystem;

namespace {

void collect(const Graph& graph, int64_t opset, NodeResult& result) {
  for (const Node& node : graph.nodes) {
    result.operators.insert(node.domain.empty() ? node.op : node.domain + "." + node.op);
    const bool planned = std::ranges::any_of(
        planned_operators(), [&](const PlannedOperator& p) { return node.op == p.name; });
    if (!node.domain.empty() || (!planned && find_operator(node.op, opset) == nullptr))
      result.claimed = false;
    for (const Attribute& a : node.attributes)
      if (a.graph) collect(*a.graph, opset, result);
  }
}

// The data of the bfloat16 tests calls its arrays UINT16.
Result<Tensor> tensor_at(const std::string& path) {
  auto file = MappedFile::open(path.c_str());
  if (!file) return file.error();
  ::onnx::TensorProto proto;
  if (proto.ParseFromArray(file.value().bytes().data(), static_cast<int>(file.value().size())) &&
      proto.data_type() == ::onnx::TensorProto::UINT16) {
    proto.set_data_type(::onnx::TensorProto::BFLOAT16);
    const std::string text = proto.SerializeAsString();
    return read_tensor(bytes_of(text), path);
  }
  return read_tensor(file.value().bytes(), path);
}

template <class T>
std::string compare_reals(const std::byte* got, const std::byte* wanted, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    T a, b;
    std::memcpy(&a, got + static_cast<size_t>(i) * sizeof(T), sizeof a);
    std::memcpy(&b, wanted + static_cast<size_t>(i) * sizeof(T), sizeof b);
    double x, y;
    if constexpr (std::is_same_v<T, uint16_t>) {
      x = static_cast<double>(f16_to_f32(a));
      y = static_cast<double>(f16_to_f32(b));
    } else {
      x = static_cast<double>(a);
      y = static_cast<double>(b);
    }
    if ((std::isnan(x) && std::isnan(y)) || x == y) continue;
    // The tolerance of the standard's own runner.
    if (!(std::abs(x - y) <= 1e-7 + 1e-3 * std::abs(y)))
      return "value " + std::to_string(i) + " is " + std::to_string(x) + ", wanted " +
             std::to_string(y);
  }
  return "";
}

// The data was cut to 16 bits, the standard has since said to round: one unit apart.
std::string compare_brains(const std::byte* got, const std::byte* wanted, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    uint16_t a, b;
    std::memcpy(&a, got + 2 * i, sizeof a);
    std::memcpy(&b, wanted + 2 * i, sizeof b);
    const float y = bf16_to_f32(b);
    if (std::isnan(y) ? !std::isnan(bf16_to_f32(a)) : a != b && a != b + 1)
      return "value " + std::to_string(i) + " is " + std::to_string(bf16_to_f32(a)) + ", wanted " +
             std::to_string(y);
  }
  return "";
}

std::string compare(const Port& port, std::span<const std::byte> got, const Tensor& wanted) {
  if (!wanted.computable || wanted.dtype != port.type.dtype)
    return port.name + " has type " + short_type_name(port.type.dtype) + ", wanted " +
           type_name(wanted.type);
  if (!(Shape(wanted.dims) == port.type.shape))
    return port.name + " is " + port.type.shape.text() + ", wanted " + Shape(wanted.dims).text();
  const int64_t n = wanted.n_values();
  std::string found;
  switch (wanted.dtype) {
    case DType::kF32:
      found = compare_reals<float>(got.data(), wanted.data, n);
      break;
    case DType::kF64:
      found = compare_reals<double>(got.data(), wanted.data, n);
      break;
    case DType::kF16:
      found = compare_reals<uint16_t>(got.data(), wanted.data, n);
      break;
    case DType::kBf16:
      found = compare_brains(got.data(), wanted.data, n);
      break;
    default:
      if (n > 0 && std::memcmp(got.data(), wanted.data, wanted.n_bytes) != 0) found = "differs";
  }
  return found.empty() ? "" : port.name + ": " + found;
}

// "" or what went wrong; refused says that open said no.
std::string run_set(const std::string& dir, const std::string& set, int n_threads, bool& refused) {
  PlanOptions options;
  for (int round = 0; round < 8; ++round) {
    auto model = read_model_file(dir + "/model.onnx");
    if (!model) return refused = true, model.error().text;
    const std::vector<Declared> inputs = model.value().graph.inputs;
    const std::vector<Declared> outputs = model.value().graph.outputs;
    std::map<std::string, size_t> at;
    for (size_t i = 0; i < inputs.size(); ++i) at[inputs[i].name] = i;
    const auto input = [&](size_t i) {
      return tensor_at(set + "/input_" + std::to_string(i) + ".pb");
    };
    PlanProblems problems;
    auto runner = make_runner(std::move(model.value()), options, n_threads, &problems);
    if (!runner) {
      // What decides a shape is an input in these models: it becomes a constant, as in real ones.
      if (problems.undetermined.empty()) return refused = true, runner.error().text;
      for (const std::string& name : problems.undetermined) {
        auto tensor = input(at[name]);
        if (!tensor) return tensor.error().text;
        options.fixed[name] = std::move(tensor.value());
      }
      continue;
    }
    Run& run = *runner.value().run;
    for (size_t i = 0; i < run.plan().inputs().size(); ++i) {
      auto tensor = input(at[run.plan().inputs()[i].name]);
      if (!tensor) return tensor.error().text;
      if (tensor.value().n_bytes != run.input(i).size()) {
        // The data of some CastLike tests has fewer values than declared; they are never looked at.
        if (run.plan().inputs()[i].name != "like") return "an input has another size";
        continue;
      }
      if (tensor.value().n_bytes > 0)
        std::memcpy(run.input(i).data(), tensor.value().data, tensor.value().n_bytes);
    }
    run.run();
    for (size_t i = 0; i < outputs.size(); ++i) {
      auto wanted = tensor_at(set + "/output_" + std::to_string(i) + ".pb");
      if (!wanted) return wanted.error().text;
      const int port = run.plan().find_output(outputs[i].name);
      if (port < 0) return "no output " + outputs[i].name;
      const auto p = static_cast<size_t>(port);
      if (auto found = compare(run.plan().outputs()[p], run.output(p), wanted.value());
          !found.empty())
        return found;
    }
    return "";
  }
  return "its shapes never became known";
}

}  // namespace

std::string node_data_dir() {
  const std::string dir = "/usr/share/libonnx-testdata/data/node";
  std::error_code ignored;
  return fs::is_directory(dir, ignored) ? dir : "";
}

NodeResult run_node_test(const std::string& dir, int n_threads) {
  NodeResult result;
  result.name = fs::path(dir).filename().string();
  result.claimed = true;
  auto model = read_model_file(dir + "/model.onnx");
  if (!model) {
    result.verdict = Verdict::kRefused;
    result.why = model.error().text;
    result.claimed = false;
    return result;
  }
  result.opset = model.value().opset;
  collect(model.value().graph, result.opset, result);
  bool any = false, refused = false;
  std::vector<std::string> sets;
  for (const auto& entry : fs::directory_iterator(dir))
    if (entry.is_directory() && entry.path().filename().string().starts_with("test_data_set_"))
      sets.push_back(entry.path().string());
  std::ranges::sort(sets);
  for (const std::string& set : sets) {
    any = true;
    result.why = run_set(dir, set, n_threads, refused);
    if (!result.why.empty()) break;
  }
  if (!any) result.why = "no data";
  result.verdict = result.why.empty() ? Verdict::kPassed
                   : refused          ? Verdict::kRefused
                                      : Verdict::kFailed;
  return result;
}

std::vector<NodeResult> run_node_tests(const std::string& dir, int n_threads) {
  std::vector<std::string> dirs;
  for (const auto& entry : fs::directory_iterator(dir))
    if (entry.is_directory()) dirs.push_back(entry.path().string());
  std::ranges::sort(dirs);
  std::vector<NodeResult> results;
  for (const std::string& folder : dirs) results.push_back(run_node_test(folder, n_threads));
  return results;
}

}  // namespace outrider::onnx::test
