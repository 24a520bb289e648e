// Runs and outputs.
#include <algorithm>
#include <cstring>

#include "link/client/device.h"

namespace outrider::link {

using wire::Cause;
using wire::Got;

// ---- running -----------------------------------------------------------------------------------

Code Device::send_run(uint8_t kind, uint32_t executor_ref, int64_t deadline_ns) noexcept {
  for (size_t i = 0; i < ports_.size(); ++i)
    if (ports_[i].failed)
      return fail(Code::kInvalid,
                  "link: input %.*s did not reach the host; stage it again before a run",
                  static_cast<int>(runtime_.ports.items[i].name.n_bytes),
                  runtime_.ports.items[i].name.bytes.data());
  wire::Run run;
  run.kind = kind;
  run.executor_ref = executor_ref;
  run.budget_ns = static_cast<uint64_t>(config_.deadline_ns);
  run.push = connection_->has(wire::kFeaturePush) ? want_ : 0;
  run.n_inputs = n_inputs_;
  run_begin_ns_ = clock_->now_ns();
  run_request_ = connection_->next_request();
  wire::Channel& channel = connection_->channel();
  const Io io =
      channel.send(run, {run_request_, epoch_, captured_ns_, wire::kWantAnswer}, {}, deadline_ns);
  run_sent_ns_ = clock_->now_ns();
  if (io == Io::kLate) return too_late("sending the run");
  if (io != Io::kDone) return lost(wire::cause_of(io), "the connection ended before the run");
  run_open_ = true;
  return Code::kOk;
}

Code Device::finish_run(int64_t deadline_ns) noexcept {
  wire::Incoming in;
  const Got got = connection_->wait(run_request_, in, this, this, deadline_ns);
  run_open_ = false;
  if (!connected()) return Code::kDevice;  // `other` learned that it is lost
  if (got == Got::kLate) return too_late("the run");
  if (got == Got::kCorrupted)
    return fail(Code::kDevice, "link: corrupted: the answer to the run was damaged on its way");
  if (got != Got::kMessage) return lost_by(got, in, "the host ran");
  wire::Fault fault;
  if (in.header.type == wire::type_of<wire::Fault>() && wire::decode(in.body, fault))
    return refuse(fault.code, fault.text);
  if (in.header.type != wire::type_of<wire::RunReply>() || !wire::decode(in.body, run_reply_))
    return lost(Cause::kProtocol, "the answer to the run is none");
  note_times(in);
  counters_.replaced_inputs += run_reply_.n_replaced - std::min(n_replaced_, run_reply_.n_replaced);
  n_replaced_ = run_reply_.n_replaced;
  if (run_reply_.code != 0) return refuse(run_reply_.code, run_reply_.text);
  size_t at = 0;
  cached_.clear();
  for (const wire::Pushed& output : run_reply_.outputs.records()) {
    if (at + output.bytes > in.payload.size()) break;  // thrown away: it is read when asked for
    cached_.push_back({output.port, at, output.bytes});
    at += output.bytes;
  }
  outputs_ready_ = true;
  error_[0] = '\0';
  return Code::kOk;
}

// Every hop by our clock. Without a clock estimate the two ways are halves of what is left over.
void Device::note_times(const wire::Incoming& in) noexcept {
  const wire::ClockSync& sync = connection_->channel().clock_sync();
  const auto store = [](std::atomic<int64_t>& to, int64_t value) {
    to.store(std::max<int64_t>(value, 0), std::memory_order_relaxed);
  };
  const int64_t end = in.received_ns;
  store(counters_.ns_send, run_sent_ns_ - run_begin_ns_);
  store(counters_.ns_total, end - run_begin_ns_);
  store(counters_.ns_queue, run_reply_.started_ns - run_reply_.received_ns);
  store(counters_.ns_run, run_reply_.ended_ns - run_reply_.started_ns);
  store(counters_.ns_age, captured_ns_ > 0 ? end - captured_ns_ : 0);
  if (sync.known()) {
    store(counters_.ns_forth, sync.to_ours(run_reply_.received_ns) - run_begin_ns_);
    store(counters_.ns_back, end - sync.to_ours(run_reply_.ended_ns));
  }
}

Code Device::run_whole(uint8_t kind, uint32_t executor_ref) noexcept {
  outputs_ready_ = false;
  run_open_ = false;
  int64_t deadline_ns = 0;
  Code code = begin(deadline_ns);
  if (code == Code::kOk) {
    code = send_run(kind, executor_ref, deadline_ns);
    if (code == Code::kOk) code = finish_run(deadline_ns);
    give_token();
  }
  ++(code == Code::kOk ? counters_.runs : counters_.failed_runs);
  return code;
}

Code Device::send_step() noexcept {
  outputs_ready_ = false;
  run_open_ = false;
  int64_t deadline_ns = 0;
  Code code = begin(deadline_ns);
  if (code != Code::kOk) return code;
  code = send_run(1, 0, deadline_ns);
  give_token();
  return code;
}

Code Device::receive_step() noexcept {
  if (!run_open_ && connected())
    return fail(Code::kNotReady, "link: receive: nothing was sent since the last input or run");
  int64_t deadline_ns = 0;
  Code code = begin(deadline_ns);
  if (code == Code::kOk) {
    code = finish_run(deadline_ns);
    give_token();
  }
  ++(code == Code::kOk ? counters_.runs : counters_.failed_runs);
  return code;
}

Code Device::prepare(uint32_t graph, uint64_t key) noexcept {
  int64_t deadline_ns = 0;
  if (const Code code = begin(deadline_ns); code != Code::kOk) return code;
  wire::Prepare message;
  message.graph = graph;
  message.key = key;
  const uint64_t id = connection_->next_request();
  const Io io =
      connection_->channel().send(message, {id, epoch_, 0, wire::kWantAnswer}, {}, deadline_ns);
  Code code = Code::kOk;
  wire::Incoming in;
  wire::Answer answer;
  if (io == Io::kLate) {
    code = too_late("prepare");
  } else if (io != Io::kDone) {
    code = lost(wire::cause_of(io), "the connection ended before prepare");
  } else if (const Got got = connection_->wait(id, in, nullptr, this, deadline_ns);
             got != Got::kMessage) {
    code = got == Got::kLate        ? too_late("prepare")
           : got == Got::kCorrupted ? fail(Code::kDevice, "link: corrupted: answer to prepare")
                                    : lost_by(got, in, "prepare was answered");
  } else if (in.header.type != wire::type_of<wire::Answer>() || !wire::decode(in.body, answer)) {
    code = lost(Cause::kProtocol, "the answer to prepare is none");
  } else if (answer.code != 0) {
    code = refuse(answer.code, answer.text);
  }
  give_token();
  return code;
}

// ---- outputs -----------------------------------------------------------------------------------

Code Device::get_output(uint32_t port, void* out, uint64_t capacity, uint64_t* written) noexcept {
  if (outputs_ready_ && out != nullptr && written != nullptr) {
    for (const Cached& cached : cached_) {
      if (cached.port != port || cached.bytes > capacity) continue;
      std::memcpy(out, cache_.data() + cached.at, cached.bytes);
      *written = cached.bytes;
      ++counters_.pushed_outputs;
      error_[0] = '\0';
      return Code::kOk;
    }
  }
  if (written != nullptr) *written = 0;
  int64_t deadline_ns = 0;
  if (const Code code = begin(deadline_ns); code != Code::kOk) return code;
  const Code code = read(port, out, capacity, written, deadline_ns);
  give_token();
  return code;
}

Code Device::read(uint32_t port, void* out, uint64_t capacity, uint64_t* written,
                  int64_t deadline_ns) noexcept {
  wire::Read message;
  message.port = port;
  message.capacity = capacity;
  message.null_out = out == nullptr;
  message.null_written = written == nullptr;
  wanted_request_ = connection_->next_request();
  read_into_ = out == nullptr || written == nullptr
                   ? std::span<std::byte>()
                   : std::span(static_cast<std::byte*>(out),
                               std::min<uint64_t>(capacity, wire::kMaxPayloadBytes));
  const Io io = connection_->channel().send(
      message, {wanted_request_, epoch_, 0, wire::kWantAnswer}, {}, deadline_ns);
  if (io == Io::kLate) return too_late("asking for an output");
  if (io != Io::kDone) return lost(wire::cause_of(io), "the connection ended before an output");
  wire::Incoming in;
  const Got got = connection_->wait(wanted_request_, in, this, this, deadline_ns);
  wanted_request_ = 0;  // a late answer finds no place
  if (got != Got::kMessage) connection_->channel().forget_place();
  if (!connected()) return Code::kDevice;
  if (got == Got::kLate) return too_late("an output");
  if (got == Got::kCorrupted) {  // what was written to the caller's memory is not to be trusted
    std::memset(read_into_.data(), 0, std::min<size_t>(read_into_.size(), in.header.payload_bytes));
    return fail(Code::kDevice, "link: corrupted: an output was damaged on its way");
  }
  if (got != Got::kMessage) return lost_by(got, in, "an output was read");
  wire::ReadReply reply;
  wire::Fault fault;
  if (in.header.type == wire::type_of<wire::Fault>() && wire::decode(in.body, fault))
    return refuse(fault.code, fault.text);
  if (in.header.type != wire::type_of<wire::ReadReply>() || !wire::decode(in.body, reply))
    return lost(Cause::kProtocol, "the answer to a read is none");
  if (written != nullptr) *written = reply.written;
  if (reply.code != 0) return refuse(reply.code, reply.text);
  if (in.header.payload_bytes != reply.written || in.payload.size() != reply.written) {
    if (written != nullptr) *written = 0;
    return lost(Cause::kProtocol, "an output of another size than it says");
  }
  if (port < wire::kMaxPushPorts) want_ |= uint64_t{1} << port;
  ++counters_.read_outputs;
  error_[0] = '\0';
  return Code::kOk;
}

std::span<std::byte> Device::place(const wire::Header& header, std::span<const std::byte>) {
  if (header.type == wire::type_of<wire::RunReply>() && header.request_id == run_request_ &&
      run_open_)
    return cache_;
  if (header.type == wire::type_of<wire::ReadReply>() && header.request_id == wanted_request_)
    return read_into_;
  return {};
}

}  // namespace outrider::link
