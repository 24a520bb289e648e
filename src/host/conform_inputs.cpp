// Inputs for any port, made from its description.
#include <cstring>

#include "host/conform_bench.h"

namespace outrider::host::conformance {
namespace {

constexpr const char* kPrompts[] = {"pick up the red block", "open the left drawer"};
constexpr int64_t kFreeSide = 56;  // height and width where a port leaves them open

template <class T>
std::vector<std::byte> bytes_of(const std::vector<T>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(T));
  if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

std::vector<std::byte> bytes_of(std::string_view text) {
  return bytes_of(std::vector<char>(text.begin(), text.end()));
}

// A soft pattern, another one for every view and variant; no noise, so that resizing keeps it.
std::vector<std::byte> pattern(int64_t height, int64_t width, int64_t channels, int64_t view,
                               int variant) {
  std::vector<std::byte> pixels(static_cast<size_t>(height * width * channels));
  for (int64_t y = 0, at = 0; y < height; ++y)
    for (int64_t x = 0; x < width; ++x)
      for (int64_t c = 0; c < channels; ++c, ++at)
        pixels[static_cast<size_t>(at)] =
            static_cast<std::byte>((y * 3 + x * 2 + c * 60 + view * 40 + variant * 90) & 0xff);
  return pixels;
}

}  // namespace

uint64_t dtype_bytes(uint32_t dtype) {
  switch (dtype) {
    case FRT_DTYPE_U8:
      return 1;
    case FRT_DTYPE_F16:
    case FRT_DTYPE_BF16:
      return 2;
    case FRT_DTYPE_F32:
    case FRT_DTYPE_I32:
      return 4;
    case FRT_DTYPE_I64:
      return 8;
    default:
      return 0;
  }
}

std::optional<uint64_t> fixed_bytes(const frt_runtime_port_desc& port) {
  uint64_t bytes = dtype_bytes(port.dtype);
  if (bytes == 0 || port.rank == 0) return std::nullopt;
  for (uint32_t i = 0; i < port.rank; ++i) {
    if (port.shape[i] < 0) return std::nullopt;
    if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(port.shape[i]), &bytes) ||
        bytes > kMaxPayloadBytes)
      return std::nullopt;
  }
  return bytes;
}

std::optional<Payload> Bench::images(const frt_runtime_port_desc& port, int variant) const {
  if (port.rank != 3 && port.rank != 4) return std::nullopt;
  const bool planar = port.layout == FRT_LAYOUT_CHW || port.layout == FRT_LAYOUT_NCHW;
  const int64_t* last = port.shape + port.rank - 3;
  const auto side = [](int64_t d) { return d < 0 ? kFreeSide : d; };
  const int64_t n = port.rank == 4 && port.shape[0] >= 0 ? port.shape[0] : 1;
  const int64_t height = side(last[planar ? 1 : 0]), width = side(last[planar ? 2 : 1]);
  if (n < 1 || n > 64 || height < 1 || height > 4096 || width < 1 || width > 4096)
    return std::nullopt;
  const bool gray = last[planar ? 0 : 2] == 1;
  Payload made;
  for (int64_t i = 0; i < n; ++i) {
    made.pixels.push_back(pattern(height, width, gray ? 1 : 3, i, variant));
    frt_image_view view{};
    view.struct_size = sizeof view;
    view.pixel_format = gray ? FRT_PIXEL_GRAY8 : FRT_PIXEL_RGB8;
    view.data = made.pixels.back().data();
    view.bytes = made.pixels.back().size();
    view.width = static_cast<int32_t>(width);
    view.height = static_cast<int32_t>(height);
    made.views.push_back(view);
  }
  return made;
}

std::optional<Payload> Bench::payload(const frt_runtime_port_desc& port, int variant) const {
  if (auto given = options_.inputs.find(port.name); given != options_.inputs.end())
    return Payload{bytes_of(given->second), {}, {}};
  if (port.modality == FRT_MODALITY_IMAGE || port.modality == FRT_MODALITY_DEPTH)
    return images(port, variant);
  if (port.modality == FRT_MODALITY_TEXT)
    return Payload{bytes_of(std::string_view(kPrompts[variant & 1])), {}, {}};
  const auto bytes = fixed_bytes(port);
  if (port.modality == FRT_MODALITY_STATE && port.dtype == FRT_DTYPE_F32) {
    // No policy takes more values than its actions have.
    const int64_t free = std::min<int64_t>(4, integer_key("action_dim").value_or(4));
    std::vector<float> values(bytes ? *bytes / 4 : static_cast<size_t>(std::max<int64_t>(free, 1)));
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = 0.1f * static_cast<float>(i % 8 + 1) - 0.2f * static_cast<float>(variant);
    return Payload{bytes_of(values), {}, {}};
  }
  const uint64_t element = dtype_bytes(port.dtype);
  if (element == 0) return std::nullopt;
  return Payload{std::vector<std::byte>(bytes.value_or(element)), {}, {}};
}

}  // namespace outrider::host::conformance
