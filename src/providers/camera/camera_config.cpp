#include "providers/camera/camera_config.h"

#include <optional>

namespace outrider::camera {
namespace {

constexpr uint64_t kMostFrameBytes = uint64_t{1} << 31;

// What the object says, before the device's layout fills the gaps.
struct Wish {
  CameraConfig config;
  std::string sampling = "nearest";
  std::optional<int64_t> width, height, stride, uv_offset, frame_bytes;
};

constexpr CameraKey kKeys[] = {{"runtime", nullptr},          {"width", nullptr},
                               {"height", nullptr},           {"stride", "the device's"},
                               {"uv_offset", "the device's"}, {"frame_bytes", "the device's"},
                               {"sampling", "\"nearest\""},   {"port", "\"new_img\""},
                               {"runtime_provider", "\"\""},  {"kernels", "\"\""}};

std::string* text_of(Wish& w, std::string_view name) {
  if (name == "runtime") return &w.config.runtime;
  if (name == "runtime_provider") return &w.config.runtime_provider;
  if (name == "port") return &w.config.port;
  if (name == "sampling") return &w.sampling;
  return name == "kernels" ? &w.config.kernels : nullptr;
}
std::optional<int64_t>* number_of(Wish& w, std::string_view name) {
  if (name == "width") return &w.width;
  if (name == "height") return &w.height;
  if (name == "stride") return &w.stride;
  if (name == "uv_offset") return &w.uv_offset;
  return name == "frame_bytes" ? &w.frame_bytes : nullptr;
}

Error unknown_key(const std::string& name) {
  std::string known;
  for (const CameraKey& key : kKeys) known += (known.empty() ? "" : ", ") + std::string(key.name);
  return make_error(Code::kInvalid,
                    "config: unknown key \"%.80s\" for model_family camera; there are %s",
                    name.c_str(), known.c_str());
}

Result<void> read_member(const Json::Member& member, Wish& wish) {
  const char* name = member.name.c_str();
  const Json& value = member.value;
  if (member.name == "model_family") return {};
  if (std::string* text = text_of(wish, member.name)) {
    if (!value.is_string())
      return make_error(Code::kInvalid, "config: %s is %.80s, allowed is a string", name,
                        value.text().c_str());
    if (value.text().find('\0') != std::string::npos)
      return make_error(Code::kInvalid, "config: %s contains a NUL byte", name);
    *text = value.text();
    return {};
  }
  std::optional<int64_t>* number = number_of(wish, member.name);
  if (number == nullptr) return unknown_key(member.name);
  if (!value.is_integer() || value.integer() < 1 ||
      value.integer() > static_cast<int64_t>(kMostFrameBytes))
    return make_error(Code::kInvalid, "config: %s is \"%.80s\", allowed is an integer 1..%llu",
                      name, value.text().c_str(), static_cast<unsigned long long>(kMostFrameBytes));
  *number = value.integer();
  return {};
}

Error missing(const char* key) {
  return make_error(Code::kInvalid, "config: key \"%s\" is missing; model_family camera needs it",
                    key);
}

// Rows that are no device's: then the frame has no padding that nobody knows of.
Result<void> lay_out(const Wish& wish, CameraConfig& config) {
  const auto side = [](std::optional<int64_t> n) { return static_cast<int32_t>(*n); };
  if (*wish.width > kMostNv12Side || *wish.height > kMostNv12Side)
    return make_error(Code::kInvalid, "config: width %lld, height %lld, allowed are 4 to %d, even",
                      static_cast<long long>(*wish.width), static_cast<long long>(*wish.height),
                      kMostNv12Side);
  auto device = device_frame(side(wish.width), side(wish.height));
  if (!device) return make_error(device.error().code, "config: %s", device.error().text);
  config.layout = device.value().layout;
  config.frame_bytes = device.value().picture_bytes;
  const bool own = wish.stride || wish.uv_offset;
  if (wish.stride) {
    if (*wish.stride > INT32_MAX)
      return make_error(Code::kInvalid, "config: stride %lld, allowed are the width to 2147483647",
                        static_cast<long long>(*wish.stride));
    config.layout.stride = side(wish.stride);
    config.layout.uv_offset = *wish.stride * config.layout.height;
  }
  if (wish.uv_offset) config.layout.uv_offset = *wish.uv_offset;
  if (auto fine = check_nv12(config.layout); !fine)
    return make_error(fine.error().code, "config: %s", fine.error().text);
  const uint64_t least = config.layout.least_bytes();
  if (own) config.frame_bytes = least;
  if (wish.frame_bytes) config.frame_bytes = static_cast<uint64_t>(*wish.frame_bytes);
  if (config.frame_bytes < least)
    return make_error(
        Code::kInvalid,
        "config: frame_bytes is %llu, a picture of %dx%d in rows of %d with chroma at "
        "byte %lld takes %llu or more",
        static_cast<unsigned long long>(config.frame_bytes), config.layout.width,
        config.layout.height, config.layout.stride, static_cast<long long>(config.layout.uv_offset),
        static_cast<unsigned long long>(least));
  return {};
}

}  // namespace

std::span<const CameraKey> camera_keys() {
  return kKeys;
}

Result<CameraConfig> read_camera_config(const Json& json) {
  Wish wish;
  for (const Json::Member& member : json.members()) OUTRIDER_TRY(read_member(member, wish));
  if (wish.config.runtime.empty()) return missing("runtime");
  if (!wish.width) return missing("width");
  if (!wish.height) return missing("height");
  const auto sampling = parse_warp_sampling(wish.sampling.c_str());
  if (!sampling) return make_error(Code::kInvalid, "config: %s", sampling.error().text);
  wish.config.sampling = sampling.value();
  OUTRIDER_TRY(lay_out(wish, wish.config));
  return wish.config;
}

}  // namespace outrider::camera
