// Inputs, runs, outputs.
#include <algorithm>
#include <cstring>

#include "link/server/peer.h"

namespace outrider::link {

using wire::Cause;
using wire::InputForm;

namespace {

uint64_t pixel_bytes(uint32_t format) {
  static constexpr uint64_t kBytes[] = {3, 3, 4, 4, 1};
  return format < 5 ? kBytes[format] : 0;
}

// The picture behind a view is all there: what a peer says of it is not believed.
bool holds_picture(const wire::View& view) {
  const uint64_t pixel = pixel_bytes(view.pixel_format);
  if (view.has_data == 0 || pixel == 0 || view.width <= 0 || view.height <= 0 ||
      view.stride_bytes != 0)
    return false;
  const uint64_t row = static_cast<uint64_t>(view.width) * pixel;
  return row * static_cast<uint64_t>(view.height) <= view.sent_bytes;
}

void set_text(wire::Line& line, const char* text) {
  char clean[wire::Line::kMaxBytes + 1];
  size_t n = 0;
  for (; n < wire::Line::kMaxBytes && text[n] != '\0'; ++n)
    clean[n] = static_cast<unsigned char>(text[n]) < 0x20 || text[n] == 0x7f ? ' ' : text[n];
  line.assign({clean, n});
}

}  // namespace

std::span<std::byte> Peer::place(const wire::Header& header, std::span<const std::byte> body) {
  if (header.type == wire::type_of<wire::StoreChunk>() && store_) return store_->place();
  if (header.type != wire::type_of<wire::Input>() || !lease_.instance) return {};
  uint32_t port = 0;  // the first field of INPUT; the whole is decoded once it is known to be sound
  if (body.size() < sizeof port) return {};
  std::memcpy(&port, body.data(), sizeof port);
  const size_t slot = std::min<size_t>(port, buffers_.size() - 1);
  PortBuffer& buffer = buffers_[slot];
  pending_[slot].waits = false;  // its bytes are overwritten
  if (queued_.waits) {           // whoever stages anew does not wait for that run any more
    queued_.waits = false;
    ++core_->counters.late_runs;
  }
  return {buffer.bytes.get(), buffer.capacity};
}

// ---- inputs
// --------------------------------------------------------------------------------------

bool Peer::on_input(const wire::Incoming& in) {
  if (!lease_.instance) return end(Cause::kProtocol, "INPUT before OPEN");
  ++core_->counters.inputs;
  if (auto read = wire::decode(in.body, input_); !read)
    return end(Cause::kProtocol, read.error().text);
  ++n_inputs_;
  const size_t slot = std::min<size_t>(input_.port, pending_.size() - 1);
  Pending& pending = pending_[slot];
  const auto queued = std::find(order_.begin(), order_.end(), slot);
  if (queued != order_.end()) {  // the newer one takes its place
    order_.erase(queued);
    ++n_replaced_;
    ++core_->counters.replaced_inputs;
  }
  order_.push_back(static_cast<uint32_t>(slot));
  pending.input = input_;
  if (in.payload.size() != in.header.payload_bytes)  // longer than the port takes: thrown away
    pending.input.form = static_cast<uint8_t>(InputForm::kNothing);
  pending.request_id = in.header.request_id;
  pending.wants_answer = (in.header.flags & wire::kWantAnswer) != 0;
  pending.waits = true;
  buffers_[slot].size = in.payload.size();
  return true;
}

// All that came while a run was at work, then the run that came with it.
bool Peer::drain() {
  if (busy()) return true;
  for (size_t i = 0; i < order_.size(); ++i) {
    Pending& pending = pending_[order_[i]];
    if (pending.waits) apply(pending);
    pending.waits = false;
  }
  order_.clear();
  while (queued_.waits) {
    const QueuedRun run = queued_;
    queued_.waits = false;
    if (!execute(run)) return false;
    if (!order_.empty()) return drain();
  }
  if (has_later_ && !channel_.has_buffered()) {
    has_later_ = false;
    return send_telemetry(later_, later_return_bytes_);
  }
  return !over_;
}

void Peer::apply(Pending& pending) {
  wire::Answer reply;
  {
    std::scoped_lock use(lease_.instance->use);
    if (!lease_.holds()) {
      ++core_->counters.stale;
      reply.code = to_abi(Code::kDevice);
      set_text(reply.text, "link: host busy: another device took the runtime over");
    } else {
      reply.code = call_set_input(pending);
      if (reply.code != 0) set_text(reply.text, lease_.instance->runtime->last_error());
    }
  }
  std::fill(stage_done_.begin(), stage_done_.end(), false);
  if (reply.code != 0) ++core_->counters.refused_inputs;
  if (pending.wants_answer) {
    if (!answer(reply, pending.request_id)) over_ = true;
    return;
  }
  if (reply.code == 0) return;
  refusal_.code = reply.code;
  refusal_.text = reply.text;
  char text[wire::Line::kMaxBytes + 1] = {};
  std::memcpy(text, reply.text.bytes.data(), reply.text.n_bytes);
  if (!fault(Cause::kNone, static_cast<Code>(reply.code), wire::type_of<wire::Input>(),
             pending.input.port, pending.request_id, text))
    over_ = true;
}

int Peer::call_set_input(const Pending& pending) {
  Runtime& runtime = *lease_.instance->runtime;
  const size_t slot = std::min<size_t>(pending.input.port, buffers_.size() - 1);
  const PortBuffer& buffer = buffers_[slot];
  const std::byte* data = buffer.bytes.get();
  static constexpr std::byte kNothing[16] = {};
  if (data == nullptr) data = kNothing;
  switch (static_cast<InputForm>(pending.input.form)) {
    case InputForm::kBytes:
      return runtime.set_input(pending.input.port, data, buffer.size);
    case InputForm::kViews: {
      frt_image_view views[wire::kMaxViews] = {};
      uint64_t at = 0;
      for (uint16_t i = 0; i < pending.input.views.n; ++i) {
        const wire::View& from = pending.input.views.items[i];
        const bool whole = holds_picture(from) && at + from.sent_bytes <= buffer.size;
        views[i] = {from.struct_size,
                    from.pixel_format,
                    whole ? data + at : nullptr,
                    whole ? from.sent_bytes : from.bytes,
                    from.width,
                    from.height,
                    from.stride_bytes,
                    0,
                    from.timestamp_ns};
        at += from.sent_bytes;
      }
      return runtime.set_input(pending.input.port, views,
                               uint64_t{pending.input.views.n} * sizeof views[0]);
    }
    case InputForm::kNothing:
      break;
  }
  // The caller had no usable data: a call that the runtime refuses too, without touching memory.
  const int code = runtime.set_input(pending.input.port, kNothing, 0);
  if (code != 0) return code;
  runtime.set_input(static_cast<uint32_t>(runtime.face().n_ports), kNothing, 0);
  return FRT_ERR_INVALID;
}

// Nothing is computed on an input of which one does not know what it is.
void Peer::void_inputs(const char* why) {
  if (!lease_.instance) return;
  ++core_->counters.lost_inputs;
  refusal_.code = to_abi(Code::kDevice);
  refusal_.text.assign(why);
  order_.clear();
  for (Pending& pending : pending_) pending.waits = false;
  if (busy()) return;  // the run at work has its inputs; the next one meets the refusal
  std::scoped_lock use(lease_.instance->use);
  if (lease_.holds()) scrub(*lease_.instance->runtime);
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
    Runtime& runtime = *lease_.instance->runtime;
    reply.code = runtime.prepare(prepare.graph, prepare.key);
    if (reply.code != 0) set_text(reply.text, runtime.last_error());
  }
  return answer(reply, in.header.request_id);
}

}  // namespace outrider::link
