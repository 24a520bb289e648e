#include "providers/onnx/onnx_runtime.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <set>

#include "base/json_text.h"
#include "base/printable.h"
#include "providers/onnx/values.h"

namespace outrider {
namespace {

using onnx::TensorType;

}  // namespace

// ---- open ---------------------------------------------------------------------------------------

Result<std::unique_ptr<OnnxRuntime>> OnnxRuntime::open(const OnnxOpenConfig& config,
                                                       std::shared_ptr<const OnnxFile> file) {
  std::unique_ptr<OnnxRuntime> runtime(new OnnxRuntime);
  runtime->config_ = config;
  runtime->file_ = std::move(file);
  OUTRIDER_TRY(runtime->prepare());
  runtime->warm_up();
  return runtime;
}

Result<void> OnnxRuntime::prepare() {
  auto engine = make_onnx_engine(file_->plan, config_.n_threads);
  if (!engine) return engine.error();
  engine_ = std::move(engine.value());
  run_ = engine_.run.get();
  OUTRIDER_TRY(find_pairs());
  OUTRIDER_TRY(add_ports());
  OUTRIDER_TRY(add_history());
  return add_stats();
}

// Given pairs, or those whose names say so: X with next_X or XN.
Result<void> OnnxRuntime::find_pairs() {
  const onnx::Plan& plan = *file_->plan;
  auto given = parse_state_pairs(config_.state_pairs);
  if (!given) return given.error();
  std::vector<std::pair<std::string, std::string>> names = given.value();
  if (config_.state_pairs.empty())
    for (const onnx::Port& input : plan.inputs())
      for (const std::string& name : {"next_" + input.name, input.name + "N"}) {
        const int output = plan.find_output(name);
        if (output < 0 || !(plan.outputs()[static_cast<size_t>(output)].type == input.type))
          continue;
        names.emplace_back(input.name, name);
        break;
      }
  std::set<std::string> taken;
  for (const auto& [x, y] : names) {
    const int input = plan.find_input(x), output = plan.find_output(y);
    if (input < 0 || output < 0)
      return make_error(Code::kInvalid, "config: state_pairs: the model has no %s \"%s\"",
                        input < 0 ? "input" : "output", printable(input < 0 ? x : y).c_str());
    if (!taken.insert("i" + x).second || !taken.insert("o" + y).second)
      return make_error(Code::kInvalid, "config: state_pairs names \"%s:%s\" twice",
                        printable(x).c_str(), printable(y).c_str());
    const Pair pair{static_cast<size_t>(input), static_cast<size_t>(output)};
    const TensorType &in = plan.inputs()[pair.input].type, &out = plan.outputs()[pair.output].type;
    if (!(in == out))
      return make_error(Code::kShape, "config: state_pairs: %s is %s, %s is %s",
                        printable(x).c_str(), in.text().c_str(), printable(y).c_str(),
                        out.text().c_str());
    pairs_.push_back(pair);
  }
  return {};
}

Result<void> OnnxRuntime::add_ports() {
  const onnx::Plan& plan = *file_->plan;
  const auto add = [&](const onnx::Port& from, bool is_input, size_t index) -> Result<void> {
    const bool name_fits =
        from.name.size() <= 96 && !from.name.empty() &&
        std::ranges::all_of(from.name, [](char c) { return c > ' ' && c <= '~'; });
    if (!name_fits)
      return make_error(Code::kUnsupported,
                        "%s: the name of %s \"%s\" cannot be a port's: 1..96 printable characters",
                        short_path(config_.model_path).c_str(), is_input ? "input" : "output",
                        printable(from.name).c_str());
    if (!has_port_type(from.type.dtype))
      return make_error(Code::kUnsupported, "%s: %s %s has element type %s, which no port has",
                        short_path(config_.model_path).c_str(), is_input ? "input" : "output",
                        from.name.c_str(), onnx::short_type_name(from.type.dtype));
    PortInfo port;
    port.name = from.name;
    port.dtype = from.type.dtype;
    port.is_input = is_input;
    port.n_bytes = from.type.n_bytes();
    port.type = from.type;
    port.index = index;
    port.frame = from.type.shape.rank() > 0 ? from.type.shape.back() : 1;
    ports_.push_back(std::move(port));
    return {};
  };
  for (size_t i = 0; i < plan.inputs().size(); ++i)
    if (std::ranges::none_of(pairs_, [&](const Pair& p) { return p.input == i; }))
      OUTRIDER_TRY(add(plan.inputs()[i], true, i));
  for (size_t i = 0; i < plan.outputs().size(); ++i) OUTRIDER_TRY(add(plan.outputs()[i], false, i));
  return {};
}

// Every f32 input whose last dimension is `history` frames long, when there is exactly one.
Result<void> OnnxRuntime::add_history() {
  if (config_.history == 1) return {};
  PortInfo* stacked = nullptr;
  for (PortInfo& port : ports_) {
    if (!port.is_input || port.dtype != DType::kF32 || port.type.shape.rank() == 0) continue;
    if (stacked != nullptr)
      return make_error(
          Code::kInvalid, "config: history is %lld, but inputs %s and %s could be the observation",
          static_cast<long long>(config_.history), stacked->name.c_str(), port.name.c_str());
    stacked = &port;
  }
  if (stacked == nullptr || stacked->frame % config_.history != 0)
    return make_error(
        Code::kShape, "config: history is %lld, %s%s%s", static_cast<long long>(config_.history),
        stacked == nullptr ? "the model has no f32 input" : stacked->name.c_str(),
        stacked == nullptr ? "" : " is ", stacked == nullptr ? "" : stacked->type.text().c_str());
  stacked->stacked = true;
  stacked->frame /= config_.history;
  stacked->type.shape[stacked->type.shape.rank() - 1] = stacked->frame;
  stacked->n_bytes = stacked->type.n_bytes();
  stacked->values.resize(static_cast<size_t>(stacked->type.shape.n_values()));
  return {};
}

Result<void> OnnxRuntime::add_stats() {
  if (config_.stats_path.empty()) return {};
  auto stats = read_onnx_stats(config_.stats_path);
  if (!stats) return stats.error();
  stats_sha256_ = stats.value().sha256;
  for (const bool is_input : {true, false})
    for (auto& entry : is_input ? stats.value().inputs : stats.value().outputs) {
      const std::string& name = entry.first;
      PortStats& numbers = entry.second;
      const auto port = std::ranges::find_if(ports_, [&](const PortInfo& p) {
        return p.name == name && p.is_input == is_input && p.dtype == DType::kF32;
      });
      if (port == ports_.end())
        return make_error(Code::kShape, "%s: there is no f32 %s port \"%s\"",
                          short_path(config_.stats_path).c_str(), is_input ? "input" : "output",
                          printable(name).c_str());
      OUTRIDER_TRY(check_stats(numbers, port->frame, name, config_.stats_path));
      port->has_stats = true;
      port->stats = std::move(numbers);
      if (!is_input) port->values.resize(static_cast<size_t>(port->type.shape.n_values()));
    }
  return {};
}

// Every step once, so that the first tick is like the thousandth; what it left is taken away.
void OnnxRuntime::warm_up() {
  run_->run();
  for (size_t i = 0; i < file_->plan->inputs().size(); ++i)
    std::ranges::fill(run_->input(i), std::byte{0});
  counters_.warm_ups.fetch_add(1, std::memory_order_relaxed);
}

// ---- inputs -------------------------------------------------------------------------------------

Code OnnxRuntime::set_input(uint32_t index, const void* data, uint64_t bytes) noexcept {
  return take_input(ports_, index, data, bytes, counters_.refused_inputs,
                    [&](PortInfo& port) { keep(port, data); });
}

void OnnxRuntime::keep(PortInfo& port, const void* data) noexcept {
  auto* to = port.stacked ? reinterpret_cast<std::byte*>(port.values.data())
                          : run_->input(port.index).data();
  if (port.n_bytes > 0) std::memcpy(to, data, port.n_bytes);
  if (port.has_stats)
    normalise(port, reinterpret_cast<float*>(to),
              static_cast<int64_t>(port.n_bytes / sizeof(float)));
}

void OnnxRuntime::normalise(const PortInfo& port, float* x, int64_t n) noexcept {
  const PortStats& s = port.stats;
  const bool one_mean = s.mean.size() == 1, one_scale = s.scale.size() == 1;
  int64_t n_clipped = 0;
  for (int64_t i = 0; i < n; ++i) {
    const auto at = static_cast<size_t>(i % port.frame);
    float value = (x[i] - s.mean[one_mean ? 0 : at]) / s.scale[one_scale ? 0 : at];
    if (s.clip > 0 && std::abs(value) > s.clip) {
      value = value > 0 ? s.clip : -s.clip;
      ++n_clipped;
    }
    x[i] = value;
  }
  if (n_clipped > 0) counters_.clipped_values.fetch_add(n_clipped, std::memory_order_relaxed);
}

// ---- stages -------------------------------------------------------------------------------------

Code OnnxRuntime::reset() noexcept {
  outputs_ready_ = false;
  for (const Pair& pair : pairs_) std::ranges::fill(run_->input(pair.input), std::byte{0});
  history_filled_ = false;
  counters_.resets.fetch_add(1, std::memory_order_relaxed);
  return succeed();
}

// Oldest frame first. After a reset the first frame stands for all before it.
void OnnxRuntime::push_history(PortInfo& port) noexcept {
  auto* x = reinterpret_cast<float*>(run_->input(port.index).data());
  const auto frame = static_cast<size_t>(port.frame), n = static_cast<size_t>(config_.history);
  const size_t n_rows = port.values.size() / frame;
  for (size_t row = 0; row < n_rows; ++row, x += n * frame) {
    const float* newest = port.values.data() + row * frame;
    if (history_filled_) std::memmove(x, x + frame, (n - 1) * frame * sizeof(float));
    for (size_t i = history_filled_ ? n - 1 : 0; i < n; ++i)
      std::memcpy(x + i * frame, newest, frame * sizeof(float));
  }
  history_filled_ = true;
}

Code OnnxRuntime::check_outputs() noexcept {
  for (const PortInfo& port : ports_) {
    if (port.is_input || !is_real(port.dtype)) continue;
    const auto out = run_->output(port.index);
    size_t at = 0;
    double found = 0;
    if (all_finite(port.dtype, out.data(), out.size(), at, found)) continue;
    counters_.nonfinite_outputs.fetch_add(1, std::memory_order_relaxed);
    return fail(Code::kFailed,
                "infer: value %zu of %s is %g and nothing is delivered; the state stays as it was; "
                "check weights and inputs",
                at, port.name.c_str(), found);
  }
  return Code::kOk;
}

Code OnnxRuntime::infer() noexcept {
  outputs_ready_ = false;
  const int64_t start_ns = clock_.now_ns();
  if (const Code code = check_staged(ports_); code != Code::kOk) return code;
  for (PortInfo& port : ports_)
    if (port.stacked) push_history(port);
  run_->run();
  if (const Code code = check_outputs(); code != Code::kOk) return code;
  for (const Pair& pair : pairs_) {
    const auto from = run_->output(pair.output);
    if (!from.empty()) std::memcpy(run_->input(pair.input).data(), from.data(), from.size());
  }
  for (PortInfo& port : ports_) {
    if (port.is_input || !port.has_stats) continue;
    const auto* y = reinterpret_cast<const float*>(run_->output(port.index).data());
    const PortStats& s = port.stats;
    for (size_t i = 0; i < port.values.size(); ++i) {
      const size_t at = i % static_cast<size_t>(port.frame);
      float value = y[i];
      if (s.clip > 0) value = std::clamp(value, -s.clip, s.clip);
      port.values[i] =
          value * s.scale[s.scale.size() == 1 ? 0 : at] + s.mean[s.mean.size() == 1 ? 0 : at];
    }
  }
  outputs_ready_ = true;
  counters_.ns_infer.store(clock_.now_ns() - start_ns, std::memory_order_relaxed);
  counters_.runs.fetch_add(1, std::memory_order_relaxed);
  return succeed();
}

Code OnnxRuntime::run_stage(uint32_t executor_ref) noexcept {
  if (executor_ref == kResetRef && stateful()) return reset();
  if (executor_ref != kInferRef)
    return fail(Code::kNotFound, "run_opaque: no stage %u; %s", executor_ref,
                stateful() ? "there are 4 (reset) and 37 (infer)" : "there is 37 (infer)");
  const Code code = infer();
  if (code != Code::kOk) counters_.failed_runs.fetch_add(1, std::memory_order_relaxed);
  return code;
}

Code OnnxRuntime::step() noexcept {
  if (stateful()) (void)reset();
  return run_stage(kInferRef);
}

Code OnnxRuntime::get_output(uint32_t index, void* out, uint64_t capacity,
                             uint64_t* written) noexcept {
  return give_output(ports_, index, out, capacity, written, [&](const PortInfo& port) {
    return port.has_stats ? static_cast<const void*>(port.values.data())
                          : run_->output(port.index).data();
  });
}

// ---- status -------------------------------------------------------------------------------------

std::string OnnxRuntime::describe() const {
  const onnx::Plan& plan = *file_->plan;
  std::string pairs;
  for (const Pair& p : pairs_)
    pairs += (pairs.empty() ? "" : ",") + plan.inputs()[p.input].name + ":" +
             plan.outputs()[p.output].name;
  return "{" + graph_facts(config_, *file_, engine_) +
         ",\"history\":" + std::to_string(config_.history) +
         ",\"state_pairs\":" + json_quoted(pairs) + ",\"statistics\":\"" +
         (stats_sha256_.empty() ? "none" : stats_sha256_) + "\"}";
}

}  // namespace outrider
