#include "link/faults/packet_cable.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace outrider::link::faults {
namespace {

constexpr const char* kName = "cable0";
constexpr size_t kMostPacketBytes = 1500, kMostQueuedBytes = 64 << 10;

ifreq request() {
  ifreq out = {};
  std::strncpy(out.ifr_name, kName, sizeof out.ifr_name - 1);
  return out;
}

void put_address(ifreq& out, const char* text) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  ::inet_pton(AF_INET, text, &address.sin_addr);
  std::memcpy(&out.ifr_addr, &address, sizeof address);
}

// Offset of the payload of a TCP packet over IPv4, 0 when it has none.
size_t payload_at(const std::vector<unsigned char>& p) {
  if (p.size() < 40 || p[0] >> 4 != 4 || p[9] != IPPROTO_TCP) return 0;
  const size_t ip = static_cast<size_t>(p[0] & 15) * 4;
  if (p.size() < ip + 20) return 0;
  const size_t at = ip + static_cast<size_t>(p[ip + 12] >> 4) * 4;
  return at < p.size() ? at : 0;
}

}  // namespace

// ---- a namespace -------------------------------------------------------------------------------

PacketCable::Place::Place(const char* address) {
  thread_ = std::thread([this, address] {
    begin(address);
    std::unique_lock lock(lock_);
    for (;;) {
      wake_.wait(lock, [this] { return stop_ || job_ != nullptr; });
      if (stop_) return;
      (*job_)();
      job_ = nullptr;
      wake_.notify_all();
    }
  });
  run([] {});  // once it is set up
}

PacketCable::Place::~Place() {
  {
    std::scoped_lock lock(lock_);
    stop_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void PacketCable::Place::begin(const char* address) {
  const auto fail = [&](const char* what) { why_not = std::string(what) + ": " + strerror(errno); };
  if (::unshare(CLONE_NEWNET) != 0) return fail("a network namespace");
  tun_ = Fd(::open("/dev/net/tun", O_RDWR | O_CLOEXEC | O_NONBLOCK));
  if (!tun_) return fail("/dev/net/tun");
  ifreq asked = request();
  asked.ifr_flags = IFF_TUN | IFF_NO_PI;
  if (::ioctl(tun_.get(), TUNSETIFF, &asked) != 0) return fail("TUNSETIFF");
  const Fd control(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  asked = request();
  put_address(asked, address);
  if (::ioctl(control.get(), SIOCSIFADDR, &asked) != 0) return fail("SIOCSIFADDR");
  put_address(asked, "255.255.255.0");
  if (::ioctl(control.get(), SIOCSIFNETMASK, &asked) != 0) return fail("SIOCSIFNETMASK");
  if (!set_up(true)) return fail("SIOCSIFFLAGS");
}

bool PacketCable::Place::set_up(bool up) {
  const Fd control(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq asked = request();
  if (::ioctl(control.get(), SIOCGIFFLAGS, &asked) != 0) return false;
  asked.ifr_flags = static_cast<short>(up ? asked.ifr_flags | IFF_UP : asked.ifr_flags & ~IFF_UP);
  return ::ioctl(control.get(), SIOCSIFFLAGS, &asked) == 0;
}

void PacketCable::Place::run(const std::function<void()>& job) {
  std::unique_lock lock(lock_);
  job_ = &job;
  wake_.notify_all();
  wake_.wait(lock, [this] { return job_ == nullptr; });
}

// ---- the cable ---------------------------------------------------------------------------------

std::unique_ptr<PacketCable> PacketCable::make(std::string& why_not, uint64_t seed) {
  std::unique_ptr<PacketCable> cable(new PacketCable(seed));
  cable->host_ = std::make_unique<Place>(kCableHost);
  cable->device_ = std::make_unique<Place>("10.77.0.2");
  why_not = !cable->host_->why_not.empty() ? cable->host_->why_not : cable->device_->why_not;
  if (!why_not.empty()) return nullptr;
  cable->thread_ = std::thread([c = cable.get()] { c->pass(); });
  return cable;
}

PacketCable::~PacketCable() {
  stop_ = true;
  if (thread_.joinable()) thread_.join();
}

void PacketCable::set(const PacketRules& forth, const PacketRules& back) {
  std::scoped_lock lock(lock_);
  forth_ = forth;
  back_ = back;
  forth_free_ns_ = back_free_ns_ = 0;
}

void PacketCable::pull(bool out) {
  at_device([&] { device_->set_up(!out); });
}

void PacketCable::take(int from, int to, const PacketRules& rules, int64_t& free_ns) {
  for (;;) {
    std::vector<unsigned char> bytes(kMostPacketBytes);
    const ssize_t n = ::read(from, bytes.data(), bytes.size());
    if (n <= 0) return;
    bytes.resize(static_cast<size_t>(n));
    const int64_t now = steady_now_ns();
    int64_t due = now + rules.delay_ns;
    if (rules.jitter_ns > 0)
      due += static_cast<int64_t>(draw_.below(static_cast<uint64_t>(rules.jitter_ns)));
    bool lost = rules.cut || happens(rules.loss);
    if (rules.bytes_per_s > 0 && !lost) {
      const auto costs = [&](size_t k) {
        return static_cast<int64_t>(k * 1'000'000'000 / rules.bytes_per_s);
      };
      lost = free_ns - now > costs(kMostQueuedBytes);
      if (!lost) {
        free_ns = std::max(free_ns, now) + costs(bytes.size());
        due = std::max(due, free_ns);
      }
    }
    if (lost) {
      ++n_lost_;
      continue;
    }
    if (const size_t at = payload_at(bytes); at > 0 && happens(rules.swapped)) {
      const size_t words = (bytes.size() - at) / 2;
      if (words >= 2 && at % 2 == 0) {
        const size_t a = at + 2 * draw_.below(words), b = at + 2 * draw_.below(words);
        std::swap_ranges(&bytes[a], &bytes[a] + 2, &bytes[b]);
        ++n_swapped_;
      }
    }
    const int copies = happens(rules.doubled) ? 2 : 1;
    for (int i = 0; i < copies; ++i) queue_.push({due, next_order_++, to, bytes});
  }
}

void PacketCable::pass() {
  while (!stop_) {
    const int host = host_->tun(), device = device_->tun();
    std::array<pollfd, 2> fds = {{{device, POLLIN, 0}, {host, POLLIN, 0}}};
    int64_t wait_ns = 5'000'000;
    if (!queue_.empty())
      wait_ns = std::clamp<int64_t>(queue_.top().due_ns - steady_now_ns(), 0, wait_ns);
    const timespec wait = {0, static_cast<long>(wait_ns)};
    ::ppoll(fds.data(), fds.size(), &wait, nullptr);
    {
      std::scoped_lock lock(lock_);
      take(device, host, forth_, forth_free_ns_);
      take(host, device, back_, back_free_ns_);
    }
    while (!queue_.empty() && queue_.top().due_ns <= steady_now_ns()) {
      const Packet& packet = queue_.top();
      // An interface that is down takes nothing: lost like on a cable that is out.
      const ssize_t n = ::write(packet.to, packet.bytes.data(), packet.bytes.size());
      ++(n > 0 ? n_passed_ : n_lost_);
      queue_.pop();
    }
  }
}

}  // namespace outrider::link::faults
