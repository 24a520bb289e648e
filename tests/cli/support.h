// Runs the built program and looks at everything a caller can see: status, standard output,
// standard error. Also files to give it.
#pragma once
#include <string>
#include <vector>

#include "base/json.h"

namespace outrider::cli_test {

struct Outcome {
  int status = -1;  // exit status; 128 + signal when it died of one
  std::string out, err;
};

struct RunOptions {
  const char* stdout_path = nullptr;          // instead of a pipe: "/dev/full"
  std::string stdin_path = {};                // instead of the test's own
  bool close_stdout = false;                  // started without descriptor 1
  bool break_pipe = false;                    // the reader is gone before the first byte
  std::vector<std::string> environment = {};  // "NAME=VALUE" put over the test's own
  std::string folder = {};                    // working directory
};

// outrider with these words. Stopped after 60 seconds.
Outcome run(const std::vector<std::string>& words, const RunOptions& options = {});

// The document on standard output; fails the test when it is not exactly one with "version": 1.
Json document(const Outcome& outcome);

// A folder of this test's own, emptied at its first use in a process.
std::string scratch(const std::string& name);
std::string write(const std::string& path, const std::string& bytes);
std::string read(const std::string& path);

// The fake provider, and a configuration it accepts. Empty when it was not built.
std::string fake_provider();
std::string fake_config(const std::string& more = "");

// A tiny PI0.5 pair made once per process by `outrider make-model`; "" when this build cannot.
std::string tiny_policy();

}  // namespace outrider::cli_test
