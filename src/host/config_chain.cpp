#include "host/config_chain.h"

#include <algorithm>
#include <vector>

#include "base/json.h"
#include "base/mapped_file.h"
#include "host/config_file.h"

namespace outrider::host {
namespace {

constexpr const char* kKeys[] = {"runtime", "standby", "lead"};

struct Link {
  std::string path;
  FileId id;
};

std::string path_text(const std::vector<Link>& chain, const std::string& last) {
  std::string text;
  for (const Link& link : chain) text += link.path.substr(0, 100) + " -> ";
  return text + last.substr(0, 100);
}

// Behind `chain`; at most 3^kMostChainedConfigs files are read.
Result<void> follow(std::vector<Link>& chain, const std::string& path) {
  auto file = MappedFile::open(path.c_str());
  if (!file || file.value().size() > kMostConfigBytes) return {};
  const FileId id = file.value().id();
  const auto same = [&](const Link& link) {
    return link.id.device == id.device && link.id.inode == id.inode;
  };
  if (std::ranges::any_of(chain, same))
    return make_error(Code::kUnsupported,
                      "a configuration stands behind itself: %.400s; let one of them name another",
                      path_text(chain, path).c_str());
  if (chain.size() >= kMostChainedConfigs)
    return make_error(Code::kUnsupported,
                      "more than %u configurations stand behind each other: %.400s",
                      kMostChainedConfigs, path_text(chain, path).c_str());
  const auto bytes = file.value().bytes();
  const auto json = Json::parse({reinterpret_cast<const char*>(bytes.data()), bytes.size()},
                                Json::Dialect::kFlatOpen);
  if (!json) return {};
  chain.push_back({path, id});
  for (const char* key : kKeys)
    if (const Json* next = json.value().find(key); next != nullptr && next->is_string())
      OUTRIDER_TRY(follow(chain, next->text()));
  chain.pop_back();
  return {};
}

}  // namespace

Result<void> check_config_chain(const std::string& path) {
  std::vector<Link> chain;
  return follow(chain, path);
}

}  // namespace outrider::host
