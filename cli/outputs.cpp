#include "cli/outputs.h"

#include <sys/stat.h>

#include <filesystem>
#include <system_error>

#include "base/input_file.h"
#include "base/json.h"
#include "base/output_file.h"
#include "onnx/reader.h"

namespace outrider::cli {
namespace {

bool is_file(const OutputTarget& target, const struct stat& info) {
  return target.exists && !target.straight && target.device == info.st_dev &&
         target.inode == info.st_ino;
}

constexpr int kMaxNesting = 3;  // a configuration that names configurations that name ...
constexpr size_t kMaxConfigBytes = 1u << 20, kMaxFiles = 4096;

// The files that texts of a configuration name.
class NamedFiles {
 public:
  void add(const std::string& path, int depth) {
    struct stat info = {};
    if (path.empty() || files_.size() >= kMaxFiles || ::stat(path.c_str(), &info) != 0) return;
    if (S_ISDIR(info.st_mode)) return add_folder(path);
    if (!S_ISREG(info.st_mode)) return;
    files_.push_back(path);
    if (depth < kMaxNesting && path.ends_with(".json"))
      if (auto text = read_file(path, kMaxConfigBytes)) add_texts_of(text.value(), depth + 1);
  }
  void add_texts_of(std::string_view text, int depth) {
    if (auto json = Json::parse(text)) walk(json.value(), depth);
  }
  std::vector<std::string> take() { return std::move(files_); }

 private:
  void walk(const Json& json, int depth) {
    if (json.is_string() && json.text().find('\0') == std::string::npos) add(json.text(), depth);
    if (json.kind() == Json::Kind::kArray)
      for (const Json& item : json.items()) walk(item, depth);
    if (json.is_object())
      for (const Json::Member& member : json.members()) walk(member.value, depth);
  }
  void add_folder(const std::string& path) {
    std::error_code error;
    for (std::filesystem::directory_iterator it(path, error), end;
         !error && it != end && files_.size() < kMaxFiles; it.increment(error))
      if (it->is_regular_file(error)) files_.push_back(it->path().string());
  }

  std::vector<std::string> files_;
};

Result<void> check_input(const WantedOutput& wanted, const OutputTarget& target,
                         std::span<const std::string> inputs) {
  struct stat info = {};
  const auto check = [&](const std::string& input) -> Result<void> {
    if (::stat(input.c_str(), &info) != 0 || !is_file(target, info)) return {};
    return make_error(Code::kInvalid,
                      "%s %.150s: is the input %.150s, which would be overwritten; write to "
                      "another file",
                      wanted.flag.c_str(), wanted.path.c_str(), input.c_str());
  };
  for (const std::string& input : inputs) OUTRIDER_TRY(check(input));
  if (!target.exists || target.straight) return {};
  // A file that is there could be the weights beside a graph: only the graph knows their names.
  for (const std::string& input : inputs) {
    if (!input.ends_with(".onnx")) continue;
    auto model = onnx::read_model_file(input);
    if (!model) continue;  // the open says what is wrong with it
    for (const std::string& file : model.value().external_files) OUTRIDER_TRY(check(file));
  }
  return {};
}

}  // namespace

Result<void> check_outputs(std::span<const WantedOutput> outputs,
                           std::span<const std::string> inputs, const Output& out) {
  std::vector<OutputTarget> targets;
  for (const WantedOutput& wanted : outputs) {
    auto target = examine_output(wanted.path);
    if (!target) return target.error();
    OUTRIDER_TRY(check_input(wanted, target.value(), inputs));
    struct stat info = {};
    if (::fstat(0, &info) == 0 && is_file(target.value(), info))
      return make_error(Code::kInvalid,
                        "%s %.200s: standard input comes from this file, which would be "
                        "overwritten; write to another file",
                        wanted.flag.c_str(), wanted.path.c_str());
    if (::fstat(out.answer_descriptor(), &info) == 0 && is_file(target.value(), info))
      return make_error(Code::kInvalid,
                        "%s %.200s: standard output goes to this file; write to another",
                        wanted.flag.c_str(), wanted.path.c_str());
    for (size_t i = 0; i < targets.size(); ++i)
      if (targets[i].same_file(target.value()))
        return make_error(Code::kInvalid, "%s %.150s and %s %.150s: one file; give two names",
                          outputs[i].flag.c_str(), outputs[i].path.c_str(), wanted.flag.c_str(),
                          wanted.path.c_str());
    targets.push_back(std::move(target.value()));
  }
  return {};
}

std::vector<std::string> input_files(const std::string& given) {
  NamedFiles files;
  files.add(given, 1);
  return files.take();
}

std::vector<std::string> input_files(const std::string& given, const Resolved& resolved) {
  NamedFiles files;
  for (const std::string* path :
       {&given, &resolved.model_path, &resolved.mmproj_path, &resolved.policy_dir})
    files.add(*path, 1);
  files.add_texts_of(resolved.json, 1);
  return files.take();
}

std::vector<WantedOutput> wanted_outputs(const Args& args, std::span<const char* const> flags) {
  std::vector<WantedOutput> wanted;
  for (const char* flag : flags)
    if (args.given(flag)) wanted.push_back({flag, args.text(flag)});
  return wanted;
}

}  // namespace outrider::cli
