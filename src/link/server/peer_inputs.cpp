// Inputs: where their bytes go, which of them waits, what the runtime is given.
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

// Does the runtime take these bytes for views, which point to pictures? Whatever a peer sends, no
// address in it is one of this process.
bool are_views(const Runtime& runtime, uint32_t port, uint64_t bytes) {
  const frt_model_runtime_v1& face = runtime.face();
  if (port >= face.n_ports || bytes == 0 || bytes % sizeof(frt_image_view) != 0) return false;
  const uint32_t modality = face.ports[port].modality;
  return modality == FRT_MODALITY_IMAGE || modality == FRT_MODALITY_DEPTH;
}

}  // namespace

std::span<std::byte> Peer::place(const wire::Header& header, std::span<const std::byte> body) {
  if (header.type == wire::type_of<wire::StoreChunk>() && store_) return store_->place();
  if (header.type != wire::type_of<wire::Input>() || !lease_.instance) return {};
  if (is_of_another_epoch(header)) return {};
  uint32_t port = 0;  // the first field of INPUT; the whole is decoded once it is known to be sound
  if (body.size() < sizeof port) return {};
  std::memcpy(&port, body.data(), sizeof port);
  const size_t slot = std::min<size_t>(port, buffers_.size() - 1);
  PortBuffer& buffer = buffers_[slot];
  replace_by_newer(slot);
  return {buffer.bytes.get(), buffer.capacity};
}

// An input for this port has begun to come. The older one that still waits is never handed over:
// its bytes are overwritten. A run that still waits is not waited for by who stages anew.
void Peer::replace_by_newer(size_t slot) {
  if (queued_.waits) {
    queued_.waits = false;
    ++core_->counters.late_runs;
    if (!fault(Cause::kDeadline, Code::kDevice, wire::type_of<wire::Run>(), 0, queued_.request_id,
               "link: deadline: a newer input came before this run could begin"))
      over_ = true;
  }
  Pending& pending = pending_[slot];
  if (!pending.waits) return;
  pending.waits = false;
  order_.erase(std::remove(order_.begin(), order_.end(), slot), order_.end());
  ++n_replaced_;
  ++core_->counters.replaced_inputs;
  if (pending.wants_answer &&
      !fault(Cause::kDeadline, Code::kDevice, wire::type_of<wire::Input>(), pending.input.port,
             pending.request_id, "link: deadline: a newer input replaced this one in the queue"))
    over_ = true;
}

bool Peer::on_input(const wire::Incoming& in) {
  if (!lease_.instance) return end(Cause::kProtocol, "INPUT before OPEN");
  ++core_->counters.inputs;
  if (auto read = wire::decode(in.body, input_); !read)
    return end(Cause::kProtocol, read.error().text);
  ++n_inputs_;
  const size_t slot = std::min<size_t>(input_.port, pending_.size() - 1);
  Pending& pending = pending_[slot];
  replace_by_newer(slot);
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
  return !over_ && serve_telemetry();
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
      if (are_views(runtime, pending.input.port, buffer.size)) break;  // they come as views
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
  // Nothing at all may mean something, as no pictures do: the caller's own call.
  if (pending.input.bytes == 0) return runtime.set_input(pending.input.port, nullptr, 0);
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

}  // namespace outrider::link
