#include "host/provider_path.h"

#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

#include <climits>
#include <cstdlib>
#include <vector>

#include "base/env.h"
#include "base/json.h"

namespace outrider::host {
namespace {

struct Family {
  std::string_view name;
  const char* file;
};
constexpr Family kFamilies[] = {{"pi0", "provider_gguf.so"},     {"llm", "provider_gguf.so"},
                                {"mllm", "provider_gguf.so"},    {"onnx", "provider_onnx.so"},
                                {"remote", "provider_link.so"},  {"tandem", "provider_tandem.so"},
                                {"camera", "provider_camera.so"}};

// An address inside this library.
void here() {}

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

std::string program_folder() {
  char path[PATH_MAX];
  const ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
  return n > 0 ? folder_of(std::string(path, static_cast<size_t>(n))) : std::string();
}

std::string host_folder() {
  Dl_info info;
  if (dladdr(reinterpret_cast<void*>(&here), &info) == 0 || info.dli_fname == nullptr) return {};
  char path[PATH_MAX];
  return realpath(info.dli_fname, path) != nullptr ? folder_of(path) : std::string();
}

void add_path_list(std::vector<std::string>& folders, std::string_view list) {
  while (!list.empty()) {
    const size_t colon = list.find(':');
    const std::string_view folder = list.substr(0, colon);
    if (!folder.empty()) folders.emplace_back(folder);
    if (colon == std::string_view::npos) return;
    list.remove_prefix(colon + 1);
  }
}

std::vector<std::string> search_folders() {
  std::vector<std::string> folders;
  if (const char* list = env_plugin_path()) add_path_list(folders, list);
  const std::string program = program_folder(), host = host_folder();
  if (!program.empty()) {
    folders.push_back(program + "/../lib");
    folders.push_back(program);
  }
  if (!host.empty() && host != program) folders.push_back(host);
  return folders;
}

bool is_file(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
}

}  // namespace

Result<std::string> provider_file(std::string_view model_family) {
  for (const Family& family : kFamilies)
    if (family.name == model_family) return std::string(family.file);
  return make_error(
      Code::kUnsupported,
      "model_family \"%.64s\": unknown; allowed are pi0, llm, mllm, onnx, remote, tandem, camera; "
      "another provider is named by its file",
      std::string(model_family).c_str());
}

Result<std::string> config_family(std::string_view config_json) {
  auto config = Json::parse(config_json, Json::Dialect::kFlatOpen);
  if (!config) return config.error();
  const Json* family = config.value().find("model_family");
  if (family == nullptr || !family->is_string())
    return make_error(Code::kInvalid,
                      "configuration: model_family is missing or no string; "
                      "allowed are pi0, llm, mllm, onnx, remote, tandem, camera");
  return family->text();
}

Result<std::string> find_provider(std::string_view model_family) {
  auto file = provider_file(model_family);
  if (!file) return file.error();
  std::string looked;
  for (const std::string& folder : search_folders()) {
    std::string path = folder + "/" + file.value();
    if (is_file(path)) return path;
    looked += (looked.empty() ? "" : ", ") + folder;
  }
  return make_error(
      Code::kNotFound,
      "%s for model_family \"%.64s\": not found; looked in: %s; set OUTRIDER_PLUGIN_PATH",
      file.value().c_str(), std::string(model_family).c_str(), looked.c_str());
}

}  // namespace outrider::host
