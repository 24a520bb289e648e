// What a shared object says about itself in its dynamic section, read from the file.
#pragma once
#include <string>
#include <vector>

#include "base/result.h"

namespace outrider::host::conformance {

struct ElfFacts {
  std::vector<std::string> exports;        // functions and data that others can bind to
  std::vector<std::string> version_nodes;  // absolute symbols: the nodes of a version script
  std::vector<std::string> unique;         // STB_GNU_UNIQUE: pin the library in memory
  std::string run_path;                    // DT_RPATH or DT_RUNPATH, "" when absent
};

// 64-bit little-endian ELF only. Every offset is checked against the file.
// Errors: kNotFound (file), kUnsupported (another kind of file), kInvalid (broken).
Result<ElfFacts> read_elf(const char* path);

}  // namespace outrider::host::conformance
