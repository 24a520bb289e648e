// Opening: what the file says, which array is which input, the ports.
#include "providers/onnx/driving_runtime.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "base/json_text.h"
#include "base/printable.h"
#include "providers/onnx/values.h"

namespace outrider {
namespace {

using driving::Layout;
using driving::Target;

constexpr const char* kRuleNames[] = {"v16", "v14", "v9", "plan"};

// Inputs that staging feeds; every other one becomes a port.
constexpr const char* kOwnInputs[] = {"img",     "big_img", "desire_pulse",       "features_buffer",
                                      "new_img", "desire",  "traffic_convention", "action_t"};

size_t bytes_of(DType dtype, const std::vector<int64_t>& dims) {
  size_t n = onnx::dtype_bytes(dtype);
  for (const int64_t dim : dims) n *= static_cast<size_t>(dim);
  return n;
}

}  // namespace

bool is_driving(const OnnxOpenConfig& config, const OnnxFile& file) {
  return config.driving == "on" ||
         (config.driving == "auto" && driving::looks_like_driving(file.facts));
}

Result<std::unique_ptr<DrivingRuntime>> DrivingRuntime::open(const OnnxOpenConfig& config,
                                                             std::shared_ptr<const OnnxFile> file) {
  std::unique_ptr<DrivingRuntime> runtime(new DrivingRuntime);
  runtime->config_ = config;
  runtime->file_ = std::move(file);
  OUTRIDER_TRY(runtime->prepare());
  runtime->warm_up();
  return runtime;
}

Result<void> DrivingRuntime::prepare() {
  OUTRIDER_TRY(check_keys());
  auto spec = driving::read_spec(file_->facts, config_.frame_skip);
  if (!spec)
    return make_error(spec.code(), "%s: %s", short_path(config_.model_path).c_str(),
                      spec.error().text);
  spec_ = std::move(spec.value());
  auto engine = make_onnx_engine(file_->plan, config_.n_threads);
  if (!engine) return engine.error();
  engine_ = std::move(engine.value());
  run_ = engine_.run.get();
  OUTRIDER_TRY(bind_history());
  OUTRIDER_TRY(scalar_target("traffic_convention", traffic_in_));
  OUTRIDER_TRY(scalar_target("action_t", action_t_in_));
  OUTRIDER_TRY(add_heads());
  OUTRIDER_TRY(add_inputs());
  return add_outputs();
}

// History, statistics and pairs of plain graphs mean something else here.
Result<void> DrivingRuntime::check_keys() const {
  const char* key = config_.history != 1           ? "history"
                    : !config_.stats_path.empty()  ? "stats_path"
                    : !config_.state_pairs.empty() ? "state_pairs"
                                                   : nullptr;
  if (key == nullptr) return {};
  return make_error(
      Code::kInvalid,
      "config: %s is for plain graphs and %s is a driving graph; leave it out, or set "
      "driving to \"off\"",
      key, short_path(config_.model_path).c_str());
}

Result<Target> DrivingRuntime::target(const char* input) const {
  const int i = file_->plan->find_input(input);
  if (i < 0)
    return make_error(Code::kNotFound, "driving: the graph does not read its input \"%s\"", input);
  const auto at = static_cast<size_t>(i);
  return Target{file_->plan->inputs()[at].type.dtype, run_->input(at).data()};
}

Result<void> DrivingRuntime::scalar_target(const char* input, Target& out) const {
  auto found = target(input);
  if (!found) return found.error();
  out = found.value();
  if (out.dtype == DType::kF32 || out.dtype == DType::kF16) return {};
  return make_error(Code::kUnsupported,
                    "driving: input %s has element type %s, allowed are f32 and f16", input,
                    onnx::short_type_name(out.dtype));
}

Result<void> DrivingRuntime::bind_history() {
  const onnx::Plan& plan = *file_->plan;
  if (spec_.layout == Layout::kQueued) {
    driving::QueuedInputs inputs;
    for (const auto& [name, place] :
         {std::pair{"img", &inputs.img}, std::pair{"big_img", &inputs.big_img},
          std::pair{"features_buffer", &inputs.features_buffer},
          std::pair{"desire_pulse", &inputs.desire_pulse}}) {
      auto found = target(name);
      if (!found) return found.error();
      *place = found.value();
    }
    auto staging = driving::Staging::make(spec_, inputs);
    if (!staging) return staging.error();
    staging_ = std::move(staging.value());
    return {};
  }
  auto image = target("new_img");
  if (!image) return image.error();
  new_img_ = image.value();
  if (new_img_.dtype != DType::kU8 && new_img_.dtype != DType::kF16 &&
      new_img_.dtype != DType::kF32)
    return make_error(Code::kUnsupported,
                      "driving: input new_img has element type %s, allowed are u8, f16 and f32",
                      onnx::short_type_name(new_img_.dtype));
  OUTRIDER_TRY(scalar_target("desire", desire_in_));
  for (size_t i = 0; i < plan.inputs().size(); ++i) {
    const onnx::Port& input = plan.inputs()[i];
    const int output = plan.find_output("next_" + input.name);
    if (output < 0) continue;
    const onnx::Port& next = plan.outputs()[static_cast<size_t>(output)];
    if (!(next.type == input.type))
      return make_error(Code::kShape, "driving: state %s is %s, next_%s is %s",
                        printable(input.name).c_str(), input.type.text().c_str(),
                        printable(input.name).c_str(), next.type.text().c_str());
    if (std::ranges::find(kOwnInputs, input.name) != std::end(kOwnInputs))
      return make_error(Code::kNotFound,
                        "driving: input %s cannot be a state, yet there is next_%s",
                        input.name.c_str(), input.name.c_str());
    states_.push_back({i, static_cast<size_t>(output)});
  }
  return {};
}

Result<void> DrivingRuntime::add_heads() {
  const bool wanted = config_.heads != "off" || config_.action != "off";
  if (!wanted) return {};
  const bool required = config_.heads == "required" || config_.heads == "only";
  auto heads = driving::HeadParser::make(
      spec_, required ? driving::HeadsWanted::kRequired : driving::HeadsWanted::kKnown);
  if (!heads)
    return make_error(heads.code(), "%s: %s", short_path(config_.model_path).c_str(),
                      heads.error().text);
  heads_ = std::move(heads.value());
  if (config_.action == "off") return {};
  auto rule = driving::ActionMaker::rule_of(config_.action, spec_, *heads_);
  if (!rule)
    return make_error(rule.code(), "%s: %s", short_path(config_.model_path).c_str(),
                      rule.error().text);
  if (spec_.n_action != 2)
    return make_error(Code::kShape, "driving: action_t has %lld values, an action needs 2",
                      static_cast<long long>(spec_.n_action));
  action_.emplace(
      driving::ActionOptions{rule.value(), static_cast<float>(config_.lateral_smooth_ms) * 1e-3f,
                             static_cast<float>(config_.longitudinal_smooth_ms) * 1e-3f},
      spec_, *heads_);
  return {};
}

// ---- ports --------------------------------------------------------------------------------------

DrivingRuntime::PortInfo& DrivingRuntime::add_port(const std::string& name, DType dtype,
                                                   const std::vector<int64_t>& dims, bool is_input,
                                                   std::byte* data) {
  PortInfo port;
  port.name = name;
  port.dtype = dtype;
  port.dims = dims;
  port.is_input = is_input;
  port.data = data;
  port.n_bytes = bytes_of(dtype, dims);
  ports_.push_back(std::move(port));
  return ports_.back();
}

Result<void> DrivingRuntime::add_inputs() {
  frames_.resize(static_cast<size_t>(spec_.frames_bytes()));
  packed_.resize(static_cast<size_t>(spec_.n_packed()));
  add_port("new_img", DType::kU8, {driving::kViews, driving::kPlanes, spec_.height, spec_.width},
           true, frames_.data());
  const auto scalars = [&](const char* name, std::vector<float>& place, int64_t n,
                           const std::vector<int64_t>& dims) {
    place.resize(static_cast<size_t>(n));
    add_port(name, DType::kF32, dims, true, reinterpret_cast<std::byte*>(place.data()));
  };
  scalars("desire", desire_, spec_.n_desire, {spec_.n_desire});
  scalars("traffic_convention", traffic_, spec_.n_traffic,
          spec_.find_input("traffic_convention")->dims);
  scalars("action_t", action_t_, spec_.n_action, spec_.find_input("action_t")->dims);
  pulse_now_.resize(desire_.size());
  pulse_.emplace(spec_.n_desire);
  const onnx::Plan& plan = *file_->plan;
  for (size_t i = 0; i < plan.inputs().size(); ++i) {
    const onnx::Port& input = plan.inputs()[i];
    const bool own = std::ranges::find(kOwnInputs, input.name) != std::end(kOwnInputs);
    if (own || std::ranges::any_of(states_, [&](const State& s) { return s.input == i; })) continue;
    if (!has_port_type(input.type.dtype))
      return make_error(Code::kUnsupported,
                        "driving: input %s has element type %s, which no port has",
                        printable(input.name).c_str(), onnx::short_type_name(input.type.dtype));
    const auto dims = input.type.shape.dims();
    add_port(input.name, input.type.dtype, {dims.begin(), dims.end()}, true, run_->input(i).data());
  }
  if (action_) add_port("v_ego", DType::kF32, {1}, true, reinterpret_cast<std::byte*>(&v_ego_));
  return {};
}

Result<void> DrivingRuntime::add_outputs() {
  const onnx::Plan& plan = *file_->plan;
  output_index_ = static_cast<size_t>(plan.find_output("outputs"));
  const onnx::Port& whole = plan.outputs()[output_index_];
  if (whole.type.dtype != DType::kF32 && whole.type.dtype != DType::kF16)
    return make_error(Code::kUnsupported,
                      "driving: output outputs has element type %s, allowed are f32 and f16",
                      onnx::short_type_name(whole.type.dtype));
  if (whole.type.dtype == DType::kF16) outputs_.resize(static_cast<size_t>(spec_.n_outputs));
  raw_ = outputs_.empty() ? reinterpret_cast<const float*>(run_->output(output_index_).data())
                          : outputs_.data();
  // Outputs are only read through these pointers.
  const auto source = [](const void* data) {
    return static_cast<std::byte*>(const_cast<void*>(data));
  };
  if (config_.heads != "only")
    add_port("outputs", DType::kF32, spec_.find_output("outputs")->dims, false, source(raw_));
  if (heads_ && config_.heads != "off")
    for (const driving::HeadArray& array : heads_->arrays())
      add_port(array.name, DType::kF32, array.dims, false,
               source(heads_->values().data() + array.offset));
  if (action_) add_port("action", DType::kF32, {1, 3}, false, source(action_out_)).is_action = true;
  for (size_t i = 0; i < ports_.size(); ++i)
    for (size_t k = 0; k < i; ++k)
      if (ports_[i].name == ports_[k].name)
        return make_error(Code::kNotFound,
                          "driving: \"%s\" is a port of the runtime and an input of "
                          "the graph",
                          ports_[i].name.c_str());
  return {};
}

// Every step once, so that the first tick is like the thousandth; what it left is taken away.
void DrivingRuntime::warm_up() {
  const Inputs zero = {frames_.data(), desire_.data(), traffic_.data(), action_t_.data()};
  stage(zero);
  (void)run_graph();
  if (heads_) (void)heads_->parse(raw_);
  (void)reset();
  counters_.resets.store(0, std::memory_order_relaxed);
  counters_.warm_ups.fetch_add(1, std::memory_order_relaxed);
}

// ---- status -------------------------------------------------------------------------------------

const char* DrivingRuntime::action_rule() const {
  if (!action_) return "off";
  return kRuleNames[static_cast<size_t>(action_->rule())];
}

std::vector<const void*> DrivingRuntime::addresses() const {
  std::vector<const void*> all;
  if (staging_) all = staging_->addresses();
  for (const State& state : states_) {
    all.push_back(run_->input(state.input).data());
    all.push_back(run_->output(state.output).data());
  }
  for (const PortInfo& port : ports_) all.push_back(port.data);
  return all;
}

std::string DrivingRuntime::describe() const {
  std::string parsed, unread;
  if (heads_) {
    for (const driving::HeadArray& array : heads_->arrays())
      if (!array.name.ends_with("_std")) parsed += (parsed.empty() ? "" : ",") + array.name;
    for (const std::string& head : heads_->unread()) unread += (unread.empty() ? "" : ",") + head;
  }
  char sizes[300];
  std::snprintf(sizes, sizeof sizes,
                ",\"frame_skip\":%lld,\"frames_bytes\":%lld,\"packed_floats\":%lld,"
                "\"outputs\":%lld,\"hidden\":[%lld,%lld],\"states\":%zu",
                static_cast<long long>(spec_.frame_skip),
                static_cast<long long>(spec_.frames_bytes()),
                static_cast<long long>(spec_.n_packed()), static_cast<long long>(spec_.n_outputs),
                static_cast<long long>(spec_.hidden.begin),
                static_cast<long long>(spec_.hidden.end), states_.size());
  return "{" + graph_facts(config_, *file_, engine_) + ",\"driving\":\"" +
         (spec_.layout == Layout::kQueued ? "queued" : "stateful") + "\"" + sizes +
         ",\"heads\":" + json_quoted(parsed) + ",\"unread_heads\":" + json_quoted(unread) +
         ",\"desire\":\"" + config_.desire + "\",\"action\":\"" + action_rule() +
         "\",\"checkpoint\":" + json_quoted(spec_.checkpoint) + "}";
}

}  // namespace outrider
