// outrider serve: the link server for any runtime.
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "base/clock.h"
#include "base/input_file.h"
#include "base/log.h"
#include "base/output_file.h"
#include "base/printable.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/jetlink_serve.h"
#include "cli/service_config.h"
#include "cli/stored_config.h"
#include "link/secure/secure.h"
#include "link/server/server.h"
#include "link/server/stored_models.h"
#include "link/transport/usb/host_listener.h"

namespace outrider::cli {
namespace {

Result<Value> parse_port(std::string_view text) {
  Value value{std::string(text)};
  if (!read_integer(text, value.integer) || value.integer < 0 || value.integer > 65535)
    return make_error(Code::kInvalid, "a whole number from 0 to 65535");
  return value;
}

Result<Value> parse_wire(std::string_view text) {
  Value value{std::string(text)};
  if (!read_integer(text, value.integer) || (value.integer != 2 && value.integer != 3))
    return make_error(Code::kInvalid, "wire version 2 or 3");
  return value;
}

Result<Value> parse_manage(std::string_view text) {
  for (const char* word : kManageWords)
    if (text == word) return Value{std::string(text), 0, 0};
  return make_error(Code::kInvalid, "auto, yes or no");
}

constexpr Flag kFlags[] = {
    {"--listen", "[ENDPOINT]", nullptr,
     "Where devices reach this host: tcp://HOST:PORT, usb:SERIAL (usb: for the only device there "
     "is) or loopback:NAME (this process alone); replaces what CONFIG says. tcp://127.0.0.1:5610 "
     "when nothing is said. Without ENDPOINT: as --jetlink, at --host and --port.",
     parse_text, true},
    {"--key-file", "F", nullptr,
     "Shared key of 32 bytes or more: devices must have it, and everything is encrypted.",
     parse_text},
    {"--store", "FOLDER", nullptr,
     "Keep models that devices push (outrider link push) in this folder, and serve them by digest; "
     "replaces the folder that CONFIG says.",
     parse_text},
    {"--manage", "WHO", nullptr,
     "Who may push into the store and remove from it over the link: auto (peers on this machine, "
     "those that proved the key, the other end of a USB cable), yes (every peer) or no (none); "
     "replaces what CONFIG says. auto when nothing is said.",
     parse_manage},
    {"--power-off-file", "FILE", nullptr,
     "Devices may ask this host to power off: the wish is written to this file, for a unit that "
     "powers off when it appears. Without it they are refused.",
     parse_text},
    {"--plaintext", nullptr, nullptr,
     "Serve other machines without key and encryption: for a cable that is yours alone.", nullptr},
    {"--jetlink", nullptr, nullptr,
     "Speak the Jetlink dialect (wire versions 3 and 2) on one TCP port, 5599 when nothing is "
     "said. "
     "CONFIG|FILE, a driving model, may be left out: devices upload theirs.",
     nullptr},
    {"--host", "ADDRESS", nullptr, "Jetlink: address to listen on; 127.0.0.1 when not given.",
     parse_text},
    {"--port", "N", nullptr, "Jetlink: port to listen on; 5599 when not given.", parse_port},
    {"--cache", "FOLDER", nullptr,
     "Jetlink: folder of models and what was built of them; ~/.cache/outrider/jetlink when not "
     "given.",
     parse_text},
    {"--backend", "NAME", "auto",
     "Jetlink: auto, outrider, or ort: the name that devices and records are told.", parse_text},
    {"--device", "NAME", "auto", "Jetlink: auto or cpu.", parse_text},
    {"--no-preload", nullptr, nullptr, "Jetlink: do not load at once what was loaded last.",
     nullptr},
    {"--poweroff", nullptr, nullptr,
     "Jetlink: a device's wish powers this host off (systemctl poweroff); without it the wish is "
     "answered and the host stays up.",
     nullptr},
    {"--wire", "N", nullptr, "Jetlink: serve this wire version alone, 2 or 3.", parse_wire},
    {"--frame-datagrams", nullptr, nullptr,
     "Jetlink: offer frames by UDP on every connection, not on a phone's cable alone.", nullptr},
    {"--sleep-after", "S", nullptr, "Jetlink: taken for scripts; this build suspends no host.",
     parse_any_text},
    {"--status-port", "N", nullptr, "Jetlink: taken for scripts; this build has no status page.",
     parse_any_text},
    {"--usb", nullptr, nullptr, "Jetlink: refused; this build serves the dialect over TCP.",
     nullptr},
    {"--dial", "ADDRESS", nullptr, "Jetlink: refused; this build listens.", parse_any_text},
    kThreadsFlag,
    kViewsFlag,
    kSetFlag,
    kProviderFlag,
    kJsonFlag,
};
constexpr Positional kPositionals[] = {
    {"[CONFIG|FILE]",
     "Service configuration (.json with \"models\"), open configuration (.json) or model file; the "
     "latter two are served under the name \"default\"."}};

int run(Context& context);

}  // namespace

const Command kServe = {
    "serve",
    "Serve models to devices over the link.",
    "Runs until Ctrl-C. Without --listen only this machine can connect; an endpoint that other "
    "machines reach is refused unless --key-file or --plaintext is given. Each device gets a "
    "runtime of its own "
    "as long as max_instances and memory_budget_mb of the service configuration allow. With --json "
    "the document is one line, written as soon as devices can connect: {\"version\": 1, "
    "\"listening\": [...], \"models\": [...]}.",
    "outrider serve pi05.gguf --listen tcp://127.0.0.1:5610",
    kPositionals,
    kFlags,
    run};

namespace {

// The signals that end a server are waited for, not handled: no code runs inside one.
class EndSignals {
 public:
  EndSignals() {
    sigemptyset(&set_);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&set_, signal);
    ::pthread_sigmask(SIG_BLOCK, &set_, nullptr);
  }
  int wait() const {
    int signal = 0;
    while (::sigwait(&set_, &signal) != 0) {
    }
    return signal;
  }

 private:
  sigset_t set_;
};

std::string machine_name() {
  char name[65] = {};
  return ::gethostname(name, sizeof name - 1) == 0 && name[0] != '\0' ? name : "host";
}

constexpr std::string_view kWishBegin = "power off, asked by ";
constexpr size_t kMaxWishBytes = 512;

bool is_wish(std::string_view text) {
  return text.starts_with(kWishBegin) && text.find('\n') == text.size() - 1;
}

Result<bool> find_wish(const std::string& path) {
  auto found = find_own_file(path, kMaxWishBytes, is_wish);
  if (!found) return make_error(found.code(), "--power-off-file: %s", found.error().text);
  return found;
}

Result<void> write_wish(const std::string& path, std::string_view device, std::string_view reason) {
  const std::string who = printable(device, 64), why = printable(reason, 200);
  log_line(LogLevel::kWarn, "serve: %s asks this host to power off: %s", who.c_str(), why.c_str());
  if (auto found = find_wish(path); !found) return found.error();
  return write_output(path, std::string(kWishBegin) + who + ": " + why + "\n");
}

// A wish of an earlier run is none of this one. Nothing but a wish is removed.
Result<void> accept_power_off(const std::string& path, link::ServerOptions& options) {
  auto found = find_wish(path);
  if (!found) return found.error();
  if (found.value() && ::unlink(path.c_str()) != 0 && errno != ENOENT)
    return make_error(Code::kNotFound, "--power-off-file %s: %s", path.c_str(),
                      std::strerror(errno));
  options.power_off = [path](std::string_view device, std::string_view reason) {
    return write_wish(path, device, reason);
  };
  return {};
}

// Who may change the store that these have.
Result<link::Manage> manage_of(const Context& context, const ServiceText& text) {
  const bool given = context.args.given("--manage");
  const std::string word = given ? context.args.text("--manage") : text.manage;
  if (text.store.folder.empty() && (given || word != "auto"))
    return make_error(Code::kInvalid,
                      "serve: %s is \"%s\" and there is no store to change: give --store FOLDER or "
                      "the key \"store\", or leave it away",
                      given ? "--manage" : "key \"manage\"", word.c_str());
  if (word == "yes") return link::Manage::kYes;
  return word == "no" ? link::Manage::kNo : link::Manage::kAuto;
}

// Empty when no folder is configured.
Result<std::shared_ptr<store::Store>> open_store(const StoreConfig& config) {
  if (config.folder.empty()) return std::shared_ptr<store::Store>();
  store::Limits limits;
  limits.reserve_bytes = static_cast<uint64_t>(config.reserve_mb) << 20;
  limits.keep_models = static_cast<uint32_t>(config.keep_last);
  auto opened = store::Store::open(config.folder, limits);
  if (!opened) return opened.error();
  return std::make_shared<store::Store>(std::move(opened.value()));
}

Result<std::unique_ptr<link::Models>> open_models(const ServiceConfig& config, Output& out,
                                                  const Clock& clock,
                                                  const link::ModelsLimits& limits) {
  auto models = std::make_unique<link::Models>(limits, clock);
  for (const ServedModel& model : config.models) {
    for (const std::string& note : model.resolved.notes) out.say(Level::kInfo, "{}", note);
    OUTRIDER_TRY(check_files(model.resolved));
    out.progress(fmt::format("serve: opening {}", model.name));
    OUTRIDER_TRY(models->add(
        model.name,
        std::make_unique<link::ProviderSource>(model.resolved.provider_path, model.resolved.json),
        true));
  }
  return models;
}

void tell_ready(Output& out, const ServiceConfig& config, const link::Server& server) {
  Report models = Report::array();
  for (const ServedModel& model : config.models) models.push_back(model.name);
  out.document_line({{"listening", server.endpoints()}, {"models", std::move(models)}});
  for (const std::string& endpoint : server.endpoints()) out.text("listening on {}\n", endpoint);
  out.flush(kGood);
  if (out.arrived()) return;
  for (const std::string& endpoint : server.endpoints())
    out.say(Level::kWarn, "serve: standard output took no line; listening on {}", endpoint);
}

int run(Context& context) {
  static const EndSignals signals;  // before any thread is made: all of them inherit the mask
  if (speaks_jetlink(context.args))
    return serve_jetlink(context, kServe, [] { return signals.wait(); });
  if (context.args.positional(0).empty())
    return context.fail(make_error(Code::kInvalid,
                                   "serve: CONFIG|FILE is missing (outrider serve --help); only "
                                   "--jetlink serves without one"));
  static constinit const MonotonicClock kClock;
  auto config = read_service(context.args.positional(0), wish_of(context.args, kServe));
  if (!config) return context.fail(config.error());
  link::usb::register_usb_host();
  link::ServerOptions options;
  options.listen = config.value().text.listen;
  if (context.args.given("--listen")) options.listen = context.args.all("--listen");
  options.max_peers = static_cast<uint32_t>(config.value().text.max_peers);
  options.models.max_instances = static_cast<uint32_t>(config.value().text.max_instances);
  options.models.memory_budget_bytes = static_cast<uint64_t>(config.value().text.memory_budget_mb)
                                       << 20;
  options.plaintext = context.args.given("--plaintext");
  std::string key_file = config.value().text.key_file;
  if (context.args.given("--key-file")) key_file = context.args.text("--key-file");
  if (!key_file.empty()) {
    if (options.plaintext)
      return context.fail(
          make_error(Code::kInvalid, "--plaintext beside a key file: leave one of them away"));
    auto key = link::read_key_file(key_file);
    if (!key) return context.fail(key.error());
    options.secure = [key = key.value()](std::unique_ptr<link::Transport> plain,
                                         int64_t deadline_ns) {
      return link::secure_as_host(std::move(plain), key, deadline_ns);
    };
  }
  options.name = machine_name();
  if (context.args.given("--store"))
    config.value().text.store.folder = context.args.text("--store");
  auto manage = manage_of(context, config.value().text);
  if (!manage) return context.fail(manage.error());
  options.manage = manage.value();
  auto store = open_store(config.value().text.store);
  if (!store) return context.fail(store.error());
  options.store = store.value();
  auto models = open_models(config.value(), context.out, kClock, options.models);
  if (!models) return context.fail(models.error());
  if (options.store != nullptr) {
    const Wish wish = wish_of(context.args, kServe);
    models.value()->set_catalog(std::make_unique<link::StoredModels>(
        *options.store, [wish](const store::Lease& lease) { return source_of(lease, wish); }));
  }
  if (context.args.given("--power-off-file"))
    if (auto ready = accept_power_off(context.args.text("--power-off-file"), options); !ready)
      return context.fail(ready.error());
  auto server = link::Server::start(options, std::move(models.value()), kClock);
  if (!server) return context.fail(server.error(), kUsage);
  tell_ready(context.out, config.value(), *server.value());
  const int signal = signals.wait();
  context.out.say(Level::kInfo, "serve: ended by {}", signal == SIGINT ? "Ctrl-C" : "a signal");
  return kGood;
}

}  // namespace
}  // namespace outrider::cli
