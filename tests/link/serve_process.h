// `outrider serve` as a process of its own.
#pragma once
#include <csignal>
#include <string>
#include <vector>

namespace outrider::link::here {

class ServeProcess {
 public:
  // `words` behind "serve"; --json is added. `clock_ahead_s`: its monotonic clock is another one (a
  // time namespace; where that is not permitted it is not there).
  explicit ServeProcess(const std::vector<std::string>& words, int64_t clock_ahead_s = 0);
  ~ServeProcess();  // killed, if it still runs
  ServeProcess(const ServeProcess&) = delete;
  ServeProcess& operator=(const ServeProcess&) = delete;

  bool is_there() const { return !endpoint_.empty(); }
  const std::string& endpoint() const { return endpoint_; }  // the first that it listens on
  const std::string& line() const { return line_; }          // what it said when it was ready
  uint16_t port() const;
  int pid() const { return pid_; }
  void say(int signal) const;
  void stop() const;  // SIGSTOP; returns when no thread of it runs any more
  // Exit status, 128 + signal when it died of one, -1 when it had ended before.
  int end(int signal = SIGTERM);

 private:
  int pid_ = -1;
  std::string endpoint_, line_;
};

}  // namespace outrider::link::here
