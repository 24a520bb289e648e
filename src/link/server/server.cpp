#include "link/server/server.h"

#include <sys/random.h>

#include <cstring>

#include "base/log.h"

namespace outrider::link {
namespace {

constexpr int64_t kPumpNs = 100'000'000;
constexpr int64_t kSecureNs = 5'000'000'000;
constexpr auto kWatchPause = std::chrono::milliseconds(5);

uint64_t random_id() {
  uint64_t id = 0;
  while (id == 0)
    if (::getrandom(&id, sizeof id, 0) != sizeof id) id = static_cast<uint64_t>(steady_now_ns());
  return id;
}

std::string status_of(const void* server) {
  return static_cast<const Server*>(server)->json();
}

}  // namespace

Server::Server(const ServerOptions& options, std::unique_ptr<Models> models, const Clock& clock)
    : options_(options),
      models_(std::move(models)),
      clock_(&clock),
      core_{*models_, clock, counters_},
      started_ns_(clock.now_ns()) {
  core_.name = options.name;
  core_.host_id = random_id();
  core_.status = status_of;
  core_.user = this;
  core_.store = options_.store.get();
  core_.manage = options_.manage;
  if (options_.power_off) {
    core_.power_off = &options_.power_off;
    core_.features |= wire::kFeaturePowerOff;
  }
  if (core_.store != nullptr) core_.features |= wire::kFeatureStore;
}

Result<std::unique_ptr<Server>> Server::start(const ServerOptions& options,
                                              std::unique_ptr<Models> models, const Clock& clock) {
  std::unique_ptr<Server> server(new Server(options, std::move(models), clock));
  std::vector<std::string> all = options.listen;
  if (all.empty()) all.emplace_back(kDefaultListen);
  for (const std::string& text : all) {
    auto endpoint = parse_endpoint(text);
    if (!endpoint) return endpoint.error();
    auto listener = listen_transport(endpoint.value());
    if (!listener) return listener.error();
    const bool open =
        !listener.value()->local_only() && endpoint.value().kind == TransportKind::kTcp;
    if (open && !options.secure && !options.plaintext)
      return make_error(Code::kInvalid,
                        "%s can be reached from other machines, and anybody there could drive the "
                        "robot: give a key (--key-file F, or key_file), or say --plaintext for a "
                        "cable that is yours alone",
                        text.c_str());
    if (open && !options.secure)
      log_line(LogLevel::kWarn,
               "serve: %s is open to other machines in plain text, without any key", text.c_str());
    server->listeners_.push_back(std::move(listener.value()));
  }
  for (const auto& listener : server->listeners_)
    server->threads_.emplace_back([&s = *server, &l = *listener] { s.accept_from(l); });
  server->threads_.emplace_back([&s = *server] { s.watch(); });
  return server;
}

Server::~Server() {
  stop_ = true;
  for (const auto& listener : listeners_) listener->shut();
  for (std::thread& thread : threads_) thread.join();
  reap(true);
}

std::vector<std::string> Server::endpoints() const {
  std::vector<std::string> out;
  for (const auto& listener : listeners_) out.push_back(listener->endpoint());
  return out;
}

void Server::accept_from(Listener& listener) {
  while (!stop_) {
    auto transport = listener.accept(kForever);
    if (!transport && transport.code() == Code::kInvalid) return;  // shut down
    if (!transport) {
      log_line(LogLevel::kWarn, "serve: %s", transport.error().text);
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      continue;
    }
    std::scoped_lock lock(slots_lock_);
    if (slots_.size() >= options_.max_peers) {
      turn_away(std::move(transport.value()));
      continue;
    }
    auto slot = std::make_unique<Slot>();
    slot->raw = std::move(transport.value());
    Slot& at = *slot;
    slots_.push_back(std::move(slot));
    at.thread = std::thread([this, &at] { serve(at); });
  }
}

// The device waits for the answer to its first request, which is number 1.
void Server::turn_away(std::unique_ptr<Transport> transport) {
  ++counters_.refused_peers;
  if (options_.secure) return;  // it would not understand
  wire::Channel channel(std::move(transport), *clock_);
  wire::HelloReply reply;
  reply.code = to_abi(Code::kNotReady);
  reply.text.assign("the host has as many connections as it takes (max_peers)");
  channel.send(reply, {1, 0, 0, 0}, {}, clock_->now_ns());
}

void Server::serve(Slot& slot) {
  std::unique_ptr<Transport> transport;
  {
    std::scoped_lock lock(slot.lock);
    transport = std::move(slot.raw);
  }
  if (options_.secure) {
    const std::string peer = transport->facts().peer;
    auto secured = options_.secure(std::move(transport), clock_->now_ns() + kSecureNs);
    if (!secured) {
      ++counters_.refused_peers;
      log_line(LogLevel::kWarn, "serve: %s was turned away: %s", peer.c_str(),
               secured.error().text);
      slot.done = true;
      return;
    }
    transport = std::move(secured.value());
  }
  auto made = std::make_unique<Peer>(std::move(transport), core_);
  Peer& peer = *made;
  {
    std::scoped_lock lock(slot.lock);
    slot.peer = std::move(made);
  }
  while (!stop_ && peer.pump(clock_->now_ns() + kPumpNs)) {
  }
  std::scoped_lock lock(slot.lock);
  slot.peer.reset();
  slot.done = true;
}

void Server::watch() {
  while (!stop_) {
    std::this_thread::sleep_for(kWatchPause);
    {
      std::scoped_lock lock(slots_lock_);
      for (const auto& slot : slots_) {
        std::scoped_lock peer_lock(slot->lock);
        if (slot->peer && slot->peer->busy()) slot->peer->pump_while_busy();
      }
    }
    reap(false);
  }
}

void Server::reap(bool all) {
  std::list<std::unique_ptr<Slot>> over;
  {
    std::scoped_lock lock(slots_lock_);
    for (auto it = slots_.begin(); it != slots_.end();) {
      const auto next = std::next(it);
      if (all) {
        std::scoped_lock peer_lock((*it)->lock);
        if ((*it)->peer) (*it)->peer->shut();
      }
      if (all || (*it)->done) over.splice(over.end(), slots_, it);
      it = next;
    }
  }
  for (const auto& slot : over) slot->thread.join();
}

std::string Server::json() const {
  std::string peers;
  {
    std::unique_lock lock(slots_lock_, std::try_to_lock);
    if (lock.owns_lock())
      for (const auto& slot : slots_) {
        std::unique_lock peer_lock(slot->lock, std::try_to_lock);
        if (!peer_lock.owns_lock() || !slot->peer || peers.size() > 40000) continue;
        peers += (peers.empty() ? "" : ",") + slot->peer->json();
      }
  }
  return "{\"name\":" + json_text(options_.name) +
         ",\"uptime_ms\":" + std::to_string((clock_->now_ns() - started_ns_) / 1'000'000) +
         ",\"take_overs\":" + std::to_string(models_->n_take_overs()) +
         ",\"models\":" + models_->json() + ",\"peers\":[" + peers + "]}";
}

}  // namespace outrider::link
