// Files a command will write, looked at before any work is done.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "cli/config.h"
#include "cli/output.h"

namespace outrider::cli {

struct WantedOutput {
  std::string flag;  // "--out"
  std::string path;
};

// Can each be written, and is none of them an input, another output, or the file that standard
// input comes from or standard output goes to? Devices and pipes may be named twice. Errors: kInvalid (one file twice) naming
// flags and path, those of examine_output.
Result<void> check_outputs(std::span<const WantedOutput> outputs,
                           std::span<const std::string> inputs, const Output& out);

// Every file that reading `given` takes, as far as names tell: itself, the files of a folder, and
// for a configuration what its texts name, configurations among them.
std::vector<std::string> input_files(const std::string& given);
// The same with what `given` was resolved to.
std::vector<std::string> input_files(const std::string& given, const Resolved& resolved);

// The given ones of these flags.
std::vector<WantedOutput> wanted_outputs(const Args& args, std::span<const char* const> flags);

}  // namespace outrider::cli
