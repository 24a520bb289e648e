#include "cli/runtime_facts.h"

#include <algorithm>

#include "cli/inspect.h"
#include "cli/scene.h"
#include "gguf/gguf.h"
#include "models/pi_gguf.h"

namespace outrider::cli {
namespace {

double bytes_per_weight(const RuntimeFacts& facts, const GgufFile& policy) {
  if (facts.precision == "f32") return 4;
  if (facts.precision == "bf16") return 2;
  if (facts.precision == "int8") return 1;
  double bytes = 0, values = 0;
  for (const GgufTensor& tensor : policy.tensors()) {
    bytes += static_cast<double>(tensor.n_bytes);
    values += static_cast<double>(tensor.n_values());
  }
  return values > 0 ? bytes / values : 4;
}

}  // namespace

RuntimeFacts runtime_facts(const Session& session) {
  RuntimeFacts facts;
  const outrider_status_v1* status = session.status();
  if (status == nullptr || status->describe == nullptr) return facts;
  const char* text = status->describe(status->self);
  auto json = Json::parse(text == nullptr ? "" : text);
  if (!json) return facts;
  facts.described = report_of(json.value());
  auto word = [&](const char* key) {
    const Json* value = json.value().find(key);
    return value != nullptr && value->is_string() ? value->text() : std::string();
  };
  facts.kernel_table = word("kernel_table");
  facts.precision = word("precision");
  for (const char* key : {"threads", "n_threads"})
    if (const Json* value = json.value().find(key); value != nullptr && value->is_integer())
      facts.n_threads = static_cast<int>(value->integer());
  return facts;
}

Report counters_report(const Session& session) {
  Report report = Report::object();
  const outrider_status_v1* status = session.status();
  if (status == nullptr || status->read == nullptr) return report;
  std::vector<outrider_counter_v1> counters(64);
  const uint64_t n = status->read(status->self, counters.data(), counters.size());
  for (uint64_t i = 0; i < std::min<uint64_t>(n, counters.size()); ++i)
    if (counters[i].name != nullptr) report[counters[i].name] = counters[i].value;
  return report;
}

namespace {

// A port a camera: one drawn picture for each, in its own size.
void draw_cameras(Request& request, const Session& session) {
  request.images.clear();
  request.cameras.clear();
  for (const auto* port : camera_ports(session)) {
    const int64_t height = port->rank == 4 ? port->shape[1] : 0,
                  width = port->rank == 4 ? port->shape[2] : 0;
    if (height < 1 || width < 1 || height > 4096 || width > 4096) continue;
    const Scene scene(static_cast<int>(width), static_cast<int>(height));
    const bool front = request.images.empty();
    request.images.push_back(scene.draw(front ? Camera::kFront : Camera::kWrist,
                                        0.4 + 0.1 * static_cast<double>(request.images.size())));
    request.cameras.push_back(port->name);
  }
}

}  // namespace

Request sample_request(const Resolved& resolved, double time_s) {
  Request request;
  if (resolved.family == "onnx") {
    request.samples = std::make_shared<SampleArrays>();
    return request;
  }
  const auto side = [&](const char* key) {
    return static_cast<int>(std::clamp<int64_t>(resolved.integer(key, 64), 1, 4096));
  };
  const Scene scene(side("image_width"), side("image_height"));
  const int64_t n_views = resolved.integer("n_views", 1);
  for (int64_t i = 0; i < n_views && i < 8; ++i)
    request.images.push_back(scene.draw(i == 0 ? Camera::kFront : Camera::kWrist,
                                        time_s + 0.1 * static_cast<double>(i)));
  request.prompt = "pick up the red block";
  request.state = scene.state(time_s);
  const int64_t dim = resolved.integer("action_dim", 8);
  if (dim < static_cast<int64_t>(request.state.size()))
    request.state.resize(static_cast<size_t>(std::max<int64_t>(dim, 1)));
  return request;
}

void fit_state(Request& request, const Session& session) {
  const frt_runtime_port_desc* state = session.find("state");
  if (state != nullptr && state->rank == 1 && state->shape[0] > 0 && state->shape[0] <= 4096)
    request.state.resize(static_cast<size_t>(state->shape[0]));
}

void fit_pictures(Request& request, const Session& session) {
  const frt_runtime_port_desc* port = session.find("images");
  if (port == nullptr && !camera_ports(session).empty()) return draw_cameras(request, session);
  if (port == nullptr || port->rank != 4) return;
  const int64_t n_views = port->shape[0], height = port->shape[1], width = port->shape[2];
  if (n_views < 1 || n_views > 64 || height < 1 || width < 1 || height > 4096 || width > 4096)
    return;
  const auto fits = [&](const Image& image) {
    return image.width == width && image.height == height;
  };
  if (std::ssize(request.images) == n_views && std::ranges::all_of(request.images, fits)) return;
  const Scene scene(static_cast<int>(width), static_cast<int>(height));
  request.images.clear();
  for (int64_t i = 0; i < n_views; ++i)
    request.images.push_back(
        scene.draw(i == 0 ? Camera::kFront : Camera::kWrist, 0.4 + 0.1 * static_cast<double>(i)));
}

std::vector<StageWork> stage_work(const Resolved& resolved, const Request& request,
                                  const Session& session, const RuntimeFacts& facts) {
  const std::vector<std::string> names = session.stages();
  std::vector<StageWork> out(names.size());
  if (resolved.family == "onnx") {
    // The plan counted its products; every weight is read once.
    const auto number = [&](const char* key) {
      return facts.described.contains(key) && facts.described[key].is_number()
                 ? facts.described[key].get<double>()
                 : 0.0;
    };
    for (size_t i = 0; i < names.size(); ++i)
      if (names[i] == "infer") out[i] = {number("gflop"), number("constant_bytes")};
    return out;
  }
  if (resolved.family != "pi0" || resolved.model_path.empty()) return out;
  auto policy = GgufFile::open(resolved.model_path.c_str());
  auto vision = GgufFile::open(resolved.mmproj_path.c_str());
  if (!policy || !vision) return out;
  auto config = read_pi_config(policy.value(), vision.value());
  if (!config) return out;
  if (const int64_t steps = resolved.integer("num_steps", 0); steps > 0)
    config.value().n_denoise_steps = steps;
  auto tokens = inspect_tokens(resolved.model_path, request.prompt, request.state);
  if (!tokens) return out;
  const PiWork work = pi_work(config.value(), {static_cast<int64_t>(request.images.size()),
                                               tokens.value()["n"].get<int64_t>(), true});
  const double weight = bytes_per_weight(facts, policy.value());
  for (size_t i = 0; i < names.size(); ++i) {
    Work sum;
    if (names[i] != "action") sum = work.context();
    if (names[i] != "context") {
      sum.flop += work.expert.flop;
      sum.weight_values += work.expert.weight_values;
    }
    if (names[i] == "context" || names[i] == "action" || names[i] == "infer" || names[i] == "step")
      out[i] = {sum.flop * 1e-9, sum.weight_values * weight};
  }
  return out;
}

}  // namespace outrider::cli
