#include "safetensors/folder.h"

#include <sys/stat.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/json.h"
#include "base/printable.h"

namespace outrider {
namespace {

constexpr const char* kWhole = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";
constexpr size_t kMaxIndexBytes = size_t{16} << 20;

bool is_there(const std::string& path) {
  struct stat info = {};
  return ::stat(path.c_str(), &info) == 0;
}

// A plain name: what an index may point at.
bool stays_inside(std::string_view name) {
  return !name.empty() && name.size() <= 255 && name[0] != '.' &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return c != '/' && c != '\\' && static_cast<unsigned char>(c) >= 0x20 && c != 0x7F;
         });
}

// Tensor names by the file they lie in.
Result<std::map<std::string, std::vector<std::string>>> read_index(const std::string& path) {
  auto file = MappedFile::open(path.c_str());
  if (!file) return file.error();
  const auto bytes = file.value().bytes();
  auto json = Json::parse({reinterpret_cast<const char*>(bytes.data()), bytes.size()},
                          Json::Dialect::kStandard,
                          {.max_bytes = kMaxIndexBytes, .max_depth = 8, .max_values = 1 << 20});
  if (!json) return make_error(Code::kNotFound, "%.250s: %s", path.c_str(), json.error().text);
  const Json* map = json.value().find("weight_map");
  if (map == nullptr || !map->is_object() || map->members().empty())
    return make_error(Code::kNotFound, "%.300s: weight_map is missing or no object with members",
                      path.c_str());
  std::map<std::string, std::vector<std::string>> by_file;
  for (const Json::Member& member : map->members()) {
    if (!member.value.is_string() || !stays_inside(member.value.text()))
      return make_error(Code::kNotFound,
                        "%.200s: weight_map of %.80s is no plain file name in this folder",
                        path.c_str(), printable(member.name).c_str());
    by_file[member.value.text()].push_back(member.name);
    if (by_file.size() > SafeTensorsFolder::kMaxFiles)
      return make_error(Code::kNotFound, "%.300s names more than %zu files", path.c_str(),
                        SafeTensorsFolder::kMaxFiles);
  }
  return by_file;
}

}  // namespace

Result<SafeTensorsFolder> SafeTensorsFolder::open(const std::string& folder) {
  SafeTensorsFolder out;
  out.folder_ = folder;
  const std::string whole = folder + "/" + kWhole, index = folder + "/" + kIndex;
  if (is_there(whole)) {
    auto file = SafeTensorsFile::open(whole.c_str());
    if (!file) return file.error();
    out.files_.push_back(std::move(file.value()));
    return out;
  }
  if (!is_there(index))
    return make_error(Code::kNotFound, "%.350s holds neither %s nor %s%s", folder.c_str(), kWhole,
                      kIndex,
                      is_there(folder + "/params")
                          ? "; its params/ is a JAX checkpoint: convert it to PyTorch first"
                          : "");
  auto by_file = read_index(index);
  if (!by_file) return by_file.error();
  std::set<std::string> seen;
  for (const auto& [name, tensors] : by_file.value()) {
    auto file = SafeTensorsFile::open((folder + "/" + name).c_str());
    if (!file) return file.error();
    for (const std::string& tensor : tensors) {
      if (file.value().tensor(tensor) == nullptr)
        return make_error(Code::kNotFound, "%.250s lacks tensor %.100s, which %s promises",
                          file.value().path().c_str(), printable(tensor).c_str(), kIndex);
    }
    for (const SafeTensor& tensor : file.value().tensors()) {
      if (!seen.insert(tensor.name).second)
        return make_error(Code::kNotFound, "%.250s holds tensor %.100s, as another file does",
                          file.value().path().c_str(), printable(tensor.name).c_str());
    }
    out.files_.push_back(std::move(file.value()));
  }
  return out;
}

const SafeTensor* SafeTensorsFolder::tensor(std::string_view name) const {
  for (const SafeTensorsFile& file : files_) {
    if (const SafeTensor* tensor = file.tensor(name); tensor != nullptr) return tensor;
  }
  return nullptr;
}

}  // namespace outrider
