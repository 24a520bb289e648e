#include "cli/request.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/clock.h"
#include "cli/onnx_model.h"

namespace outrider::cli {

Result<std::vector<float>> parse_csv(std::string_view text) {
  std::vector<float> values;
  while (true) {
    const size_t comma = std::min(text.find(','), text.size());
    std::string_view word = text.substr(0, comma);
    while (!word.empty() && word.front() == ' ') word.remove_prefix(1);
    while (!word.empty() && word.back() == ' ') word.remove_suffix(1);
    double value = 0;
    // Finite as f32 too: 1e39 would become infinite on its way in.
    if (!read_real(word, value) || !std::isfinite(static_cast<float>(value)))
      return make_error(Code::kInvalid, "--state: value %zu is \"%.40s\", wanted a finite number",
                        values.size(), std::string(word).c_str());
    values.push_back(static_cast<float>(value));
    if (values.size() > 4096) return make_error(Code::kInvalid, "--state: more than 4096 values");
    if (comma == text.size()) return values;
    text.remove_prefix(comma + 1);
  }
}

namespace {

// The length of "NAME=" in front of a path; 0 when there is none. A file whose own name holds '='
// is a file.
size_t camera_prefix(const std::string& word) {
  const size_t at = word.find('=');
  if (at == std::string::npos || at == 0 || check_there(word)) return 0;
  return at + 1;
}

}  // namespace

std::string image_path(const std::string& word) {
  return word.substr(camera_prefix(word));
}

Result<void> load_images(std::span<const std::string> words, Request& request) {
  for (const std::string& word : words) {
    const size_t prefix = camera_prefix(word);
    const std::string path = word.substr(prefix),
                      camera = prefix > 0 ? word.substr(0, prefix - 1) : "";
    OUTRIDER_TRY(check_there(path));
    auto image = load_image(path.c_str());
    if (!image) return image.error();
    if (!camera.empty() && std::ranges::find(request.cameras, camera) != request.cameras.end())
      return make_error(Code::kInvalid, "--image: camera \"%.80s\" is given twice", camera.c_str());
    if (!request.images.empty() && camera.empty() != request.cameras.empty())
      return make_error(Code::kInvalid,
                        "--image: some pictures name their camera and others do not; name all "
                        "(CAMERA=PICTURE)");
    if (!camera.empty()) request.cameras.push_back(camera);
    request.images.push_back(std::move(image.value()));
  }
  return {};
}

Result<void> check_one_size(std::span<const std::string> words, const Request& request) {
  for (size_t i = 0; i < request.images.size(); ++i) {
    const Image &first = request.images[0], &other = request.images[i];
    if (first.width != other.width || first.height != other.height)
      return make_error(
          Code::kShape, "--image: %s is %dx%d, %s is %dx%d; all cameras must have one size",
          words[0].c_str(), first.width, first.height, words[i].c_str(), other.width, other.height);
  }
  return {};
}

Result<void> check_images(const std::vector<Image>& images, const Resolved& resolved) {
  if (resolved.find("n_views") == nullptr) return {};  // the policy's own ports will tell
  const int64_t n_views = resolved.integer("n_views", static_cast<int64_t>(images.size()));
  if (static_cast<int64_t>(images.size()) != n_views)
    return make_error(
        Code::kShape, "--image: %zu picture%s, n_views is %lld (%s); give one per camera%s",
        images.size(), images.size() == 1 ? "" : "s", static_cast<long long>(n_views),
        resolved.find("n_views")->origin.c_str(), resolved.derived ? " or say --views N" : "");
  const int64_t width = resolved.integer("image_width", 0),
                height = resolved.integer("image_height", 0);
  for (size_t i = 0; i < images.size(); ++i)
    if ((width != 0 && images[i].width != width) || (height != 0 && images[i].height != height))
      return make_error(
          Code::kShape,
          "--image: picture %zu is %dx%d, the configuration fixes %lldx%lld; pictures are "
          "not resized here: change image_width and image_height, or the picture",
          i, images[i].width, images[i].height, static_cast<long long>(width),
          static_cast<long long>(height));
  return {};
}

std::vector<const frt_runtime_port_desc*> camera_ports(const Session& session) {
  std::vector<const frt_runtime_port_desc*> out;
  for (const auto* port : session.ports())
    if (port->direction == FRT_PORT_IN && port->modality == FRT_MODALITY_IMAGE) out.push_back(port);
  return out;
}

Result<void> stage_images(Session& session, const Request& request) {
  const auto view_of = [](const Image& image) {
    return ImageView{PixelFormat::kRgb8, image.rgb.data(), image.rgb.size(),
                     image.width,        image.height,     0};
  };
  const auto ports = camera_ports(session);
  if (session.find("images") != nullptr || ports.empty()) {
    if (!request.cameras.empty())
      return make_error(Code::kInvalid,
                        "--image: this runtime has one port for all pictures; give them in the "
                        "order of the slots, without names");
    std::vector<ImageView> views;
    for (const Image& image : request.images) views.push_back(view_of(image));
    return session.set_images("images", views);
  }
  std::string names;
  for (const auto* port : ports) names += (names.empty() ? "" : ", ") + std::string(port->name);
  const bool by_place = request.cameras.empty() && ports.size() == 1;
  if (request.cameras.size() != request.images.size() && !by_place)
    return make_error(Code::kInvalid,
                      "--image: this policy binds cameras by name; say CAMERA=PICTURE with %.200s",
                      names.c_str());
  if (by_place && request.images.size() > 1)
    return make_error(Code::kShape, "--image: %zu pictures for one camera (%.100s)",
                      request.images.size(), names.c_str());
  for (size_t i = 0; i < request.images.size(); ++i) {
    const std::string camera = by_place ? std::string(ports[0]->name) : request.cameras[i];
    if (std::ranges::none_of(ports, [&](const auto* port) { return camera == port->name; }))
      return make_error(Code::kInvalid, "--image: no camera \"%.80s\"; this policy has %.200s",
                        camera.c_str(), names.c_str());
    const ImageView view = view_of(request.images[i]);
    OUTRIDER_TRY(session.set_images(camera, std::span(&view, 1)));
  }
  return {};
}

Result<void> stage(Session& session, const Request& request) {
  if (request.samples) return stage_samples(session, *request.samples);
  if (!camera_ports(session).empty()) OUTRIDER_TRY(stage_images(session, request));
  if (session.find("prompt") != nullptr) OUTRIDER_TRY(session.set_text("prompt", request.prompt));
  if (session.find("state") != nullptr) OUTRIDER_TRY(session.set_floats("state", request.state));
  return {};
}

std::string prompt_oddity(std::string_view prompt) {
  if (prompt.empty()) return "";
  if (prompt.back() == '\n' || prompt.back() == '\r')
    return "the instruction ends with a line break; the policy takes text raw, so this changes its "
           "token ids: "
           "remove it unless the training data had it";
  if (prompt.back() == ' ' || prompt.back() == '\t' || prompt.front() == ' ' ||
      prompt.front() == '\t')
    return "the instruction begins or ends with blanks; the policy takes text raw, so they become "
           "tokens";
  return "";
}

Result<std::string> main_output(const Session& session) {
  const frt_runtime_port_desc* first = nullptr;
  for (const auto* port : session.ports()) {
    if (port->direction != FRT_PORT_OUT) continue;
    for (const char* name : {"actions", "next_token"})
      if (std::strcmp(port->name, name) == 0) return std::string(name);
    if (first == nullptr) first = port;
  }
  if (first == nullptr) return make_error(Code::kUnsupported, "this runtime has no output port");
  return std::string(first->name);
}

Result<Ticked> timed_tick(Session& session, const Request& request, std::string_view output_port) {
  const MonotonicClock clock;
  auto ms_since = [&](int64_t start_ns) {
    return static_cast<double>(clock.now_ns() - start_ns) * 1e-6;
  };
  Ticked ticked;
  const int64_t start_ns = clock.now_ns();
  OUTRIDER_TRY(stage(session, request));
  ticked.times.input_ms = ms_since(start_ns);
  const uint64_t n_stages = outrider_n_stages(session.handle());
  for (uint64_t i = 0; i < n_stages; ++i) {
    const int64_t stage_start_ns = clock.now_ns();
    OUTRIDER_TRY(session.run_stage(i));
    ticked.times.stage_ms.push_back(ms_since(stage_start_ns));
  }
  const int64_t output_start_ns = clock.now_ns();
  auto output = session.output(output_port);
  if (!output) return output.error();
  ticked.output = std::move(output.value());
  ticked.times.output_ms = ms_since(output_start_ns);
  ticked.times.total_ms = ms_since(start_ns);
  return ticked;
}

}  // namespace outrider::cli
