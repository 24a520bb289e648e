#include "link_support.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "link/secure/secure.h"

namespace outrider::cli_test {
namespace fs = std::filesystem;

Folder::Folder(bool in_memory)
    : dir_(in_memory ? test::TempDir::Medium::kMemory : test::TempDir::Medium::kDisk) {}

uint16_t port_of(const std::string& endpoint) {
  return static_cast<uint16_t>(std::stoi(endpoint.substr(endpoint.rfind(':') + 1)));
}

// ---- the proxy ---------------------------------------------------------------------------------

namespace {

sockaddr_in loopback(uint16_t port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

void end(int fd, bool reset) {
  const linger now = {1, 0};
  if (reset) ::setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
  ::close(fd);
}

bool write_all(int fd, const char* bytes, size_t n) {
  while (n > 0) {
    const ssize_t sent = ::send(fd, bytes, n, MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes += sent;
    n -= static_cast<size_t>(sent);
  }
  return true;
}

}  // namespace

CutProxy::CutProxy(uint16_t host_port) : host_port_(host_port) {
  listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = loopback(0);
  socklen_t size = sizeof address;
  EXPECT_EQ(::bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  EXPECT_EQ(::listen(listener_, 16), 0);
  EXPECT_EQ(::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size), 0);
  port_ = ntohs(address.sin_port);
  acceptor_ = std::thread([this] { accept_all(); });
}

CutProxy::~CutProxy() {
  stop_ = true;
  acceptor_.join();
  for (std::thread& thread : threads_) thread.join();
  ::close(listener_);
}

void CutProxy::cut(From from, uint64_t after_bytes, bool reset, bool surely) {
  std::scoped_lock lock(lock_);
  cuts_.push_back({from, after_bytes, reset, surely});
}

void CutProxy::accept_all() {
  while (!stop_) {
    pollfd ready = {listener_, POLLIN, 0};
    if (::poll(&ready, 1, 20) <= 0) continue;
    const int device = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (device < 0) continue;
    ++n_connections_;
    Cut cut;
    std::scoped_lock lock(lock_);
    if (!cuts_.empty()) {
      cut = cuts_.front();
      cuts_.erase(cuts_.begin());
    }
    threads_.emplace_back([this, device, cut] { pass(device, cut); });
  }
}

void CutProxy::pass(int device, const Cut& cut) {
  const int host = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = loopback(host_port_);
  const int on = 1;
  for (const int fd : {device, host}) ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  bool alive = ::connect(host, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  uint64_t left = cut.after_bytes;
  while (alive && !stop_ && left > 0) {
    std::array<pollfd, 2> ready = {{{device, POLLIN, 0}, {host, POLLIN, 0}}};
    if (::poll(ready.data(), 2, 20) <= 0) continue;
    for (size_t side = 0; alive && side < 2 && left > 0; ++side) {
      if (ready[side].revents == 0) continue;
      const bool counts = (side == 0) == (cut.from == From::kDevice);
      char buffer[16 << 10];
      const size_t most = counts ? std::min<uint64_t>(left, sizeof buffer) : sizeof buffer;
      const ssize_t n = ::recv(side == 0 ? device : host, buffer, most, 0);
      alive = n > 0 && write_all(side == 0 ? host : device, buffer, static_cast<size_t>(n));
      if (counts && alive) left -= static_cast<uint64_t>(n);
    }
  }
  if (cut.surely && left > 0) {
    std::scoped_lock lock(lock_);
    cuts_.insert(cuts_.begin(), cut);
  }
  end(device, cut.reset);
  end(host, cut.reset);
}

// ---- host and device ---------------------------------------------------------------------------

Result<std::unique_ptr<link::ModelSource>> no_source(const store::Lease&) {
  return make_error(Code::kUnsupported, "nothing is opened here");
}

Host::Host(const std::string& folder, const store::Limits& limits, link::MakeSource make,
           link::ModelsLimits models, const std::string& key_file) {
  auto opened = store::Store::open(folder, limits);
  EXPECT_GOOD(opened);
  store = std::make_shared<store::Store>(std::move(opened.value()));
  auto resident = std::make_unique<link::Models>(models, clock);
  resident->set_catalog(std::make_unique<link::StoredModels>(*store, std::move(make)));
  link::ServerOptions options;
  options.listen = {tcp(0)};
  options.store = store;
  if (!key_file.empty()) {
    auto key = link::read_key_file(key_file);
    EXPECT_GOOD(key);
    options.secure = [key = key.value()](std::unique_ptr<link::Transport> plain,
                                         int64_t deadline_ns) {
      return link::secure_as_host(std::move(plain), key, deadline_ns);
    };
  }
  auto started = link::Server::start(options, std::move(resident), clock);
  EXPECT_GOOD(started);
  server = std::move(started.value());
}

Client::Client(uint16_t port) {
  auto dialer = cli::make_dialer(tcp(port));
  EXPECT_GOOD(dialer);
  auto made = cli::connect_store(*dialer.value(), clock, soon());
  EXPECT_GOOD(made);
  if (!made) return;
  connection = std::move(made.value());
  store.emplace(*connection);
}

link::wire::StoreState Client::begin(const store::Model& model) {
  link::wire::StorePush push;
  push.sha256.assign(model.info.sha256);
  push.n_bytes = model.info.n_bytes;
  push.name.assign(model.info.name);
  push.role = static_cast<uint8_t>(model.info.role);
  EXPECT_GOOD(store->send(push, store->next_request(), soon()));
  link::wire::StoreState state;
  do {
    auto next = store->receive(soon());
    EXPECT_GOOD(next);
    if (!next) return state;
    state = next.value();
  } while (state.is_answer == 0);
  return state;
}

Result<void> Client::chunk(const store::Model& model, uint64_t from, uint64_t n_bytes) {
  OUTRIDER_TRY(store->send(link::wire::StoreChunk{from},
                           store::bytes_of(model.bytes, from, n_bytes), soon()));
  auto state = store->receive(soon());
  if (!state) return state.error();
  if (state.value().code == 0) return {};
  return make_error(static_cast<Code>(state.value().code), "%.*s",
                    static_cast<int>(state.value().text.n_bytes), state.value().text.bytes.data());
}

link::wire::StoreState Client::end(uint64_t n_bytes) {
  EXPECT_GOOD(store->send(link::wire::StoreEnd{n_bytes}, store->next_request(), soon()));
  link::wire::StoreState state;
  do {
    auto next = store->receive(soon());
    EXPECT_GOOD(next);
    if (!next) return state;
    state = next.value();
  } while (state.is_answer == 0);
  return state;
}

std::string key_file(const Folder& folder) {
  const std::string path = folder.at("link.key");
  std::ofstream(path) << "link" << std::string(32, 'k');
  fs::permissions(path, fs::perms::owner_read | fs::perms::owner_write);
  return path;
}

Push push_path(const std::string& path, uint16_t port, int64_t timeout_ns,
               const std::string& key_file) {
  static constinit const MonotonicClock kClock;
  Push push;
  const cli::TellPush quiet = [](const cli::PushedFile&, const char*, uint64_t) {};
  auto dialer = cli::make_dialer(tcp(port), key_file);
  auto plan = cli::plan_push(path, "", "");
  EXPECT_GOOD(plan);
  if (!plan || !dialer) return push;
  push.plan = std::move(plan.value());
  push.result = cli::hash_files(push.plan, quiet);
  if (push.result)
    push.result =
        cli::push_files(push.plan, *dialer.value(), kClock, timeout_ns, quiet, push.outcome);
  return push;
}

std::string content(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

bool wait_for(const std::function<bool()>& done) {
  for (int i = 0; i < 1000; ++i) {
    if (done()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

}  // namespace outrider::cli_test
