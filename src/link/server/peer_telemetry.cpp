// Telemetry: after every frame that is here, never before one.
#include <array>

#include "base/printable.h"
#include "link/server/peer.h"

namespace outrider::link {

using wire::Cause;

namespace {

constexpr uint32_t kPieceBytes = wire::Channel::kTelemetryPieceBytes;
constexpr std::array<std::byte, kPieceBytes> kZeros{};

// The one piece that may stand in front of a frame.
static_assert(wire::max_bytes<wire::StatusReply>() <= 2 * kPieceBytes);

}  // namespace

bool Peer::on_telemetry(const wire::Incoming& in) {
  if (in.header.type == wire::type_of<wire::Status>()) {
    later_.status = true;
    later_.status_id = in.header.request_id;
    return true;
  }
  wire::Probe probe;
  if (!wire::decode(in.body, probe)) return end(Cause::kProtocol, "a broken PROBE");
  if (lease_.instance && channel_.version() < 2 && probe.return_bytes > kPieceBytes)
    return fault(Cause::kNone, Code::kUnsupported, wire::type_of<wire::Probe>(), 0,
                 in.header.request_id,
                 "this connection has a model open; wire version 1 gets at most 65536 bytes here");
  later_.probe = true;
  later_.probe_id = in.header.request_id;
  later_.received_bytes = in.header.payload_bytes;
  later_.left_bytes = probe.return_bytes;
  return true;
}

// With a runtime one piece at a time, and none while anything is still on its way: a frame finds at
// most that one before it. Without one nobody waits for a frame.
bool Peer::serve_telemetry() {
  while (later_.waits() && !busy() && !channel_.has_buffered()) {
    if (lease_.instance && !channel_.is_idle()) return true;
    if (!(later_.status ? send_status() : send_probe_piece())) return false;
    if (lease_.instance) return true;
  }
  return true;
}

bool Peer::send_probe_piece() {
  const bool whole = channel_.version() < 2;
  const uint32_t n = whole ? later_.left_bytes : std::min(later_.left_bytes, kPieceBytes);
  wire::ProbeReply reply;
  reply.received_bytes = later_.received_bytes;
  reply.left_bytes = later_.left_bytes - n;
  std::vector<Piece> pieces;
  for (uint32_t left = n; left > 0; left -= static_cast<uint32_t>(pieces.back().size()))
    pieces.push_back(std::span(kZeros).first(std::min(left, kPieceBytes)));
  const bool good = tell(reply, later_.probe_id, pieces);
  if (channel_.begun()) later_.left_bytes -= n, later_.probe = later_.left_bytes > 0;
  return good;
}

bool Peer::send_status() {
  auto reply = std::make_unique<wire::StatusReply>();
  const ServerCounters& c = core_->counters;
  const std::pair<const char*, const std::atomic<int64_t>*> rows[] = {
      {"peers", &c.peers},
      {"connections", &c.connections},
      {"refused_peers", &c.refused_peers},
      {"inputs", &c.inputs},
      {"replaced_inputs", &c.replaced_inputs},
      {"refused_inputs", &c.refused_inputs},
      {"lost_inputs", &c.lost_inputs},
      {"runs", &c.runs},
      {"failed_runs", &c.failed_runs},
      {"late_runs", &c.late_runs},
      {"stale", &c.stale},
      {"corrupted", &c.corrupted},
      {"protocol_errors", &c.protocol_errors},
      {"slow_peers", &c.slow_peers},
      {"silent_peers", &c.silent_peers},
      {"pushed_bytes", &c.pushed_bytes}};
  for (const auto& [name, value] : rows) {
    wire::Counter& counter = reply->counters.add();
    counter.name.assign(name);
    counter.value = value->load(std::memory_order_relaxed);
  }
  if (core_->status != nullptr) reply->json.assign(core_->status(core_->user));
  const bool good = tell(*reply, later_.status_id, {});
  if (channel_.begun()) later_.status = false;
  return good;
}

std::string Peer::json() const {
  std::scoped_lock lock(shown_lock_);
  const wire::ChannelCounters& c = shown_.counters;
  const int64_t heard_ms = (core_->clock.now_ns() - shown_.heard_ns) / 1'000'000;
  return "{\"peer\":" + json_text(channel_.facts().peer) +
         ",\"kind\":" + json_text(kind_name(channel_.facts().kind)) +
         ",\"name\":" + json_text(shown_.name) + ",\"model\":" + json_text(shown_.model) +
         ",\"epoch\":" + std::to_string(shown_.epoch) +
         ",\"owner\":" + (shown_.owner ? "true" : "false") +
         ",\"busy_ms\":" + std::to_string(busy_ms()) +
         ",\"uploading\":" + (shown_.uploading ? "true" : "false") +
         ",\"heard_ms\":" + std::to_string(heard_ms) +
         ",\"received_bytes\":" + std::to_string(c.received_bytes) +
         ",\"sent_bytes\":" + std::to_string(c.sent_bytes) +
         ",\"corrupted\":" + std::to_string(c.corrupted) + "}";
}

}  // namespace outrider::link
