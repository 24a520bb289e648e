#include "cli/service_config.h"

#include <filesystem>

#include "base/input_file.h"
#include "base/json.h"

namespace outrider::cli {
namespace {

constexpr size_t kMaxConfigBytes = size_t{1} << 20;

Result<ServiceConfig> resolve_models(ServiceText text, const Wish& wish) {
  ServiceConfig out;
  out.text = std::move(text);
  for (const NamedModel& model : out.text.models) {
    auto resolved = resolve(model.config, wish);
    if (!resolved) return resolved.error();
    out.models.push_back({model.name, std::move(resolved.value())});
  }
  return out;
}

}  // namespace

Result<ServiceConfig> read_service(const std::string& path, const Wish& wish) {
  // A service configuration nests and has no model_family; everything else is one model.
  if (std::filesystem::path(path).extension() == ".json") {
    auto text = read_file(path, kMaxConfigBytes);
    if (!text) return text.error();
    auto json = Json::parse(text.value());
    if (!json) return make_error(Code::kInvalid, "%s: %s", path.c_str(), json.error().text);
    const bool service = json.value().is_object() && json.value().find("model_family") == nullptr;
    if (service) {
      auto read = read_service_text(json.value(), path);
      if (!read) return read.error();
      return resolve_models(std::move(read.value()), wish);
    }
  }
  auto resolved = resolve(path, wish);
  if (!resolved) return resolved.error();
  ServiceConfig out;
  out.models.push_back({"default", std::move(resolved.value())});
  return out;
}

}  // namespace outrider::cli
