// The device's end of one connection: hello, request numbers, waiting for the answer that belongs
// to a request. Also what `outrider link check` and `outrider top` use, without a runtime.
#pragma once
#include <memory>
#include <string>

#include "link/wire/channel.h"

namespace outrider::link {

// A failure and what it says about the link.
struct LinkError {
  wire::Cause cause = wire::Cause::kNone;
  Error error;
};

// Makes a stream to the host, ready for HELLO (a secure channel has proved itself by then).
class Dialer {
 public:
  virtual ~Dialer() = default;
  // Errors: those of connect_transport; kFailed: the host could not prove that it has the key.
  virtual Result<std::unique_ptr<Transport>> dial(int64_t deadline_ns) = 0;
};

// What the device says about itself.
struct DeviceName {
  uint64_t client_id = 0;
  std::string name;
  uint16_t oldest_version = wire::kOldestVersion, newest_version = wire::kVersion;
  uint64_t features = wire::kFeatures;
};

class Connection {
 public:
  // [setup] Dials and says hello. `why` is set when nullptr is returned.
  static std::unique_ptr<Connection> make(Dialer& dialer, const Clock& clock,
                                          const DeviceName& name, int64_t deadline_ns,
                                          LinkError& why);

  wire::Channel& channel() { return channel_; }
  const wire::HelloReply& host() const { return hello_; }
  bool has(uint64_t feature) const { return (hello_.features & feature) != 0; }
  uint64_t next_request() { return ++request_; }
  // From here on an answer counts only with this owner epoch.
  void set_epoch(uint32_t epoch) { epoch_ = epoch; }

  // [hot] Takes messages until the answer of `request_id` is there. Others go to `others`
  // (nullptr: dropped; answers of older requests are counted and dropped by it).
  class Others {
   public:
    virtual void other(const wire::Incoming& message) = 0;

   protected:
    ~Others() = default;
  };
  wire::Got wait(uint64_t request_id, wire::Incoming& out, wire::PayloadPlace* place,
                 Others* others, int64_t deadline_ns);

  Connection(std::unique_ptr<Transport> transport, const Clock& clock)
      : channel_(std::move(transport), clock) {}

 private:
  bool say_hello(const DeviceName& name, int64_t deadline_ns, LinkError& why);

  wire::Channel channel_;
  wire::HelloReply hello_;
  uint64_t request_ = 0;
  uint32_t epoch_ = 0;
};

// [any] Why a dial failed, as a cause.
wire::Cause cause_of_dial(Code code);
// A LinkError with its cause in the text: "link: host gone: ...".
LinkError link_error(wire::Cause cause, const char* text);

}  // namespace outrider::link
