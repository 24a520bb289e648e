// The link server: listeners, one thread per peer, one that looks after peers whose thread is
// inside a run. A front end of host: it serves any runtime.
#pragma once
#include <functional>
#include <list>
#include <thread>

#include "link/server/peer.h"

namespace outrider::link {

struct ServerOptions {
  std::vector<std::string> listen;  // endpoints; empty: tcp://127.0.0.1:5610
  uint32_t max_peers = 32;
  ModelsLimits models;
  std::string name = "host";
  // Makes a secure channel of an accepted stream, or refuses it. Without one everything is plain,
  // and only endpoints that no other machine reaches are listened on unless `plaintext` is set.
  std::function<Result<std::unique_ptr<Transport>>(std::unique_ptr<Transport>, int64_t deadline_ns)>
      secure;
  bool plaintext = false;
  // Told when a device asks this host to power off; empty: such a wish is refused.
  std::function<Result<void>(std::string_view device, std::string_view reason)> power_off;
  std::shared_ptr<store::Store> store;  // of models that devices push; without one they cannot
  Manage manage = Manage::kAuto;        // who may push and remove
};

inline constexpr const char* kDefaultListen = "tcp://127.0.0.1:5610";

class Server {
 public:
  // [setup] Listens; models are added by the caller first. Errors: those of listen_transport;
  // kInvalid for an endpoint that others reach without key or plaintext.
  static Result<std::unique_ptr<Server>> start(const ServerOptions& options,
                                               std::unique_ptr<Models> models, const Clock& clock);
  ~Server();  // ends every connection, joins every thread

  std::vector<std::string> endpoints() const;
  const ServerCounters& counters() const { return counters_; }
  Models& models() { return *models_; }
  std::string json() const;

 private:
  // One connection. The peer goes as soon as it is over; the thread is joined by the watcher.
  struct Slot {
    std::mutex lock;  // of peer: it may go while the watcher looks
    std::unique_ptr<Peer> peer;
    std::unique_ptr<Transport> raw;  // until it has proved itself
    std::thread thread;
    std::atomic<bool> done{false};
  };

  Server(const ServerOptions& options, std::unique_ptr<Models> models, const Clock& clock);
  void accept_from(Listener& listener);
  void serve(Slot& slot);
  void watch();
  void reap(bool all);
  void turn_away(std::unique_ptr<Transport> transport);

  ServerOptions options_;
  std::unique_ptr<Models> models_;
  const Clock* clock_;
  ServerCounters counters_;
  ServerCore core_;
  int64_t started_ns_;
  std::vector<std::unique_ptr<Listener>> listeners_;
  std::atomic<bool> stop_{false};
  mutable std::mutex slots_lock_;
  std::list<std::unique_ptr<Slot>> slots_;
  std::vector<std::thread> threads_;  // acceptors, watcher
};

}  // namespace outrider::link
