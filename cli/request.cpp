#include "cli/request.h"

#include <cmath>
#include <cstring>

#include "base/clock.h"

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

Result<std::vector<Image>> load_images(std::span<const std::string> paths) {
  std::vector<Image> images;
  for (const std::string& path : paths) {
    OUTRIDER_TRY(check_there(path));
    auto image = load_image(path.c_str());
    if (!image) return image.error();
    images.push_back(std::move(image.value()));
    const Image &first = images.front(), &last = images.back();
    if (first.width != last.width || first.height != last.height)
      return make_error(
          Code::kShape, "--image: %s is %dx%d, %s is %dx%d; all cameras must have one size",
          paths[0].c_str(), first.width, first.height, path.c_str(), last.width, last.height);
  }
  return images;
}

Result<void> check_images(const std::vector<Image>& images, const Resolved& resolved) {
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

Result<void> stage_images(Session& session, const std::vector<Image>& images) {
  std::vector<ImageView> views;
  for (const Image& image : images)
    views.push_back(
        {PixelFormat::kRgb8, image.rgb.data(), image.rgb.size(), image.width, image.height, 0});
  return session.set_images(views);
}

Result<void> stage(Session& session, const Request& request) {
  if (session.find("images") != nullptr) OUTRIDER_TRY(stage_images(session, request.images));
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
    if (std::strcmp(port->name, "actions") == 0) return std::string("actions");
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
