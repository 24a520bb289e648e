#include "link/client/connection.h"

#include "base/printable.h"

namespace outrider::link {

using wire::Cause;
using wire::Got;

Cause cause_of_dial(Code code) {
  switch (code) {
    case Code::kOk:
      return Cause::kNone;
    case Code::kNotFound:
      return Cause::kHost;
    case Code::kNotReady:
      return Cause::kDeadline;
    case Code::kDevice:
      return Cause::kCable;
    case Code::kFailed:
      return Cause::kSecurity;
    default:
      return Cause::kProtocol;
  }
}

LinkError link_error(Cause cause, const char* text) {
  return {cause, make_error(Code::kDevice, "link: %s: %s", wire::cause_name(cause), text)};
}

std::unique_ptr<Connection> Connection::make(Dialer& dialer, const Clock& clock,
                                             const DeviceName& name, int64_t deadline_ns,
                                             LinkError& why) {
  auto transport = dialer.dial(deadline_ns);
  if (!transport) {
    why = link_error(cause_of_dial(transport.code()), transport.error().text);
    return nullptr;
  }
  auto connection = std::make_unique<Connection>(std::move(transport.value()), clock);
  if (!connection->say_hello(name, deadline_ns, why)) return nullptr;
  return connection;
}

bool Connection::say_hello(const DeviceName& name, int64_t deadline_ns, LinkError& why) {
  wire::Hello hello;
  hello.oldest_version = name.oldest_version;
  hello.newest_version = name.newest_version;
  hello.features = name.features;
  hello.client_id = name.client_id;
  hello.name.assign(name.name);
  hello.software.assign("outrider");
  const uint64_t id = next_request();
  const Io io = channel_.send(hello, {id, 0, 0, wire::kWantAnswer}, {}, deadline_ns);
  wire::Incoming in;
  const Got got = io == Io::kDone ? wait(id, in, nullptr, nullptr, deadline_ns) : Got::kLost;
  const char* peer = channel_.facts().peer;
  if (got == Got::kLate || io == Io::kLate) {
    why = link_error(Cause::kDeadline, "the host did not answer the hello in time");
    return false;
  }
  if (got == Got::kLost) {
    const Io ended = io == Io::kDone ? in.io : io;
    why.cause = wire::cause_of(ended);
    why.error = make_error(Code::kDevice,
                           "link: %s: %s ended the connection during the hello (%s); does it want "
                           "a key, or is it no outrider host?",
                           wire::cause_name(why.cause), peer, io_name(ended));
    return false;
  }
  if (got != Got::kMessage || in.header.type != wire::type_of<wire::HelloReply>() ||
      !wire::decode(in.body, hello_)) {
    why = link_error(Cause::kProtocol, "the answer to the hello is none of this protocol");
    return false;
  }
  if (hello_.code != 0) {
    why.cause = hello_.code == to_abi(Code::kNotReady) ? Cause::kBusy : Cause::kProtocol;
    why.error = make_error(Code::kDevice, "link: %s: %s: %s", wire::cause_name(why.cause), peer,
                           printable(hello_.text.view(), 300).c_str());
    return false;
  }
  if (hello_.version < name.oldest_version || hello_.version > name.newest_version) {
    why = link_error(Cause::kProtocol, "the host chose a version that was not offered");
    return false;
  }
  hello_.features &= name.features;
  channel_.set_version(hello_.version);
  return true;
}

Got Connection::wait(uint64_t request_id, wire::Incoming& out, wire::PayloadPlace* place,
                     Others* others, int64_t deadline_ns) {
  for (;;) {
    const Got got = channel_.receive(out, place, deadline_ns);
    if (got != Got::kMessage && got != Got::kCorrupted) return got;
    const bool of_epoch = epoch_ == 0 || out.header.epoch == epoch_;
    if (out.header.request_id == request_id && of_epoch) return got;
    if (others != nullptr && got == Got::kMessage) others->other(out);
  }
}

}  // namespace outrider::link
