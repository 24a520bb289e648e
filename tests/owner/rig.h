// Doubles over a temporary folder: the machine, the holder, a clock that is told to move.
#pragma once
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "base/log.h"
#include "owner/owner.h"
#include "owner/system.h"
#include "support/log_lines.h"
#include "support/temp_dir.h"

namespace outrider::owner::test {

inline constexpr int64_t kMs = 1'000'000, kSec = 1'000'000'000;

// A machine whose "/" is a folder. After `die_after` changes it changes nothing any more, as a
// process that was killed.
class FakeSystem final : public System {
 public:
  std::string at(const std::string& path) const { return root + path; }
  void put(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(at(path)).parent_path());
    std::ofstream(at(path), std::ios::trunc) << text << "\n";
  }
  std::string get(const std::string& path) {
    std::string text;
    return linux_system().read(at(path), text) == 0 ? text : "(none)";
  }
  bool has(const std::string& path) const { return std::filesystem::exists(at(path)); }

  int64_t now_ns() override { return now; }
  std::string boot_id() override { return boot; }
  int64_t pid() override { return 4242; }
  void pause(int64_t n_ns) override { now += n_ns; }
  int64_t start_ticks(int64_t which) override { return which == 4242 ? 777 : -1; }
  int read(const std::string& path, std::string& text) override {
    return linux_system().read(at(path), text);
  }
  int write(const std::string& path, std::string_view text) override {
    if (dead()) return -EIO;
    if (refuse == path) return -EINVAL;
    if (kernel.count(path) != 0) {
      const std::string made = kernel[path](std::string(text));
      if (made.empty()) return -EINVAL;
      return linux_system().write(at(path), pad(path, made));
    }
    return linux_system().write(at(path), pad(path, std::string(text)));
  }
  int replace(const std::string& path, std::string_view text, bool safe) override {
    if (dead()) return -EIO;
    if (refuse == path) return -ENOSPC;
    std::filesystem::create_directories(std::filesystem::path(at(path)).parent_path());
    return linux_system().replace(at(path), text, safe);
  }
  int remove(const std::string& path) override {
    return dead() ? -EIO : linux_system().remove(at(path));
  }
  int64_t spawn(const std::vector<std::string>& argv, const std::string&) override {
    spawned.push_back(argv);
    if (argv.empty() || spawn_fails) return -ENOENT;
    children[++last_child] = std::nullopt;
    return last_child;
  }
  int64_t group(int64_t which) override { return which; }
  int signal_group(int64_t which, int signal) override {
    signals.push_back({which, signal});
    if (signal == SIGKILL || (signal == SIGTERM && obeys)) children[which] = 128 + signal;
    return 0;
  }
  std::optional<int> reap(int64_t which) override {
    const auto status = children[which];
    if (status) children.erase(which);
    return status;
  }

  outrider::test::TempDir temp;
  std::string root = temp.path(), boot = "11111111-2222-3333-4444-555555555555", refuse;
  int64_t now = 1000 * kSec;
  int die_after = INT32_MAX;
  // What the kernel makes of a value that is written; "": refused.
  std::map<std::string, std::function<std::string(const std::string&)>> kernel;
  std::vector<std::vector<std::string>> spawned;
  std::map<int64_t, std::optional<int>> children;
  std::vector<std::pair<int64_t, int>> signals;
  int64_t last_child = 100;
  bool spawn_fails = false, obeys = true;

 private:
  bool dead() { return die_after-- <= 0; }
  // A knob holds exactly what was written last, a file keeps its tail.
  std::string pad(const std::string& path, const std::string& text) {
    std::ofstream(at(path), std::ios::trunc).flush();
    return text;
  }
};

// Lends one end of a pipe.
class FakeHolder final : public Holder {
 public:
  FakeHolder() {
    int fds[2];
    if (::pipe(fds) != 0) std::abort();
    ::fcntl(fds[0], F_SETFL, O_NONBLOCK);
    reading = link::Fd(fds[0]);
    writing = link::Fd(fds[1]);
  }
  Result<void> open() override {
    ++n_opens;
    if (!open_error.empty()) return make_error(Code::kDevice, "%s", open_error.c_str());
    is_open = true;
    return {};
  }
  void close() override { is_open = false, ++n_closes; }
  bool opened() const override { return is_open; }
  Result<Loan> lend() override {
    if (off_ns > 0 && now_ns < back_ns)
      return make_error(Code::kNotReady, "off the bus for a moment");
    Loan loan;
    loan.reply.ok = true;
    loan.reply.medium = Medium::kTcp;
    loan.reply.endpoint = "tcp://127.0.0.1:1";
    loan.descriptors[0] = writing.get();
    loan.n_descriptors = 1;
    return loan;
  }
  void take_back(int64_t at_ns) override {
    ++n_taken_back;
    back_ns = at_ns + off_ns;
  }
  void returned_unused(const Request& request) override {
    ++n_unused;
    seen = request;
  }
  Result<void> bounce(int64_t) override {
    ++n_bounces;
    return {};
  }
  void step(int64_t at_ns, bool) override { now_ns = at_ns; }
  Presence presence() override { return {here, here, 480}; }

  link::Fd reading, writing;
  bool is_open = false, here = false;
  std::string open_error;
  int n_opens = 0, n_closes = 0, n_taken_back = 0, n_bounces = 0, n_unused = 0;
  Request seen;
  int64_t back_ns = 0, now_ns = 0, off_ns = 0;
};

// An owner over doubles; its socket is a real one in the folder.
struct Rig {
  Rig() {
    config.socket = system.at("/owner.sock");
    config.status = "/run/status.json";
    config.power_off_request = "/run/power-off.json";
    config.state_dir = "/var/owner";
    config.params_dir = "/params";
    config.tuning.clear();
    config.provision = {"provision-it", "{sha256}", "{model}"};
    config.power_off = {"power-it-off"};
    config.default_model = {"/models/default.gguf", std::string(64, 'd')};
    system.put("/run/x", "");
    system.put("/var/owner/x", "");
    set_mode("1");
    parked(true);
  }
  void set_mode(const std::string& mode) { system.put("/params/OutriderMode", mode); }
  void parked(bool is) { system.put("/params/IsOffroad", is ? "1" : "0"); }
  Owner& start() {
    owner = std::make_unique<Owner>(system, config, [this](Mode mode) {
      auto made = std::make_unique<FakeHolder>();
      made->here = here;
      made->open_error = open_error;
      holder = made.get();
      made_modes.push_back(mode);
      return made;
    });
    auto started = owner->start();
    if (!started) std::abort();
    owner->step();
    return *owner;
  }
  void run(int64_t n_ns, int64_t each_ns = kStepNs) {
    const int64_t until = system.now + n_ns;
    while (system.now < until) {
      system.now += each_ns;
      owner->step();
    }
  }
  void far_end(bool is) {
    here = is;
    if (holder != nullptr) holder->here = is;
  }
  FakeSystem system;
  Config config;
  FakeHolder* holder = nullptr;
  bool here = false;
  std::string open_error;
  std::vector<Mode> made_modes;
  std::unique_ptr<Owner> owner;
};

using outrider::test::LogLines;

}  // namespace outrider::owner::test
