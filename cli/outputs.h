// Files a command will write, looked at before any work is done.
#pragma once
#include <span>
#include <string>

#include "cli/output.h"

namespace outrider::cli {

struct WantedOutput {
  std::string flag;  // "--out"
  std::string path;
};

// Can each be written, and is none of them an input, another output, or the file that standard
// output goes to? Devices and pipes may be named twice. Errors: kInvalid (one file twice) naming
// flags and path, those of examine_output.
Result<void> check_outputs(std::span<const WantedOutput> outputs,
                           std::span<const std::string> inputs, const Output& out);

// The given ones of these flags.
std::vector<WantedOutput> wanted_outputs(const Args& args, std::span<const char* const> flags);

}  // namespace outrider::cli
