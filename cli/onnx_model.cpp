// ONNX files for inspect, run and bench.
#include "cli/onnx_model.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "kernels/cpu_ops.h"
#include "onnx/plan.h"
#include "onnx/reader.h"
#include "providers/onnx/driving_runtime.h"
#include "providers/onnx/onnx_files.h"
#include "providers/onnx/onnx_open_config.h"

namespace outrider::cli {
namespace {

constexpr ConfigKey kOnnxKeys[] = {
    {"model_family", nullptr, "\"onnx\"", true},
    {"model_path", nullptr, "model file (ONNX)", true},
    {"backend", nullptr, "\"cpu\"", true},
    {"precision", "\"auto\"", "\"auto\", \"f32\", \"bf16\", \"int8\" or \"stored\"", true},
    {"n_threads", "0", "0: one for small graphs, else as many as this process may use", false},
    {"dims", "\"\"", "sizes of symbolic dimensions: \"batch=1,sequence=512\"", true},
    {"state_pairs", "\"\"", "\"X:next_X,...\"; empty: by name; \"none\": none", true},
    {"stats_path", "\"\"", "normalisation beside the file; empty: none", true},
    {"history", "1", "frames of the observation that the model reads", false},
    {"driving", "\"auto\"", "\"auto\": a driving graph when it says so; \"on\", \"off\"", true},
    {"frame_skip", "4", "driving: frames from one row of context to the next", false},
    {"heads", "\"known\"", "driving: \"known\", \"required\", \"only\" or \"off\"", true},
    {"desire", "\"level\"", "driving: \"level\", or \"pulse\" where it is one already", true},
    {"action", "\"off\"",
     "driving: \"off\", \"auto\", \"v9\", \"v14\", \"v15\", \"v16\" or \"plan\"", true},
    {"lateral_smooth_ms", "0", "driving: smoothing of the curvature", false},
    {"longitudinal_smooth_ms", "300", "driving: smoothing of the acceleration", false},
};

std::string open_name(const onnx::Declared& input, size_t i) {
  return input.dims[i].name.empty() ? input.name + "." + std::to_string(i) : input.dims[i].name;
}

Report declared_report(const std::vector<onnx::Declared>& list,
                       const std::vector<onnx::Tensor>& constants) {
  Report rows = Report::array();
  for (const onnx::Declared& value : list) {
    if (std::ranges::any_of(constants, [&](const auto& c) { return c.name == value.name; }))
      continue;
    Report shape = Report::array();
    for (const onnx::Dim& dim : value.dims)
      shape.push_back(dim.size >= 0 ? Report(dim.size) : Report(dim.name.empty() ? "?" : dim.name));
    rows.push_back({{"name", value.name}, {"type", onnx::type_name(value.type)}, {"shape", shape}});
  }
  return rows;
}

void count_operators(const onnx::Graph& graph, std::map<std::string, size_t>& counts) {
  for (const onnx::Node& node : graph.nodes) {
    ++counts[node.domain.empty() ? node.op : node.domain + "." + node.op];
    for (const onnx::Attribute& a : node.attributes)
      if (a.graph) count_operators(*a.graph, counts);
  }
}

std::vector<std::byte> sample_of(const frt_runtime_port_desc& port) {
  size_t n = 1;
  for (uint32_t d = 0; d < port.rank; ++d) n *= static_cast<size_t>(port.shape[d]);
  std::vector<std::byte> bytes(n * port_dtype_bytes(port.dtype));
  // A soft wave: no value of a normalised observation is far from 0.
  for (size_t i = 0; i < n && port.dtype == FRT_DTYPE_F32; ++i) {
    const float value = static_cast<float>(static_cast<int>(i * 37 % 101) - 50) * 0.02f;
    std::memcpy(bytes.data() + i * sizeof value, &value, sizeof value);
  }
  return bytes;
}

// What a driving graph is, or why it is none this build opens. True: it opens, as one or as a plain
// graph.
bool inspect_driving(const OnnxOpenConfig& config, const driving::GraphFacts& facts, Report& r) {
  const bool driving =
      config.driving == "on" || (config.driving == "auto" && driving::looks_like_driving(facts));
  if (!driving) return true;
  auto spec = driving::read_spec(facts, config.frame_skip);
  if (!spec) {
    r["why_not"] = std::string(spec.error().message());
    return false;
  }
  const driving::Spec& s = spec.value();
  Report heads = Report::object();
  for (const driving::NamedRange& slice : s.slices)
    heads[slice.name] = {slice.range.begin, slice.range.end};
  r["driving"] = {{"layout", s.layout == driving::Layout::kQueued ? "queued" : "stateful"},
                  {"frame_skip", s.frame_skip},
                  {"checkpoint", s.has_checkpoint ? Report(s.checkpoint) : Report()},
                  {"frames_bytes", s.frames_bytes()},
                  {"packed_floats", s.n_packed()},
                  {"outputs", s.n_outputs},
                  {"hidden", {s.hidden.begin, s.hidden.end}},
                  {"slices", heads}};
  // Element types, heads and keys: what only an open finds.
  auto file = open_onnx_file(config);
  auto opened = file ? DrivingRuntime::open(config, file.value()) : file.error();
  if (!opened) r["why_not"] = std::string(opened.error().message());
  return static_cast<bool>(opened);
}

}  // namespace

std::span<const ConfigKey> onnx_keys() {
  return kOnnxKeys;
}

Result<std::vector<Setting>> derive_onnx(const std::string& path) {
  auto model = onnx::read_model_file(path);
  if (!model) return model.error();
  std::vector<Setting> settings = {{"model_family", "\"onnx\"", "the file's kind"},
                                   {"model_path", to_json_text(Report(path), -1), "command line"},
                                   {"backend", "\"cpu\"", "default for a model file"}};
  std::string dims;
  for (const onnx::Declared& input : model.value().graph.inputs) {
    if (input.dims.empty() || input.dims[0].size >= 0) continue;
    const std::string entry = open_name(input, 0) + "=1";
    if (("," + dims + ",").find("," + entry + ",") == std::string::npos)
      dims += (dims.empty() ? "" : ",") + entry;
  }
  if (!dims.empty())
    settings.push_back({"dims", to_json_text(Report(dims), -1), "first dimensions are taken as 1"});
  return settings;
}

Result<Inspection> inspect_onnx(const std::string& path, const Resolved& resolved) {
  auto model = onnx::read_model_file(path);
  if (!model) return model.error();
  Inspection inspection;
  inspection.good = true;
  Report& r = inspection.report;
  const onnx::Model& m = model.value();
  r["kind"] = "onnx";
  r["file"] = path;
  auto mapped = MappedFile::open(path.c_str());
  if (!mapped) return mapped.error();
  r["bytes"] = mapped.value().size();
  r["opset"] = m.opset;
  r["ir_version"] = m.ir_version;
  r["producer"] = m.producer;
  r["parameters"] = m.n_parameters;
  r["tensors"] = m.graph.initializers.size();
  r["external_files"] = m.external_files;
  r["inputs"] = declared_report(m.graph.inputs, m.graph.initializers);
  r["outputs"] = declared_report(m.graph.outputs, {});
  std::map<std::string, size_t> counts;
  count_operators(m.graph, counts);
  r["operators"] = Report::object();
  for (const auto& [op, n] : counts) r["operators"][op] = n;
  auto json = Json::parse(resolved.json, Json::Dialect::kFlatOpen);
  if (!json) return json.error();
  auto config = read_onnx_open_config(json.value());
  if (!config) return config.error();
  auto dims = parse_dims(config.value().dims);
  if (!dims) return dims.error();
  auto ops = make_cpu_ops({.n_threads = 1});
  if (!ops) return ops.error();
  onnx::PlanOptions options;
  options.dims = dims.value();
  options.precision = onnx_precision(config.value());
  driving::GraphFacts facts;
  facts.metadata = std::move(model.value().metadata);
  onnx::PlanProblems problems;
  auto plan = onnx::Plan::make(std::move(model.value()), options, *ops.value(), &problems);
  r["problems"] = problems.lines;
  r["open_dimensions"] = problems.free_dims;
  inspection.runs = static_cast<bool>(plan);
  r["runs"] = inspection.runs;
  if (!plan) {
    r["why_not"] = std::string(plan.error().message());
    return inspection;
  }
  r["memory"] = {{"constant_bytes", plan.value()->constant_bytes()},
                 {"arena_bytes", plan.value()->arena_bytes()}};
  r["work"] = {{"total_gflop", plan.value()->flop() * 1e-9}, {"steps", plan.value()->n_steps()}};
  facts.inputs = shapes_of(plan.value()->inputs());
  facts.outputs = shapes_of(plan.value()->outputs());
  plan.value().reset();  // the next step makes its own
  inspection.runs = inspect_driving(config.value(), facts, r);
  r["runs"] = inspection.runs;
  return inspection;
}

Result<void> stage_samples(Session& session, SampleArrays& samples) {
  size_t n_ports = 0;
  for (const auto* port : session.ports()) {
    if (port->direction != FRT_PORT_IN) continue;
    if (samples.by_port.size() == n_ports) samples.by_port.push_back(sample_of(*port));
    const std::vector<std::byte>& bytes = samples.by_port[n_ports++];
    OUTRIDER_TRY(session.set_input(port->name, bytes.data(), bytes.size()));
  }
  return {};
}

}  // namespace outrider::cli
