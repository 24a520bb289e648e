// A host in a child process and a device in this one, over loopback TCP, with the scripted
// provider: what the link is measured with.
#pragma once
#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "link/server/runtime.h"
#include "outrider/frt_v1.h"

namespace outrider::link_bench {

// 2 pictures of 224x224x3: 301,056 bytes, the tick of an arm policy; and of 256x256x3: 393,216
// bytes, the frame of a driving policy. 50x32 floats out.
inline constexpr int kTickSide = 224, kFrameSide = 256;
std::string fake_config(int side);

const Clock& clock_here();
double thread_cpu_ms();
double percentile(const std::vector<double>& sorted, double p);

// Ends the process with what went wrong.
[[noreturn]] void give_up(const char* what, const char* why);

// A server of models "tick" and "frame" in a child process, until it is destroyed.
class HostProcess {
 public:
  // key_file "": plain text.
  HostProcess(const std::string& lib, const std::string& key_file);
  ~HostProcess();
  HostProcess(const HostProcess&) = delete;
  HostProcess& operator=(const HostProcess&) = delete;
  pid_t pid() const { return pid_; }
  std::unique_ptr<link::Runtime> open(const char* model, int deadline_ms = 2000) const;

 private:
  std::string lib_, key_file_, endpoint_;
  pid_t pid_ = -1;
};

std::unique_ptr<link::Runtime> open_runtime(const std::string& path, const std::string& config);

// A key file of this process's own, removed at the end.
class KeyFile {
 public:
  KeyFile();
  ~KeyFile();
  KeyFile(const KeyFile&) = delete;
  KeyFile& operator=(const KeyFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Inputs and outputs of one tick.
class Request {
 public:
  explicit Request(int side);
  // set_input of all three, step, get_output. 0, or the code of the first verb that failed.
  int tick(link::Runtime& runtime);
  // Only the pictures anew, step, get_output.
  int frame(link::Runtime& runtime);
  // tick, timed; ends the process when it fails.
  double tick_ms(link::Runtime& runtime);
  size_t input_bytes() const { return pixels_.size(); }
  void set_number(float number) { state_[0] = number; }
  const std::vector<float>& out() const { return out_; }

 private:
  std::vector<uint8_t> pixels_;
  frt_image_view views_[2];
  float state_[8] = {};
  std::vector<float> out_ = std::vector<float>(1600);
};

}  // namespace outrider::link_bench
