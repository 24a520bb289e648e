#include "cli/outputs.h"

#include <sys/stat.h>

#include "base/output_file.h"

namespace outrider::cli {
namespace {

bool is_file(const OutputTarget& target, const struct stat& info) {
  return target.exists && !target.straight && target.device == info.st_dev &&
         target.inode == info.st_ino;
}

}  // namespace

Result<void> check_outputs(std::span<const WantedOutput> outputs,
                           std::span<const std::string> inputs, const Output& out) {
  std::vector<OutputTarget> targets;
  for (const WantedOutput& wanted : outputs) {
    auto target = examine_output(wanted.path);
    if (!target) return target.error();
    struct stat info = {};
    for (const std::string& input : inputs)
      if (::stat(input.c_str(), &info) == 0 && is_file(target.value(), info))
        return make_error(Code::kInvalid,
                          "%s %.150s: is the input %.150s, which would be overwritten; write to "
                          "another file",
                          wanted.flag.c_str(), wanted.path.c_str(), input.c_str());
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

std::vector<WantedOutput> wanted_outputs(const Args& args, std::span<const char* const> flags) {
  std::vector<WantedOutput> wanted;
  for (const char* flag : flags)
    if (args.given(flag)) wanted.push_back({flag, args.text(flag)});
  return wanted;
}

}  // namespace outrider::cli
