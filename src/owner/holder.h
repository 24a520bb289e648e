// What the owner holds for the whole drive and lends: a USB gadget or a listening socket.
#pragma once
#include <poll.h>

#include <array>
#include <functional>
#include <memory>
#include <string>

#include "link/transport/tcp.h"
#include "link/transport/usb/ffs_port.h"
#include "owner/borrow/protocol.h"

namespace outrider::owner {

struct Loan {
  Reply reply;
  std::array<int, kMaxDescriptors> descriptors{};  // the holder's own: copies travel
  size_t n_descriptors = 0;
};

struct Presence {
  bool here = false;     // a far end is at the cable now
  bool program = false;  // and its program opened the link, or dialled
  uint32_t speed_mbit_s = 0;
};

class Holder {
 public:
  virtual ~Holder() = default;
  // [setup] Builds and presents it. Errors: kDevice and others: try again later.
  virtual Result<void> open() = 0;
  virtual void close() = 0;
  virtual bool opened() const = 0;
  // Errors: kNotReady (try again soon), kDevice.
  virtual Result<Loan> lend() = 0;
  // The borrower is gone, however: nothing of its session may reach the next one.
  virtual void take_back(int64_t now_ns) = 0;
  // ... that did nothing with it and said so: it may stay where it is.
  virtual void returned_unused(const Request& seen) = 0;
  virtual Result<void> bounce(int64_t now_ns) = 0;
  // Every half second at least, and when descriptor() is readable.
  virtual void step(int64_t now_ns, bool lent) = 0;
  virtual Presence presence() = 0;
  virtual int descriptor() const { return -1; }  // to be polled while it is not lent
};

// The gadget, its ep0 and its place on the bus.
class UsbHolder final : public Holder {
 public:
  using OpenPort = std::function<Result<std::unique_ptr<link::usb::LendablePort>>(
      const link::usb::GadgetPlace&)>;
  // `open_port`: open_ffs_port, or a double.
  UsbHolder(link::usb::SetupSystem& setup, link::usb::GadgetSettings settings, std::string serial,
            OpenPort open_port);
  ~UsbHolder() override { close(); }
  Result<void> open() override;
  void close() override;
  bool opened() const override { return port_ != nullptr; }
  Result<Loan> lend() override;
  void take_back(int64_t now_ns) override;
  void returned_unused(const Request& seen) override;
  Result<void> bounce(int64_t now_ns) override;
  void step(int64_t now_ns, bool lent) override;
  Presence presence() override;
  int descriptor() const override;

 private:
  void get_on_bus(int64_t now_ns);
  bool controller_says(const char* state);
  link::usb::SetupSystem& setup_;
  const link::usb::GadgetSettings settings_;
  const std::string serial_;
  const OpenPort open_port_;
  std::unique_ptr<link::usb::LendablePort> port_;
  link::usb::GadgetPlace place_;
  bool on_bus_ = false, told_ = false;
  int64_t back_ns_ = 0;  // not on the bus before this
};

// The socket that a far end dials. While it is not lent the newest dial is held, so that a far end
// that left is seen to have left; a borrower gets it.
class TcpHolder final : public Holder {
 public:
  explicit TcpHolder(link::Endpoint endpoint) : endpoint_(std::move(endpoint)) {}
  Result<void> open() override;
  void close() override { socket_ = {}, dial_ = {}; }
  bool opened() const override { return bool(socket_.fd); }
  Result<Loan> lend() override;
  void take_back(int64_t now_ns) override;
  void returned_unused(const Request&) override {}
  Result<void> bounce(int64_t now_ns) override;
  void step(int64_t now_ns, bool lent) override;
  Presence presence() override;
  int descriptor() const override { return socket_.fd.get(); }
  const std::string& endpoint() const { return socket_.endpoint; }

 private:
  void accept_dials();
  bool dial_lives();
  const link::Endpoint endpoint_;
  link::TcpSocket socket_;
  link::Fd dial_;
};

}  // namespace outrider::owner
