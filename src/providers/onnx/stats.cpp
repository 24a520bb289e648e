#include "providers/onnx/stats.h"

#include <cmath>

#include "base/json.h"
#include "base/mapped_file.h"
#include "base/printable.h"
#include "base/sha256.h"

namespace outrider {
namespace {

constexpr size_t kMaxStatsBytes = size_t{16} << 20;

struct Place {
  std::string path, port;
  Error bad(const char* field, const char* wanted) const {
    return make_error(Code::kNotFound, "%s: %s: \"%s\" is no %s", short_path(path).c_str(),
                      printable(port).c_str(), printable(field, 40).c_str(), wanted);
  }
};

Result<float> read_number(const Json& value, const char* field, const Place& place) {
  const auto number = static_cast<float>(value.number());
  if (!value.is_number() || !std::isfinite(number)) return place.bad(field, "finite number");
  return number;
}

Result<std::vector<float>> read_list(const Json& value, const char* field, const Place& place) {
  std::vector<float> list;
  if (!value.is_array() || value.items().empty()) return place.bad(field, "list of numbers");
  for (const Json& item : value.items()) {
    const auto number = read_number(item, field, place);
    if (!number) return number.error();
    list.push_back(number.value());
  }
  return list;
}

Result<PortStats> read_port(const Json& json, const Place& place) {
  PortStats stats{{0}, {1}, 0};
  if (!json.is_object()) return place.bad(place.port.c_str(), "object");
  for (const Json::Member& member : json.members()) {
    if (member.name == "clip") {
      const auto clip = read_number(member.value, "clip", place);
      if (!clip) return clip.error();
      if (!(clip.value() > 0)) return place.bad("clip", "number above 0");
      stats.clip = clip.value();
    } else if (member.name == "mean" || member.name == "scale") {
      auto list = read_list(member.value, member.name.c_str(), place);
      if (!list) return list.error();
      (member.name == "mean" ? stats.mean : stats.scale) = std::move(list.value());
    } else {
      return place.bad(member.name.c_str(), "field; there are mean, scale and clip");
    }
  }
  // A value that never changed has no spread: what to divide by is for whoever made the file.
  for (const float scale : stats.scale)
    if (scale == 0) return place.bad("scale", "list without zeros");
  return stats;
}

}  // namespace

Result<OnnxStats> read_onnx_stats(const std::string& path) {
  auto file = MappedFile::open(path.c_str());
  if (!file) return file.error();
  if (file.value().size() > kMaxStatsBytes)
    return make_error(Code::kNotFound, "%s: %zu bytes, allowed %zu", short_path(path).c_str(),
                      file.value().size(), kMaxStatsBytes);
  const auto bytes = file.value().bytes();
  auto json = Json::parse({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  if (!json)
    return make_error(Code::kNotFound, "%s: %s", short_path(path).c_str(), json.error().text);
  OnnxStats stats;
  auto digest = sha256_hex(bytes);
  if (!digest) return digest.error();
  stats.sha256 = digest.value();
  if (!json.value().is_object()) return Place{path, "statistics"}.bad("file", "object");
  for (const Json::Member& side : json.value().members()) {
    if ((side.name != "inputs" && side.name != "outputs") || !side.value.is_object())
      return Place{path, "statistics"}.bad(side.name.c_str(), "object \"inputs\" or \"outputs\"");
    for (const Json::Member& member : side.value.members()) {
      auto port = read_port(member.value, {path, member.name});
      if (!port) return port.error();
      (side.name == "inputs" ? stats.inputs : stats.outputs)[member.name] = std::move(port.value());
    }
  }
  return stats;
}

Result<void> check_stats(const PortStats& stats, int64_t width, const std::string& port,
                         const std::string& path) {
  for (const auto* list : {&stats.mean, &stats.scale})
    if (list->size() != 1 && static_cast<int64_t>(list->size()) != width)
      return make_error(Code::kShape, "%s: %s: %zu values of %s, the port has %lld",
                        short_path(path).c_str(), printable(port).c_str(), list->size(),
                        list == &stats.mean ? "mean" : "scale", static_cast<long long>(width));
  return {};
}

}  // namespace outrider
