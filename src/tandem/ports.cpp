#include "tandem/ports.h"

#include <cstring>
#include <iterator>

namespace outrider::tandem {
namespace {

constexpr uint64_t kMostBytes = uint64_t{1} << 30;

const char* word(const char* const* words, size_t n, uint32_t value) {
  return value < n ? words[value] : "?";
}
constexpr const char* kModalities[] = {"TENSOR", "IMAGE", "TEXT",  "STATE",
                                       "ACTION", "AUDIO", "DEPTH", "FORCE"};
constexpr const char* kTypes[] = {"U8", "F32", "F16", "BF16", "I32", "I64"};
constexpr const char* kDirections[] = {"IN", "OUT"};

std::string shape_text(const frt_runtime_port_desc& port) {
  std::string text = "{";
  for (uint32_t i = 0; i < port.rank; ++i)
    text += (i > 0 ? "," : "") + std::to_string(port.shape[i]);
  return text + "}";
}

std::string port_text(const frt_runtime_port_desc& port) {
  return std::string(word(kDirections, std::size(kDirections), port.direction)) + " " +
         word(kModalities, std::size(kModalities), port.modality) + " " +
         word(kTypes, std::size(kTypes), port.dtype) + " " + shape_text(port) +
         (port.update == FRT_UPDATE_STAGED ? "" : " update " + std::to_string(port.update)) +
         (port.layout == FRT_LAYOUT_FLAT ? "" : " layout " + std::to_string(port.layout));
}

const frt_runtime_port_desc* find(const frt_model_runtime_v1& rt, const char* name) {
  for (uint64_t i = 0; i < rt.n_ports; ++i)
    if (std::strcmp(rt.ports[i].name, name) == 0) return &rt.ports[i];
  return nullptr;
}

// Product of the dimensions from `first` on; 0 when one is open, beyond kMostBytes on overflow.
uint64_t product(const frt_runtime_port_desc& port, uint32_t first, uint64_t unit) {
  for (uint32_t i = first; i < port.rank; ++i) {
    if (port.shape[i] < 0) return 0;
    if (__builtin_mul_overflow(unit, static_cast<uint64_t>(port.shape[i]), &unit) ||
        unit > kMostBytes)
      return kMostBytes + 1;
  }
  return unit;
}

// Rows of up to four bytes a pixel: every pixel format fits, whatever channels the port says.
void plan_image(const frt_runtime_port_desc& d, const PortRoom& room, Port& port) {
  constexpr uint64_t kChannels = 4;
  constexpr uint64_t kMostViews = 64;
  port.image = true;
  port.n_views =
      d.rank == 4 ? (d.shape[0] >= 0 ? static_cast<uint64_t>(d.shape[0]) : kMostViews) : 1;
  if (port.n_views > kMostViews) port.n_views = kMostViews;
  const bool planar = d.layout == FRT_LAYOUT_CHW || d.layout == FRT_LAYOUT_NCHW;
  uint64_t pixels = d.rank < 3 ? 0 : port.n_views * kChannels;
  for (uint32_t i = d.rank < 3 ? d.rank : d.rank - 3, end = d.rank; i < end; ++i) {
    if (i == (planar ? d.rank - 3 : d.rank - 1)) continue;  // the channels
    if (d.shape[i] < 0) pixels = 0;
    if (pixels > 0 && (__builtin_mul_overflow(pixels, static_cast<uint64_t>(d.shape[i]), &pixels) ||
                       pixels > kMostBytes))
      pixels = kMostBytes + 1;
  }
  port.fixed = pixels > 0;
  port.bytes = port.fixed ? pixels : room.max_image_bytes;
}

Result<Port> plan_port(const frt_runtime_port_desc& d, uint32_t index, const PortRoom& room) {
  if (d.update == FRT_UPDATE_SWAP)
    return make_error(Code::kUnsupported,
                      "standby: port %.96s is a SWAP window; a tandem moves STAGED ports only",
                      d.name);
  Port port{d.name, index, d.dtype, false, d.required != 0, false, 0, 0};
  if (d.direction == FRT_PORT_IN &&
      (d.modality == FRT_MODALITY_IMAGE || d.modality == FRT_MODALITY_DEPTH)) {
    plan_image(d, room, port);
  } else {
    const uint64_t bytes = d.rank == 0 ? 0 : product(d, 0, element_bytes(d.dtype));
    port.fixed = bytes > 0;
    port.bytes = port.fixed                   ? bytes
                 : d.direction == FRT_PORT_IN ? room.max_input_bytes
                                              : room.max_output_bytes;
  }
  if (port.bytes > kMostBytes)
    return make_error(Code::kShape, "standby: port %.96s %s needs more than 1 GiB", d.name,
                      shape_text(d).c_str());
  return port;
}

}  // namespace

uint64_t element_bytes(uint32_t dtype) {
  constexpr uint64_t kBytes[] = {1, 4, 2, 2, 4, 8};
  return dtype < std::size(kBytes) ? kBytes[dtype] : 0;
}

Result<Ports> plan_ports(const frt_model_runtime_v1& standby, const PortRoom& room) {
  Ports ports;
  for (uint64_t i = 0; i < standby.n_ports; ++i) {
    auto port = plan_port(standby.ports[i], static_cast<uint32_t>(i), room);
    if (!port) return port.error();
    (standby.ports[i].direction == FRT_PORT_IN ? ports.in : ports.out)
        .push_back(std::move(port.value()));
  }
  return ports;
}

std::string port_differences(const frt_model_runtime_v1& standby,
                             const frt_model_runtime_v1& lead) {
  std::string text;
  const auto note = [&text](const std::string& line) { text += (text.empty() ? "" : "; ") + line; };
  for (uint64_t i = 0; i < standby.n_ports; ++i) {
    const auto& mine = standby.ports[i];
    const auto* theirs = find(lead, mine.name);
    if (theirs == nullptr)
      note("port " + std::string(mine.name) + ": the lead has none");
    else if (port_text(mine) != port_text(*theirs))
      note("port " + std::string(mine.name) + ": standby " + port_text(mine) + ", lead " +
           port_text(*theirs));
  }
  for (uint64_t i = 0; i < lead.n_ports; ++i)
    if (find(standby, lead.ports[i].name) == nullptr)
      note("port " + std::string(lead.ports[i].name) + ": the standby has none");
  return text;
}

std::vector<uint32_t> lead_indices(const std::vector<Port>& ports, uint32_t direction,
                                   const frt_model_runtime_v1& lead) {
  std::vector<uint32_t> indices;
  for (const Port& port : ports)
    for (uint64_t i = 0; i < lead.n_ports; ++i)
      if (port.name == lead.ports[i].name && lead.ports[i].direction == direction) {
        indices.push_back(static_cast<uint32_t>(i));
        break;
      }
  return indices;
}

}  // namespace outrider::tandem
