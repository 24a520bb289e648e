#include "cli/jetlink_serve.h"

#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>

#include "base/env.h"
#include "base/json_text.h"
#include "base/log.h"
#include "base/mapped_file.h"
#include "base/output_file.h"
#include "base/sha256.h"
#include "cli/config.h"
#include "cli/jetlink_backend.h"
#include "link/jetlink/server/sensors.h"
#include "link/jetlink/server/server.h"

namespace outrider::cli {
namespace {

namespace jl = link::jetlink;

std::string default_cache() {
  const char* home = env_home();
  return std::string(home == nullptr ? "/tmp" : home) + "/.cache/outrider/jetlink";
}

Error flag_error(const char* flag, const std::string& found, const char* allowed) {
  return make_error(Code::kInvalid, "serve: %s %s: allowed with --jetlink: %s", flag, found.c_str(),
                    allowed);
}

// tcp://HOST:PORT of --listen, or of --host and --port.
Result<link::Endpoint> listen_of(const Args& args) {
  const auto given = args.all("--listen");
  if (given.size() > 1) return flag_error("--listen", "twice", "once");
  if (given.empty()) {
    link::Endpoint out;
    out.kind = link::TransportKind::kTcp;
    out.host = args.given("--host") ? args.text("--host") : "127.0.0.1";
    out.port =
        args.given("--port") ? static_cast<uint16_t>(args.integer("--port")) : jl::kDefaultPort;
    return out;
  }
  if (args.given("--host") || args.given("--port"))
    return flag_error("--listen", given[0], "an endpoint, or --host and --port, not both");
  auto endpoint = link::parse_endpoint(given[0]);
  if (endpoint && endpoint.value().kind != link::TransportKind::kTcp)
    return flag_error("--listen", given[0], "tcp://HOST:PORT");
  return endpoint;
}

// What this build does not have, said before anything is opened.
Result<void> check_flags(const Args& args) {
  for (const char* flag : {"--key-file", "--store", "--power-off-file"})
    if (args.given(flag))
      return make_error(Code::kInvalid,
                        "serve: %s does not go with --jetlink: the dialect has none", flag);
  if (args.given("--usb") || args.given("--dial"))
    return make_error(Code::kUnsupported,
                      "serve: this build serves Jetlink over TCP alone: use --listen --host H "
                      "--port P");
  const std::string& backend = args.text("--backend");
  if (backend != "auto" && backend != "ort" && backend != "outrider")
    return flag_error("--backend", backend, "auto, outrider, or ort (the name scripts wait for)");
  const std::string& device = args.text("--device");
  if (device != "auto" && device != "cpu") return flag_error("--device", device, "auto or cpu");
  return {};
}

// Keys of an open configuration that the server does not choose itself.
bool is_own_key(const std::string& key) {
  static constexpr const char* kOwn[] = {"model_family", "model_path", "backend",    "driving",
                                         "heads",        "desire",     "frame_skip", "action"};
  return std::ranges::any_of(kOwn, [&](const char* own) { return key == own; });
}

struct Wanted {
  JetlinkBackendOptions backend;
  std::string model_path;  // "": none
  uint32_t frame_skip = jl::kDefaultFrameSkip;
};

Result<Wanted> read_wanted(const Args& args, const Command& command) {
  Wanted out;
  if (args.text("--backend") == "ort") out.backend.name = "ort";
  const Wish wish = wish_of(args, command);
  out.backend.provider_path = wish.provider;
  const std::string& path = args.positional(0);
  if (path.empty()) {
    if (wish.n_threads)
      out.backend.settings.emplace_back("n_threads", std::to_string(*wish.n_threads));
    for (const auto& [key, value] : wish.set) {
      const bool plain =
          !value.empty() && value.find_first_not_of("0123456789") == std::string::npos;
      out.backend.settings.emplace_back(key, plain ? value : json_quoted(value));
    }
    return out;
  }
  auto resolved = resolve(path, wish);
  if (!resolved) return resolved.error();
  if (resolved.value().family != "onnx")
    return make_error(Code::kUnsupported,
                      "serve: --jetlink serves driving graphs (ONNX); %s is of family %s",
                      path.c_str(), resolved.value().family.c_str());
  OUTRIDER_TRY(check_files(resolved.value()));
  out.model_path = resolved.value().model_path;
  out.frame_skip = static_cast<uint32_t>(std::clamp<int64_t>(
      resolved.value().integer("frame_skip", jl::kDefaultFrameSkip), 1, jl::kMaxFrameSkip));
  for (const Setting& setting : resolved.value().settings)
    if (setting.origin != kDefaultOrigin && !is_own_key(setting.key))
      out.backend.settings.emplace_back(setting.key, setting.literal);
  return out;
}

Result<jl::ModelId> identity_of(const std::string& path, uint32_t frame_skip) {
  auto file = MappedFile::open(path.c_str());
  if (!file) return file.error();
  auto digest = sha256_hex(file.value().bytes());
  if (!digest) return digest.error();
  return jl::ModelId{digest.value(), static_cast<int64_t>(file.value().size()), frame_skip};
}

void power_off(const std::string& client, const std::string& reason) {
  log_line(LogLevel::kWarn, "jetlink: powering off, asked by %s: %s", client.c_str(),
           reason.c_str());
  const char* const words[] = {"systemctl", "poweroff", nullptr};
  pid_t pid = 0;
  if (::posix_spawnp(&pid, words[0], nullptr, nullptr, const_cast<char* const*>(words), environ) !=
      0)
    log_line(LogLevel::kError, "jetlink: systemctl cannot be started");
  else
    ::waitpid(pid, nullptr, 0);
}

std::atomic<bool> g_fatal{false};

}  // namespace

bool speaks_jetlink(const Args& args) {
  for (const char* flag : {"--jetlink", "--host", "--port", "--cache", "--backend", "--device",
                           "--no-preload", "--poweroff", "--wire", "--frame-datagrams",
                           "--sleep-after", "--status-port", "--usb", "--dial"})
    if (args.given(flag)) return true;
  return args.given("--listen") && args.all("--listen").empty();
}

int serve_jetlink(Context& context, const Command& command, int (*wait)()) {
  static constinit const MonotonicClock kClock;
  const Args& args = context.args;
  if (auto good = check_flags(args); !good) return context.fail(good.error());
  auto endpoint = listen_of(args);
  if (!endpoint) return context.fail(endpoint.error());
  auto wanted = read_wanted(args, command);
  if (!wanted) return context.fail(wanted.error());

  JetlinkBackend backend(wanted.value().backend);
  auto cache = jl::Cache::open(args.given("--cache") ? args.text("--cache") : default_cache(),
                               backend.facts());
  if (!cache) return context.fail(cache.error(), kUsage);
  std::optional<jl::ModelId> first;
  if (!wanted.value().model_path.empty()) {
    context.out.progress("serve: reading " + wanted.value().model_path);
    auto id = identity_of(wanted.value().model_path, wanted.value().frame_skip);
    if (!id) return context.fail(id.error());
    first = id.value();
    cache.value().add_outside(*first, wanted.value().model_path);
  }
  jl::Host host(std::move(cache.value()), backend, kClock);
  if (first)
    host.preload(*first);
  else if (!args.given("--no-preload"))
    host.preload();

  jl::ServerOptions options;
  options.listen = endpoint.value();
  if (args.given("--wire")) options.version = static_cast<uint16_t>(args.integer("--wire"));
  options.datagrams_everywhere =
      args.given("--frame-datagrams") || env_jetlink_datagrams_any_peer();
  if (args.given("--poweroff")) options.session.power_off = power_off;
  const jl::Sensors sensors("/sys", kClock);
  options.session.telemetry = [&sensors] { return sensors.telemetry(); };
  options.fatal = [] {
    g_fatal = true;
    ::kill(::getpid(), SIGTERM);
  };
  for (const char* flag : {"--sleep-after", "--status-port"})
    if (args.given(flag))
      context.out.say(Level::kWarn, "serve: {} is taken and does nothing in this build", flag);
  auto server = jl::Server::start(options, host, kClock);
  if (!server) return context.fail(server.error(), kUsage);
  const bool asked = args.given("--plaintext") || args.given("--host");
  if (!server.value()->local_only() && !asked)
    return context.fail(make_error(
        Code::kInvalid,
        "%s can be reached from other machines, and the Jetlink dialect has neither key nor "
        "encryption: say --plaintext for a network that is yours alone",
        server.value()->endpoint().c_str()));
  if (!server.value()->local_only())
    context.out.say(Level::kWarn,
                    "serve: {} is open to other machines in plain text, without any key",
                    server.value()->endpoint());
  Report listening = Report::array();
  listening.push_back(server.value()->endpoint());
  Report models = Report::array();
  if (first) models.push_back(first->sha256);
  context.out.document_line({{"listening", std::move(listening)}, {"models", std::move(models)}});
  context.out.text("listening on {} (jetlink)\n", server.value()->endpoint());
  context.out.flush(kGood);
  if (!context.out.arrived())
    context.out.say(Level::kWarn, "serve: standard output took no line; listening on {} (jetlink)",
                    server.value()->endpoint());
  const int signal = wait();
  context.out.say(Level::kInfo, "serve: ended by {}", signal == SIGINT ? "Ctrl-C" : "a signal");
  return g_fatal ? kDeadline : kGood;
}

}  // namespace outrider::cli
