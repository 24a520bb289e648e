// Runs and outputs. Inputs: peer_inputs.cpp.
#include <algorithm>
#include <cstring>

#include "link/server/peer.h"

namespace outrider::link {

using wire::Cause;

void set_text(wire::Line& line, const char* text) {
  char clean[wire::Line::kMaxBytes + 1];
  size_t n = 0;
  for (; n < wire::Line::kMaxBytes && text[n] != '\0'; ++n)
    clean[n] = static_cast<unsigned char>(text[n]) < 0x20 || text[n] == 0x7f ? ' ' : text[n];
  line.assign({clean, n});
}

// ---- runs
// ----------------------------------------------------------------------------------------

bool Peer::on_run(const wire::Incoming& in) {
  if (!lease_.instance) return end(Cause::kProtocol, "RUN before OPEN");
  QueuedRun next;
  if (auto read = wire::decode(in.body, next.run); !read)
    return end(Cause::kProtocol, read.error().text);
  next.request_id = in.header.request_id;
  next.received_ns = in.received_ns;
  next.waits = true;
  if (queued_.waits) {  // whoever asked for it has asked again
    ++core_->counters.late_runs;
    if (!fault(Cause::kDeadline, Code::kDevice, wire::type_of<wire::Run>(), 0, queued_.request_id,
               "link: deadline: a newer run replaced this one in the queue"))
      return false;
  }
  queued_ = next;
  return true;
}

// Why the runtime is not even asked; nullptr: it is.
const char* Peer::refuse_run(const QueuedRun& queued, wire::RunReply& reply) {
  if (!lease_.holds()) {
    ++core_->counters.stale;
    reply.code = to_abi(Code::kDevice);
    return "link: host busy: another device took the runtime over";
  }
  const int64_t waited_ns = core_->clock.now_ns() - queued.received_ns;
  if (queued.run.budget_ns != 0 && waited_ns > 0 &&
      static_cast<uint64_t>(waited_ns) >= queued.run.budget_ns) {
    ++core_->counters.late_runs;
    reply.code = to_abi(Code::kDevice);
    return "link: deadline: the run could not begin in time";
  }
  if (n_inputs_ < queued.run.n_inputs) {
    n_inputs_ = queued.run.n_inputs;
    void_inputs("link: corrupted: an input was lost on its way; stage all inputs again");
  }
  if (refusal_.code == 0) return nullptr;
  reply.code = refusal_.code;
  refusal_.code = 0;
  reply.text = refusal_.text;
  return "";
}

// A runtime that somebody else ran before may still hold what a stage left: in this epoch a stage
// runs only after those it waits for.
bool Peer::waits_for_stage(uint32_t executor_ref, wire::RunReply& reply) const {
  const auto* plan = lease_.instance->runtime->plan();
  if (lease_.fresh || plan == nullptr) return false;
  for (uint64_t i = 0; i < plan->n_stages; ++i) {
    const frt_generic_stage_desc_v1& stage = plan->stages[i];
    if (stage.executor_ref != executor_ref) continue;
    for (uint32_t a = 0; a < stage.n_after; ++a) {
      if (stage_done_[stage.after[a]]) continue;
      reply.code = to_abi(Code::kNotReady);
      const Error error = make_error(Code::kNotReady, "stage %s waits for stage %s", stage.name,
                                     plan->stages[stage.after[a]].name);
      reply.text.assign(error.message());
      return true;
    }
  }
  return false;
}

void Peer::note_stage(const wire::Run& run, int code) {
  const auto* plan = lease_.instance->runtime->plan();
  for (uint64_t i = 0; plan != nullptr && i < plan->n_stages; ++i)
    if (run.kind == 1 || plan->stages[i].executor_ref == run.executor_ref)
      stage_done_[i] = code == 0;
}

void Peer::run_model(const wire::Run& run, wire::RunReply& reply) {
  Runtime& runtime = *lease_.instance->runtime;
  if (run.kind == 0 && waits_for_stage(run.executor_ref, reply)) return;
  reply.started_ns = core_->clock.now_ns();
  reply.code = run.kind == 1 ? runtime.step() : runtime.run(run.executor_ref);
  reply.ended_ns = core_->clock.now_ns();
  note_stage(run, reply.code);
  if (reply.code != 0) set_text(reply.text, runtime.last_error());
}

// Outputs that the device read before, one behind the other. Returns their bytes.
size_t Peer::collect(uint64_t push, wire::RunReply& reply) {
  Runtime& runtime = *lease_.instance->runtime;
  const frt_model_runtime_v1& face = runtime.face();
  size_t at = 0;
  for (uint32_t port = 0; port < std::min<uint64_t>(face.n_ports, wire::kMaxPushPorts); ++port) {
    if ((push >> port & 1) == 0 || face.ports[port].direction != FRT_PORT_OUT) continue;
    uint64_t written = 0;
    const uint64_t room = out_bytes_ - at;
    if (runtime.get_output(port, out_.get() + at, room, &written) != 0 || written > room) continue;
    reply.outputs.add() = {port, static_cast<uint32_t>(written)};
    at += written;
  }
  return at;
}

bool Peer::execute(const QueuedRun& queued) {
  wire::RunReply& reply = reply_;
  reply.code = 0;
  reply.text.n_bytes = 0;
  reply.outputs.clear();
  reply.received_ns = reply.started_ns = reply.ended_ns = queued.received_ns;
  size_t out_bytes = 0;
  if (const char* why = refuse_run(queued, reply)) {
    if (*why != '\0') reply.text.assign(why);
  } else {
    busy_since_ns_ = core_->clock.now_ns();
    busy_.store(true, std::memory_order_release);
    io_.unlock();  // the connection is looked after by pump_while_busy
    {
      std::scoped_lock use(lease_.instance->use);
      run_model(queued.run, reply);
      if (reply.code == 0 && queued.run.push != 0) out_bytes = collect(queued.run.push, reply);
    }
    io_.lock();
    work_ended_ns_ = core_->clock.now_ns();
    if (lease_.holds()) core_->models.heard(lease_);
    busy_.store(false, std::memory_order_release);
  }
  reply.n_replaced = n_replaced_;
  ++(reply.code == 0 ? core_->counters.runs : core_->counters.failed_runs);
  core_->counters.pushed_bytes += static_cast<int64_t>(out_bytes);
  if (over_) return false;
  const Piece payload = {out_.get(), out_bytes};
  return answer(reply, queued.request_id, {&payload, out_bytes > 0 ? 1u : 0u});
}

// ---- outputs
// -------------------------------------------------------------------------------------

bool Peer::on_read(const wire::Incoming& in) {
  wire::Read read;
  if (!wire::decode(in.body, read) || !lease_.instance)
    return end(Cause::kProtocol, "READ before OPEN, or broken");
  if (!drain()) return false;
  wire::ReadReply reply;
  {
    std::scoped_lock use(lease_.instance->use);
    if (!lease_.holds()) {
      ++core_->counters.stale;
      reply.code = to_abi(Code::kDevice);
      set_text(reply.text, "link: host busy: another device took the runtime over");
    } else {
      Runtime& runtime = *lease_.instance->runtime;
      uint64_t written = 0;
      reply.code = runtime.get_output(read.port, read.null_out != 0 ? nullptr : out_.get(),
                                      std::min(read.capacity, out_bytes_),
                                      read.null_written != 0 ? nullptr : &written);
      reply.written = written;
      if (reply.code != 0) set_text(reply.text, runtime.last_error());
      if (reply.code == 0 && written > out_bytes_) {
        reply.code = to_abi(Code::kFailed);
        set_text(reply.text, "the runtime says it wrote more than there was room for");
      }
    }
  }
  const Piece payload = {out_.get(), reply.code == 0 && read.null_out == 0 ? reply.written : 0};
  return answer(reply, in.header.request_id, {&payload, payload.empty() ? 0u : 1u});
}

bool Peer::on_prepare(const wire::Incoming& in) {
  wire::Prepare prepare;
  if (!wire::decode(in.body, prepare) || !lease_.instance)
    return end(Cause::kProtocol, "PREPARE before OPEN, or broken");
  if (!drain()) return false;
  wire::Answer reply;
  {
    std::scoped_lock use(lease_.instance->use);
    if (!lease_.holds()) {
      ++core_->counters.stale;
      reply.code = to_abi(Code::kDevice);
      set_text(reply.text, "link: host busy: another device took the runtime over");
    } else {
      Runtime& runtime = *lease_.instance->runtime;
      reply.code = runtime.prepare(prepare.graph, prepare.key);
      if (reply.code != 0) set_text(reply.text, runtime.last_error());
    }
  }
  return answer(reply, in.header.request_id);
}

}  // namespace outrider::link
