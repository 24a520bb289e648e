// The other computer of the demo: this program as `outrider serve`, in a process of its own.
#pragma once
#include <sys/types.h>

#include <string>

#include "base/result.h"

namespace outrider::cli {

class DemoHost {
 public:
  // Starts it and waits until it listens on a port of 127.0.0.1. Errors: kFailed, kNotFound.
  static Result<DemoHost> start(const std::string& model_path);
  DemoHost(DemoHost&& other) noexcept : pid_(other.pid_), port_(other.port_) { other.pid_ = -1; }
  DemoHost& operator=(DemoHost&&) = delete;
  ~DemoHost();  // ends the process
  int port() const { return port_; }

 private:
  DemoHost() = default;
  pid_t pid_ = -1;
  int port_ = 0;
};

}  // namespace outrider::cli
