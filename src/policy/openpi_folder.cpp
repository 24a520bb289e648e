// What lies beside the weights of an openpi checkpoint.
#include <algorithm>
#include <array>
#include <filesystem>

#include "policy/checkpoint.h"
#include "policy/json_object.h"

namespace outrider {
namespace fs = std::filesystem;

namespace {

constexpr size_t kMaxConfigBytes = size_t{1} << 20;
constexpr size_t kMaxAssets = 10000;

// Asset ids of the published recipes.
struct AssetRow {
  const char* asset_id;
  Robot robot;
};
constexpr AssetRow kAssets[] = {{"physical-intelligence/libero", Robot::kLibero},
                                {"libero", Robot::kLibero},
                                {"droid", Robot::kDroid},
                                {"trossen", Robot::kAloha},
                                {"aloha", Robot::kAloha}};

// Head sizes of the named Gemma shapes.
struct VariantRow {
  std::string_view name;
  int64_t head_dim;
};
constexpr VariantRow kVariants[] = {{"dummy", 16},
                                    {"gemma_300m", 256},
                                    {"gemma_2b", 256},
                                    {"gemma_2b_lora", 256},
                                    {"gemma_300m_lora", 256}};

// All folders below assets/ that hold norm_stats.json, as ids.
std::vector<std::string> asset_ids(const std::string& folder) {
  std::vector<std::string> ids;
  std::error_code error;
  const fs::path root = fs::path(folder) / "assets";
  fs::recursive_directory_iterator it(root, error), end;
  for (size_t n = 0; !error && it != end && n < kMaxAssets; it.increment(error), ++n) {
    if (it.depth() > 4) it.disable_recursion_pending();
    if (it->path().filename() == "norm_stats.json")
      ids.push_back(fs::relative(it->path().parent_path(), root, error).generic_string());
  }
  std::sort(ids.begin(), ids.end());
  return ids;
}

bool plain_id(const std::string& id) {
  if (id.empty() || id.size() > 200 || id.front() == '/') return false;
  for (const auto& part : fs::path(id))
    if (part == "..") return false;
  return true;
}

Result<void> read_config(const std::string& path, FolderFacts& out) {
  auto text = read_small_file(path, kMaxConfigBytes);
  if (!text) return text.error();
  auto json = Json::parse(text.value());
  if (!json) return make_error(Code::kNotFound, "%.250s: %s", path.c_str(), json.error().text);
  const auto integer = [&](const char* key, int64_t most, int64_t& value) -> Result<void> {
    const Json* found = json.value().find(key);
    if (found == nullptr) return {};
    if (!found->is_integer() || found->integer() < 1 || found->integer() > most)
      return make_error(Code::kNotFound, "%.300s: %s is %.40s, allowed is an integer 1..%lld",
                        path.c_str(), key, found->text().c_str(), static_cast<long long>(most));
    value = found->integer();
    return {};
  };
  OUTRIDER_TRY(integer("action_dim", 4096, out.stated_action_dim));
  OUTRIDER_TRY(integer("action_horizon", 4096, out.policy.horizon));
  for (const char* key : {"paligemma_variant", "action_expert_variant"}) {
    const Json* found = json.value().find(key);
    if (found == nullptr || !found->is_string()) continue;
    for (const VariantRow& row : kVariants)
      if (found->text() == row.name) out.hints.head_dim = row.head_dim;
  }
  return {};
}

}  // namespace

Result<FoundStatistics> find_norm_stats(const std::string& folder, const std::string& asset_id) {
  FoundStatistics out;
  const auto read = [&](const std::string& id) -> Result<FoundStatistics> {
    const std::string path = folder + "/assets/" + id + "/norm_stats.json";
    auto text = read_small_file(path, size_t{16} << 20);
    if (!text) return text.error();
    auto statistics = read_norm_stats(text.value(), path);
    if (!statistics) return statistics.error();
    out.statistics = std::move(statistics.value());
    out.asset_id = id;
    return out;
  };
  if (!asset_id.empty()) {
    if (!plain_id(asset_id))
      return make_error(Code::kInvalid,
                        "policy: asset_id is \"%.100s\", wanted a folder below assets/",
                        asset_id.c_str());
    return read(asset_id);
  }
  const std::vector<std::string> ids = asset_ids(folder);
  out.looked_at = {folder + "/assets/*/norm_stats.json"};
  if (ids.size() == 1) return read(ids[0]);
  if (ids.size() > 1) {
    std::string list;
    for (const std::string& id : ids) list += (list.empty() ? "" : ", ") + id;
    return make_error(Code::kNotFound,
                      "%.200s/assets holds statistics of %zu robots (%.150s); say which in "
                      "policy.json: asset_id",
                      folder.c_str(), ids.size(), list.c_str());
  }
  return out;
}

Result<FolderFacts> read_openpi_folder(const std::string& folder,
                                       const PiCheckpointSource& source) {
  FolderFacts out;
  FolderFacts config;
  if (std::error_code ignored; fs::exists(folder + "/config.json", ignored))
    OUTRIDER_TRY(read_config(folder + "/config.json", config));
  const std::vector<std::string> ids = asset_ids(folder);
  out.why_not = "no assets/*/norm_stats.json tells the robot";
  if (ids.size() == 1) {
    const auto row = std::find_if(std::begin(kAssets), std::end(kAssets),
                                  [&](const AssetRow& r) { return ids[0] == r.asset_id; });
    out.known = row != std::end(kAssets);
    out.why_not = "the asset id \"" + ids[0] +
                  "\" is none of a robot this build knows (physical-intelligence/libero, droid, "
                  "trossen)";
    if (out.known) {
      out.policy = policy_defaults(row->robot, source.family());
      out.notes.push_back("robot " + std::string(robot_name(row->robot)) + " from the asset id " +
                          ids[0]);
    }
  } else if (ids.size() > 1) {
    out.why_not = "assets/ holds statistics of several robots";
  }
  out.policy.horizon = config.policy.horizon;
  out.hints = config.hints;
  out.stated_action_dim = config.stated_action_dim;
  if (out.policy.horizon > 0)
    out.notes.push_back("horizon " + std::to_string(out.policy.horizon) + " from config.json");
  return out;
}

}  // namespace outrider
