// A device that says what it is told, message by message, and hears what the host answers.
#pragma once
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "link/client/connection.h"
#include "link/host_here.h"
#include "link/transport/tcp.h"
#include "support/own_time.h"

namespace outrider::link::here {

struct Said {
  wire::Got got = wire::Got::kLate;
  uint16_t type = 0;
  int32_t code = -99;
  std::string text;
  std::vector<std::byte> body;
  int64_t took_ns = 0, own_ns = 0;  // own: less what the machine withheld
  template <class M>
  bool is() const {
    return got == wire::Got::kMessage && type == wire::type_of<M>();
  }
};

class RawDevice {
 public:
  RawDevice(const std::string& endpoint, const std::string& name, uint64_t client_id) {
    class Dial final : public Dialer {
     public:
      explicit Dial(std::string to) : to_(std::move(to)) {}
      Result<std::unique_ptr<Transport>> dial(int64_t deadline_ns) override {
        return connect_transport(parse_endpoint(to_).value(), deadline_ns);
      }
      std::string to_;
    } dialer(endpoint);
    LinkError why;
    DeviceName who;
    who.client_id = client_id;
    who.name = name;
    connection_ = Connection::make(dialer, clock_here(), who, due(), why);
    EXPECT_NE(connection_, nullptr) << why.error.text;
  }

  static int64_t due(int64_t ns = 10 * kSecond) { return clock_here().now_ns() + ns; }
  wire::Channel& channel() { return connection_->channel(); }
  uint64_t next_request() { return connection_->next_request(); }

  // Waits for the answer to this message. `with_epoch`: of the header.
  template <class M>
  Said ask(const M& message, uint32_t with_epoch, std::span<const std::byte> payload = {}) {
    own_.restart();
    const int64_t begin = clock_here().now_ns();
    const uint64_t id = tell(message, with_epoch, payload, wire::kWantAnswer);
    Said said;
    wire::Incoming in;
    said.got = connection_->wait(id, in, nullptr, nullptr, due());
    said.took_ns = clock_here().now_ns() - begin;
    said.own_ns = own_.ns();
    if (said.got == wire::Got::kMessage) keep(in, said);
    return said;
  }
  // Its request number.
  template <class M>
  uint64_t tell(const M& message, uint32_t with_epoch, std::span<const std::byte> payload = {},
                uint8_t flags = 0) {
    const uint64_t id = connection_->next_request();
    const Piece piece = payload;
    channel().send(message, {id, with_epoch, 0, flags}, {&piece, payload.empty() ? 0u : 1u}, due());
    return id;
  }
  // Asks for the model "default". 0: it is this device's now, with the epoch in `epoch`.
  int32_t open(wire::TakeOver take_over = wire::TakeOver::kWhenSilent,
               wire::Role role = wire::Role::kOwner) {
    wire::Open open;
    open.model.assign("default");
    open.take_over = static_cast<uint8_t>(take_over);
    open.role = static_cast<uint8_t>(role);
    opened = ask(open, 0);
    wire::OpenReply reply;
    if (opened.is<wire::OpenReply>() && wire::decode(opened.body, reply) && reply.code == 0)
      epoch = reply.epoch;
    return opened.code;
  }
  Said step() {
    wire::Run run;
    run.kind = 1;
    return ask(run, epoch);
  }
  // A text for port 1, the scripted provider's prompt.
  Said prompt(std::string_view text, uint32_t with_epoch) {
    wire::Input input;
    input.port = 1;
    return ask(input, with_epoch, std::as_bytes(std::span(text)));
  }

  uint32_t epoch = 0;
  Said opened;

 private:
  test::OwnTime own_;
  template <class M>
  static void take(const wire::Incoming& in, Said& said) {
    M message;
    if (in.header.type != wire::type_of<M>() || !wire::decode(in.body, message)) return;
    said.code = message.code;
    said.text = message.text.view();
  }
  static void keep(const wire::Incoming& in, Said& said) {
    said.type = in.header.type;
    said.body.assign(in.body.begin(), in.body.end());
    take<wire::OpenReply>(in, said);
    take<wire::RunReply>(in, said);
    take<wire::ReadReply>(in, said);
    take<wire::Answer>(in, said);
    take<wire::Fault>(in, said);
  }

  std::unique_ptr<Connection> connection_;
};

}  // namespace outrider::link::here
