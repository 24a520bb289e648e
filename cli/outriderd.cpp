// outriderd: the resident owner of a device's link.
#include <poll.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "adapter/params.h"
#include "base/clock.h"
#include "base/input_file.h"
#include "base/log.h"
#include "base/output_file.h"
#include "cli/args.h"
#include "link/transport/usb/gadget_setup.h"
#include "owner/notify.h"
#include "owner/owner.h"
#include "record/runtime.h"

namespace outrider::cli {
namespace {

constexpr int kGood = 0, kBad = 1, kUsage = 2, kLate = 3;

constexpr Flag kFlags[] = {
    {"--config", "F", "/etc/outrider/owner.json", "Service configuration.", parse_text},
    {"--status", nullptr, nullptr,
     "Print what the records of owner and tandem say, as JSON, and whether it may be believed.",
     nullptr},
    {"--power-off", "REASON", nullptr,
     "Have the far end asked to power off, and wait for it: 30 s at most, not at all when there is "
     "nobody to ask. For a real shutdown only.",
     parse_text},
    {"--check", nullptr, nullptr, "Read the configuration, then stop.", nullptr},
};
constexpr Command kOutriderd = {"outriderd", "Own the link of this device and lend it.",
                                "",          "outriderd --config owner.json",
                                {},          kFlags,
                                nullptr};

int fail(const Error& error, int status) {
  std::fprintf(stderr, "outriderd: error: %s\n", error.text);
  return status;
}

void print_help() {
  std::printf("outriderd [FLAGS]\n\n%s\n\n", kOutriderd.summary);
  const auto rows = [](std::span<const Flag> flags) {
    for (const Flag& flag : flags) {
      const std::string name =
          std::string(flag.name) + (flag.value != nullptr ? std::string(" ") + flag.value : "");
      std::printf("  %-20s %s%s%s\n", name.c_str(), flag.help,
                  flag.by_default != nullptr ? " Default " : "",
                  flag.by_default != nullptr ? flag.by_default : "");
    }
  };
  rows(kFlags);
  rows(common_flags());
}

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == 0 || slash == std::string::npos ? "/" : path.substr(0, slash);
}

Result<void> make_folder(const std::string& path) {
  for (size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    const std::string part = path.substr(0, end);
    if (::mkdir(part.c_str(), 0755) != 0 && errno != EEXIST)
      return make_error(Code::kNotFound, "folder %s: %s", part.c_str(), std::strerror(errno));
    if (end == std::string::npos) return {};
  }
}

// What the daemon replaces and removes is its own, or nothing is there: a slip in the configuration
// costs nobody a file.
Result<void> check_places(const owner::Config& config) {
  constexpr size_t kMaxBytes = 65536;
  const auto is_ours = [](std::string_view text) {
    return text.empty() || text.starts_with("{\"version\":1,\"boot_id\":");
  };
  const std::pair<const char*, const std::string*> places[] = {
      {"status", &config.status}, {"power_off_request", &config.power_off_request}};
  for (const auto& [key, path] : places)
    if (auto own = find_own_file(*path, kMaxBytes, is_ours); !own && own.code() == Code::kInvalid)
      return make_error(Code::kInvalid, "%s: %s", key, own.error().text);
  return {};
}

// One owner a device. The file stays, the lock goes with the process.
class OnlyOne {
 public:
  ~OnlyOne() {
    if (fd_ >= 0) ::close(fd_);
  }
  Result<void> take(const std::string& path) {
    auto opened = open_in_place(path, InPlace::kRegular, 0600);
    if (!opened) return opened.error();
    fd_ = opened.value();
    if (::flock(fd_, LOCK_EX | LOCK_NB) == 0) return {};
    return make_error(Code::kDevice, "%s is locked: another owner runs on this device",
                      path.c_str());
  }

 private:
  int fd_ = -1;
};

owner::Owner::MakeHolder holder_maker(const owner::Config& config) {
  return [&config](owner::Mode mode) -> std::unique_ptr<owner::Holder> {
    if (mode == owner::Mode::kTcp)
      return std::make_unique<owner::TcpHolder>(link::parse_endpoint(config.tcp_listen).value());
    link::usb::GadgetSettings settings;
    settings.controller = config.usb_controller;
    settings.owner_uid = static_cast<uint32_t>(config.usb_owner_uid);
    settings.owner_gid = static_cast<uint32_t>(config.usb_owner_gid);
    const std::string serial = config.usb_serial.empty()
                                   ? link::usb::machine_serial(link::usb::linux_setup())
                                   : config.usb_serial;
    return std::make_unique<owner::UsbHolder>(link::usb::linux_setup(), settings, serial,
                                              link::usb::open_ffs_port);
  };
}

// Steps until a signal that ends it.
int loop(owner::Owner& owner, const owner::Notify& notify, int signals) {
  owner::System& system = owner::linux_system();
  const int64_t step_ns =
      notify.beat_ns() > 0 ? std::min(owner::kStepNs, notify.beat_ns()) : owner::kStepNs;
  int64_t next_ns = system.now_ns();
  bool ready = false;
  for (;;) {
    const int64_t now_ns = system.now_ns();
    if (now_ns >= next_ns) {
      owner.step();
      if (!ready) notify.say("READY=1");
      ready = true;
      notify.say("WATCHDOG=1");
      next_ns = system.now_ns() + step_ns;  // a step that was slow is not made up for
    }
    std::vector<pollfd> list = {{signals, POLLIN, 0}};
    owner.poll_list(list);
    const int64_t left_ns = std::max<int64_t>(0, next_ns - system.now_ns());
    const timespec timeout{left_ns / 1'000'000'000, left_ns % 1'000'000'000};
    if (::ppoll(list.data(), list.size(), &timeout, nullptr) < 0 && errno != EINTR)
      return fail(make_error(Code::kFailed, "poll: %s", std::strerror(errno)), kBad);
    if (list[0].revents != 0) return kGood;
    owner.serve();
  }
}

int run_owner(const owner::Config& config) {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&set, signal);
  ::sigprocmask(SIG_BLOCK, &set, nullptr);
  const int signals = ::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  const owner::Notify notify = owner::Notify::from_environment();
  for (const std::string& folder :
       {config.state_dir, folder_of(config.socket), folder_of(config.status)})
    if (auto made = make_folder(folder); !made) return fail(made.error(), kUsage);
  OnlyOne only;
  if (auto taken = only.take(config.state_dir + "/lock"); !taken)
    return fail(taken.error(), kUsage);
  owner::Owner owner(owner::linux_system(), config, holder_maker(config));
  if (auto started = owner.start(); !started) return fail(started.error(), kUsage);
  const int status = loop(owner, notify, signals);
  notify.say("STOPPING=1");
  owner.stop();
  return status;
}

const char* yes_no(bool value) {
  return value ? "true" : "false";
}

owner::OwnerView owner_view(const owner::Config& config) {
  static constinit const MonotonicClock kClock;
  std::string text;
  if (owner::linux_system().read(config.status, text) != 0) text.clear();
  return owner::read_status(text, record::here(kClock));
}

int print_status(const owner::Config& config) {
  static constinit const MonotonicClock kClock;
  const owner::OwnerView view = owner_view(config);
  std::string text;
  if (owner::linux_system().read(config.runtime_record, text) != 0) text.clear();
  const record::RuntimeView runtime = record::read_runtime(text, record::here(kClock));
  const owner::Status& s = view.status;
  std::printf(
      "{\"version\":1,\"owner\":{\"alive\":%s,\"state\":\"%s\",\"mode\":\"%s\",\"parked\":%s,"
      "\"medium\":\"%s\",\"endpoint\":%s,\"present\":%s,\"program\":%s,\"borrower\":%s,"
      "\"provisioning\":%s,\"unfinished\":%s,\"power_off\":%s,\"settings\":%lld,\"error\":%s},"
      "\"runtime\":{\"state\":\"%s\",\"active\":%s,\"handovers\":%lld,\"artifact_sha256\":%s,"
      "\"checkpoint\":%s}}\n",
      yes_no(view.alive), owner::shown_state(view), s.mode.c_str(), yes_no(s.parked),
      owner::medium_name(s.medium), owner::quoted(s.endpoint).c_str(), yes_no(s.present),
      yes_no(s.program), s.borrower.empty() ? "null" : owner::quoted(s.borrower).c_str(),
      yes_no(s.worker), yes_no(s.unfinished), yes_no(s.power_off),
      static_cast<long long>(s.n_settings),
      s.error.empty() ? "null" : owner::quoted(s.error).c_str(), runtime.state.c_str(),
      yes_no(runtime.active), static_cast<long long>(runtime.handovers),
      runtime.active ? owner::quoted(runtime.artifact_sha256).c_str() : "null",
      runtime.checkpoint.empty() ? "null" : owner::quoted(runtime.checkpoint).c_str());
  return view.alive ? kGood : kBad;
}

int power_off(const owner::Config& config, const std::string& reason) {
  owner::System& system = owner::linux_system();
  const owner::OwnerView view = owner_view(config);
  const owner::PowerOffView seen{view.alive && view.status.mode != "off", false,
                                 view.alive && view.status.present};
  const int64_t start_ns = system.now_ns();
  if (!owner::request_power_off(system, config.power_off_request, {true, false, false}, seen,
                                reason)) {
    std::fprintf(stderr, "outriderd: nobody to ask\n");
    return kGood;
  }
  while (owner::power_off_pending(system, config.power_off_request)) system.pause(100'000'000);
  const bool late = system.now_ns() - start_ns >= owner::kPowerOffNs;
  std::fprintf(stderr, "outriderd: %s\n",
               late ? "the far end was not asked within 30 s; the request is withdrawn" : "done");
  return late ? kLate : kGood;
}

int run(std::span<const char* const> words) {
  auto args = Args::parse(kOutriderd, words);
  if (!args) return fail(args.error(), kUsage);
  if (args.value().help()) {
    print_help();
    return kGood;
  }
  set_log_sink(stderr_log_sink, nullptr);
  if (auto level = outrider::parse_log_level(args.value().text("--log-level")))
    set_log_level(level.value());
  auto config = owner::read_config(args.value().text("--config"));
  if (!config) return fail(config.error(), kUsage);
  if (args.value().given("--status")) return print_status(config.value());
  if (auto fine = check_places(config.value()); !fine) return fail(fine.error(), kUsage);
  if (args.value().given("--check")) return kGood;
  if (args.value().given("--power-off"))
    return power_off(config.value(), args.value().text("--power-off"));
  return run_owner(config.value());
}

}  // namespace
}  // namespace outrider::cli

int main(int argc, char** argv) {
  using namespace outrider::cli;
  const int status = run({argv + 1, static_cast<size_t>(std::max(0, argc - 1))});
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return status;
  std::fprintf(stderr, "outriderd: error: standard output: the answer was not written\n");
  return kUsage;
}
