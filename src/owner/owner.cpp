#include "owner/owner.h"

#include <signal.h>

#include <cerrno>
#include <cstring>

#include "adapter/params.h"
#include "base/fnv.h"
#include "base/log.h"
#include "base/printable.h"

namespace outrider::owner {
namespace {

// While the link is off there is nothing to lend.
class NoHolder final : public Holder {
 public:
  Result<void> open() override { return {}; }
  void close() override {}
  bool opened() const override { return false; }
  Result<Loan> lend() override { return make_error(Code::kDevice, "the link is off"); }
  void take_back(int64_t) override {}
  void returned_unused(const Request&) override {}
  Result<void> bounce(int64_t) override { return make_error(Code::kDevice, "the link is off"); }
  void step(int64_t, bool) override {}
  Presence presence() override { return {}; }
};

constexpr int64_t kNeverStarted = -1;  // in place of a child's pid, until the next step

NoHolder& no_holder() {
  static NoHolder one;
  return one;
}

Reply no(const char* detail, bool retry) {
  Reply reply;
  reply.detail = detail;
  reply.retry = retry;
  return reply;
}

}  // namespace

const char* mode_name(Mode mode) {
  static constexpr const char* kNames[] = {"off", "usb", "tcp"};
  return kNames[static_cast<size_t>(mode)];
}

Mode mode_of(std::string_view text) {
  return text == "1" ? Mode::kUsb : text == "2" ? Mode::kTcp : Mode::kOff;
}

Owner::Owner(System& system, const Config& config, MakeHolder make_holder)
    : system_(system),
      config_(config),
      make_holder_(std::move(make_holder)),
      settings_(system, config.state_dir + "/settings.json"),
      crashes_(system, config.state_dir + "/ends.json"),
      lender_(std::make_unique<Lender>(
          no_holder(), [this](const Borrower& asker) { return may_borrow(asker); })) {
  status_.boot_id = system_.boot_id();
  status_.session = record::random_session();
  status_.pid = system_.pid();
  status_.start_ticks = system_.start_ticks(status_.pid);
}

Owner::~Owner() {
  stop();
}

Result<void> Owner::start() {
  now_ns_ = system_.now_ns();
  if (auto recovered = settings_.recover(); !recovered)
    log_line(LogLevel::kError, "%s", recovered.error().text);
  OUTRIDER_TRY(lender_->open(config_.socket, static_cast<mode_t>(config_.socket_mode)));
  calm_ns_ = crashes_.begin();
  return {};
}

std::string Owner::param(const std::string& key) {
  std::string text;
  if (key.empty() || params_dir_.empty()) return text;
  if (system_.read(params_dir_ + "/" + key, text) != 0) text.clear();
  return text;
}

Reply Owner::may_borrow(const Borrower& asker) const {
  const int64_t group = system_.group(asker.pid);
  const bool asks = ask_pid_ > 0 && group == ask_pid_, runs = run_pid_ > 0 && group == run_pid_;
  if (held_ == Mode::kOff || holder_ == nullptr) return no("the link is off", false);
  if (!holder_->opened()) return no("the link is not there yet", true);
  if (stopped_) return no("the owner is stopping", false);
  if (power_off_.busy() && !asks) return no("the far end is being powered off", true);
  if (runs && (!parked_ || provision_.stopping()))
    return no("provisioning runs only while parked", false);
  Reply yes;
  yes.ok = true;
  return yes;
}

void Owner::step() {
  if (stopped_) return;
  now_ns_ = system_.now_ns();
  run_status_ = end_child(run_pid_);
  ask_status_ = end_child(ask_pid_);
  params_dir_ = config_.params_dir.empty() ? adapter::params_dir_here() : config_.params_dir;
  parked_ = param_set(config_.keys.parked);
  mode_ = mode_of(param(config_.keys.mode));
  if (now_ns_ < calm_ns_ && power_off_pending(system_, config_.power_off_request))
    calm_ns_ = now_ns_;  // it is asked before all else
  if (now_ns_ < calm_ns_) mode_ = Mode::kOff;
  lender_->serve(now_ns_);
  follow_presence();
  follow_power_off();  // with what is there now
  follow_mode();
  follow_presence();
  follow_settings();
  follow_provision();
  tell_status();
}

void Owner::poll_list(std::vector<pollfd>& list) const {
  lender_->poll_list(list);
  if (holder_ != nullptr && !lender_->borrower() && holder_->descriptor() >= 0)
    list.push_back({holder_->descriptor(), POLLIN, 0});
}

void Owner::serve() {
  now_ns_ = system_.now_ns();
  lender_->serve(now_ns_);
  if (holder_ != nullptr) holder_->step(now_ns_, lender_->borrower().has_value());
}

// What is held follows the parameter: at once when nothing is held, else only while parked, so that
// nobody pulls the cable out of a drive.
void Owner::follow_mode() {
  if (mode_ != held_ && (held_ == Mode::kOff || parked_ || mode_ == Mode::kOff) &&
      (!lender_->borrower() || parked_)) {
    lender_->end_lease(now_ns_);
    lender_->hold(no_holder());
    if (holder_ != nullptr) holder_->close();
    holder_.reset();
    held_ = mode_;
    holder_ns_ = now_ns_;
    holder_error_.clear();
    here_ = here_now_ = false;
    if (held_ != Mode::kOff) {
      holder_ = make_holder_(held_);
      lender_->hold(*holder_);
    }
  }
  if (holder_ == nullptr) return;
  if (!holder_->opened() && now_ns_ >= holder_ns_) {
    auto opened = holder_->open();
    const std::string error = opened ? "" : opened.error().text;
    if (!opened && error != holder_error_) log_line(LogLevel::kError, "owner: %s", error.c_str());
    holder_error_ = error;
    opened_ns_ = now_ns_;
    // Held by somebody else is over sooner than a machine without the means.
    if (!opened)
      holder_ns_ = now_ns_ + (opened.code() == Code::kDevice || opened.code() == Code::kInvalid
                                  ? kHolderBusyNs
                                  : kHolderRetryNs);
  }
  holder_->step(now_ns_, lender_->borrower().has_value());
}

void Owner::follow_presence() {
  const Presence now = holder_ != nullptr ? holder_->presence() : Presence{};
  // A borrower talks to somebody; what it does to the cable is its business.
  here_now_ = now.here || lender_->borrower().has_value();
  if (here_now_) here_ns_ = now_ns_;
  here_ = here_now_ || (here_ && holder_ != nullptr && now_ns_ - here_ns_ < kPresenceNs);
  status_.program = now.program;
  status_.speed_mbit_s = now.speed_mbit_s;
}

void Owner::follow_power_off() {
  std::string text;
  PowerOff::Input in;
  in.now_ns = now_ns_;
  in.asked = power_off_pending(system_, config_.power_off_request);
  if (in.asked && system_.read(config_.power_off_request, text) == 0) {
    auto request = read_power_off(text, status_.boot_id, now_ns_);
    in.asked = bool(request);
    if (request) in.deadline_ns = request.value().deadline_ns;
  }
  // Somebody who had no time yet to show up is asked too.
  const bool settling = mode_ != Mode::kOff && (holder_ == nullptr || !holder_->opened() ||
                                                now_ns_ - opened_ns_ < kPresenceNs);
  in.far_end_here = here_now_ || settling;
  in.running = ask_pid_ > 0;
  in.exit_status = ask_status_;
  PowerOff::Do todo = power_off_.step(in);
  if (todo == PowerOff::Do::kStart && config_.power_off.empty()) {
    log_line(LogLevel::kWarn, "owner: no \"power_off\" command is configured: nobody is asked");
    todo = PowerOff::Do::kFinish;
  }
  if (todo == PowerOff::Do::kStart) {
    start_child(ask_pid_, filled(config_.power_off, config_, ""), "power_off");
  } else if (todo != PowerOff::Do::kNothing) {
    kill_child(ask_pid_);
    withdraw_power_off(system_, config_.power_off_request);
    log_line(LogLevel::kInfo, "owner: power-off: %s",
             ask_status_ == 0 ? "the far end was asked" : "not asked; the request is withdrawn");
  }
}

void Owner::follow_settings() {
  const auto change = [&](Result<void> done) {
    if (done || done.code() == Code::kNotFound || warned_setting_ == done.error().text) return;
    warned_setting_ = done.error().text;
    log_line(LogLevel::kWarn, "%s", done.error().text);
  };
  if (held_ == Mode::kOff) {
    if (settings_.n_changed() > 0) settings_.restore_all();
    return;
  }
  for (const Tuning& tuning : config_.tuning) {
    if (tuning.at_least)
      change(settings_.raise(tuning.path, tuning.value));
    else
      change(settings_.set(tuning.path, tuning.value));
  }
  const PortCurrent& port = config_.port_current;
  if (port.path.empty()) return;
  // Over usb the port's current is cut while a host is there, whatever is said about phones.
  const bool charge = held_ == Mode::kTcp && param_set(config_.keys.charge_phone);
  if (here_ && !charge)
    change(settings_.set(port.path, port.cut));
  else if (settings_.changed(port.path))
    change(settings_.restore(port.path));
}

void Owner::follow_provision() {
  const Choice choice = pinned_choice(config_.keys.big_model, config_.keys.catalog,
                                      param(config_.keys.big_model), config_.default_model);
  const auto& borrower = lender_->borrower();
  Provision::Input in;
  in.now_ns = now_ns_;
  in.link_on =
      held_ != Mode::kOff && mode_ == held_ && !config_.provision.empty() && !choice.sha256.empty();
  in.parked = parked_;
  in.far_end_here = here_;
  in.lent = borrower && (run_pid_ == 0 || system_.group(borrower->pid) != run_pid_);
  in.power_off = power_off_.busy();
  in.wanted_hash = fnv1a64(choice.sha256 + "\n" + param(config_.keys.spec));
  in.running = run_pid_ > 0;
  in.exit_status = run_status_;
  switch (provision_.step(in)) {
    case Provision::Do::kStart:
      start_child(run_pid_, filled(config_.provision, config_, choice.sha256), "provision");
      break;
    case Provision::Do::kTerminate:
      (void)system_.signal_group(run_pid_, SIGTERM);
      break;
    case Provision::Do::kKill:
      (void)system_.signal_group(run_pid_, SIGKILL);
      break;
    case Provision::Do::kNothing:
      break;
  }
}

void Owner::start_child(int64_t& child, const std::vector<std::string>& argv, const char* name) {
  const int64_t pid = system_.spawn(argv, config_.log_file);
  if (pid <= 0)
    log_line(LogLevel::kError, "owner: %s: %s cannot be started: %s", name,
             argv.empty() ? "?" : printable(argv[0]).c_str(),
             std::strerror(static_cast<int>(-pid)));
  child = pid > 0 ? pid : kNeverStarted;
}

// Exit status of a child that ended, else -1.
int Owner::end_child(int64_t& child) {
  if (child == kNeverStarted) {
    child = 0;
    return 127;
  }
  if (child <= 0) return -1;
  const auto status = system_.reap(child);
  if (!status) return -1;
  child = 0;
  return *status;
}

void Owner::kill_child(int64_t& child) {
  if (child <= 0) return;
  (void)system_.signal_group(child, SIGKILL);
  for (int i = 0; i < 100 && child > 0; ++i) {
    if (end_child(child) < 0) system_.pause(10'000'000);
  }
  child = 0;
}

void Owner::tell_status() {
  status_.mono_ns = now_ns_;
  status_.mode = mode_name(held_);
  status_.parked = parked_;
  const bool opened = holder_ != nullptr && holder_->opened();
  status_.medium = Medium::kNone;
  status_.endpoint.clear();
  if (opened) {
    if (auto loan = holder_->lend()) {
      status_.medium = loan.value().reply.medium;
      status_.endpoint = status_.medium == Medium::kUsb ? "usb:" + loan.value().reply.serial
                                                        : loan.value().reply.endpoint;
    }
  }
  status_.present = here_;
  const auto& borrower = lender_->borrower();
  status_.borrower = borrower ? borrower->name : "";
  status_.borrower_pid = borrower ? borrower->pid : 0;
  status_.worker = run_pid_ > 0;
  status_.unfinished = provision_.unfinished();
  status_.power_off = power_off_.busy();
  status_.n_settings = static_cast<int64_t>(settings_.n_changed());
  status_.sleeps = lender_->server_known() && lender_->server().sleep_after_s > 0;
  status_.error = now_ns_ < calm_ns_
                      ? std::to_string(crashes_.crashes()) + " owners died one after another"
                      : printable(holder_error_, kMaxTextBytes - 3);
  const int error = system_.replace(config_.status, status_text(status_), false);
  const std::string words = error == 0 ? "" : std::strerror(-error);
  if (error != 0 && words != record_error_)
    log_line(LogLevel::kError, "owner: status record %s: %s", short_path(config_.status).c_str(),
             words.c_str());
  record_error_ = words;
}

void Owner::stop() {
  if (stopped_) return;
  stopped_ = true;
  now_ns_ = system_.now_ns();
  if (run_pid_ > 0) {
    (void)system_.signal_group(run_pid_, SIGTERM);
    const int64_t until_ns = now_ns_ + kTermNs;
    while (run_pid_ > 0 && system_.now_ns() < until_ns)
      if (end_child(run_pid_) < 0) system_.pause(20'000'000);
  }
  kill_child(run_pid_);
  kill_child(ask_pid_);
  now_ns_ = system_.now_ns();
  lender_->end_lease(now_ns_);
  settings_.restore_all();
  lender_->hold(no_holder());
  if (holder_ != nullptr) holder_->close();
  holder_.reset();
  held_ = Mode::kOff;
  status_.stopping = true;
  tell_status();
  crashes_.ended_well();
}

}  // namespace outrider::owner
