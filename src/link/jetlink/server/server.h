// The Jetlink server on TCP. One client at a time: a newcomer of version 3 interrupts the served
// one and is served after it ended, one of version 2 waits. What a newcomer is, its first header
// says: a connection that sends none disturbs nobody.
#pragma once
#include <condition_variable>
#include <deque>
#include <string>
#include <thread>

#include "link/jetlink/server/session.h"
#include "link/transport/tcp.h"

namespace outrider::link::jetlink {

struct ServerOptions {
  Endpoint listen;
  uint16_t version = 0;  // 0: 2 and 3 by the first header; else this one alone
  SessionOptions session;
  // Where frame datagrams are offered: on the cable (one end is 192.168.60.1), or everywhere.
  bool datagrams_everywhere = false;
  // The accelerator is gone: end the process with status 3.
  std::function<void()> fatal;
};

inline constexpr size_t kMaxWaiting = 16;
inline constexpr int64_t kFirstHeaderNs = 10'000'000'000;  // a newcomer that says nothing goes
inline constexpr const char* kCableAddress = "192.168.60.1";

class Server {
 public:
  // [setup] Errors: those of bind_tcp.
  static Result<std::unique_ptr<Server>> start(const ServerOptions& options, Host& host,
                                               const Clock& clock);
  ~Server();  // ends the served connection, joins every thread

  const std::string& endpoint() const { return endpoint_; }
  bool local_only() const { return local_only_; }
  uint64_t takeovers() const { return takeovers_; }

 private:
  // A connection before it is served.
  struct Newcomer {
    std::unique_ptr<Transport> transport;
    int fd = -1;  // of the transport: to wait on
    std::array<std::byte, kHeaderBytes> head{};
    size_t n_head = 0;
    int64_t begun_ns = 0;
    uint16_t version = 0;  // 0: the header is not complete
    bool cable = false;
    std::string peer_address;
  };

  Server(const ServerOptions& options, Host& host, const Clock& clock);
  void accept_all();
  void accept_one();
  bool hear(Newcomer& newcomer);
  void place(std::unique_ptr<Newcomer> newcomer);
  void serve_all();
  void serve(Newcomer& newcomer);

  ServerOptions options_;
  Host* host_;
  const Clock* clock_;
  Fd listening_, wake_;
  std::string endpoint_;
  bool local_only_ = false;
  std::atomic<bool> stop_{false};
  std::atomic<uint64_t> takeovers_{0};

  std::vector<std::unique_ptr<Newcomer>> silent_;  // of the acceptor alone

  std::mutex lock_;  // of what follows
  std::condition_variable came_;
  std::deque<std::unique_ptr<Newcomer>> ready_;  // version 3 first
  Session* served_ = nullptr;
  std::thread acceptor_, server_;
};

}  // namespace outrider::link::jetlink
