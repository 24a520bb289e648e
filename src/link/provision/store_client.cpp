#include "link/provision/store_client.h"

#include "base/printable.h"

namespace outrider::link {

using wire::Cause;
using wire::Got;

namespace {

Error lost(Cause cause, std::string_view text) {
  return make_error(Code::kFailed, "%s: %s", wire::cause_name(cause), printable(text, 300).c_str());
}

Error late(const char* what) {
  return make_error(Code::kNotReady, "%s: %s", wire::cause_name(Cause::kDeadline), what);
}

// A host's error with its own code and words.
template <class M>
Error refusal(const M& reply) {
  const bool known = reply.code < 0 && reply.code >= to_abi(Code::kFailed);
  return make_error(known ? static_cast<Code>(reply.code) : Code::kFailed, "%s",
                    printable(reply.text.view(), 400).c_str());
}

}  // namespace

template <class M>
Result<void> StoreClient::send_one(const M& message, uint64_t request_id,
                                   std::span<const std::byte> payload, int64_t deadline_ns) {
  refused_ = false;
  const Io io = connection_.channel().send(message, {request_id, 0, 0, 0},
                                           {&payload, payload.empty() ? 0u : 1u}, deadline_ns);
  if (io == Io::kDone) return {};
  if (io == Io::kLate) return late("the host takes nothing");
  return lost(wire::cause_of(io), io_name(io));
}

Result<void> StoreClient::send(const wire::StorePush& push, uint64_t request_id,
                               int64_t deadline_ns) {
  return send_one(push, request_id, {}, deadline_ns);
}
Result<void> StoreClient::send(const wire::StoreChunk& chunk, std::span<const std::byte> payload,
                               int64_t deadline_ns) {
  return send_one(chunk, 0, payload, deadline_ns);
}
Result<void> StoreClient::send(const wire::StoreEnd& end, uint64_t request_id,
                               int64_t deadline_ns) {
  return send_one(end, request_id, {}, deadline_ns);
}

Error StoreClient::fault(const wire::Incoming& in) {
  wire::Fault fault;
  if (!wire::decode(in.body, fault)) return lost(Cause::kProtocol, "a broken FAULT");
  refused_ = true;
  return refusal(fault);
}

template <class M>
Result<void> StoreClient::receive_one(M& out, int64_t deadline_ns) {
  for (;;) {
    wire::Incoming in;
    const Got got = connection_.channel().receive(in, nullptr, deadline_ns);
    if (got == Got::kLate) return late("the host says nothing");
    if (got == Got::kLost) return lost(wire::cause_of(in.io), io_name(in.io));
    if (got == Got::kCorrupted) return lost(Cause::kCorrupted, "an answer was damaged on its way");
    if (got == Got::kRules) return lost(Cause::kProtocol, "an answer breaks the protocol");
    if (in.header.type == wire::type_of<wire::Fault>()) return fault(in);
    if (in.header.type == wire::type_of<wire::Bye>()) {
      wire::Bye bye;
      if (!wire::decode(in.body, bye)) return lost(Cause::kProtocol, "a broken BYE");
      return lost(static_cast<Cause>(bye.cause), bye.text.view());
    }
    if (in.header.type != wire::type_of<M>()) continue;
    if (auto read = wire::decode(in.body, out); !read)
      return lost(Cause::kProtocol, read.error().text);
    return {};
  }
}

Result<wire::StoreState> StoreClient::receive(int64_t deadline_ns) {
  wire::StoreState state;
  OUTRIDER_TRY(receive_one(state, deadline_ns));
  refused_ = state.code != 0;
  return state;
}

Result<wire::StoreListReply> StoreClient::list(int64_t deadline_ns) {
  OUTRIDER_TRY(send_one(wire::StoreList(), next_request(), {}, deadline_ns));
  wire::StoreListReply reply;
  OUTRIDER_TRY(receive_one(reply, deadline_ns));
  refused_ = reply.code != 0;
  if (refused_) return refusal(reply);
  return reply;
}

Result<void> StoreClient::remove(std::string_view sha256, int64_t deadline_ns) {
  wire::StoreRemove remove;
  remove.sha256.assign(sha256);
  OUTRIDER_TRY(send_one(remove, next_request(), {}, deadline_ns));
  wire::Answer reply;
  OUTRIDER_TRY(receive_one(reply, deadline_ns));
  refused_ = reply.code != 0;
  if (refused_) return refusal(reply);
  return {};
}

}  // namespace outrider::link
