#include "driving/payload.h"

#include <bit>
#include <cstring>

namespace outrider::driving {
namespace {

static_assert(std::endian::native == std::endian::little, "the payload is little endian");

size_t bytes_of(int64_t n_floats) {
  return static_cast<size_t>(n_floats) * sizeof(float);
}

}  // namespace

size_t request_bytes(const Spec& spec) {
  return kRequestHeadBytes + static_cast<size_t>(spec.frames_bytes()) + bytes_of(spec.n_packed());
}

size_t reply_bytes(const Spec& spec, bool with_hidden) {
  return kReplyHeadBytes + bytes_of(with_hidden ? spec.n_outputs : spec.n_reply());
}

bool view_request(const Spec& spec, std::span<const std::byte> payload, RequestView& out) noexcept {
  if (payload.size() != request_bytes(spec)) return false;
  std::memcpy(&out.frame_id, payload.data(), 4);
  std::memcpy(&out.flags, payload.data() + 4, 4);
  out.frames = payload.subspan(kRequestHeadBytes, static_cast<size_t>(spec.frames_bytes()));
  out.packed = payload.subspan(kRequestHeadBytes + out.frames.size());
  return true;
}

void write_request_head(uint32_t frame_id, uint32_t flags, std::byte* out) noexcept {
  std::memcpy(out, &frame_id, 4);
  std::memcpy(out + 4, &flags, 4);
}

void write_reply_head(const ReplyHead& head, std::byte* out) noexcept {
  static_assert(sizeof(ReplyHead) == kReplyHeadBytes);
  std::memcpy(out, &head, sizeof head);
}

bool read_reply_head(std::span<const std::byte> payload, ReplyHead& out) noexcept {
  if (payload.size() < kReplyHeadBytes) return false;
  std::memcpy(&out, payload.data(), sizeof out);
  return true;
}

void write_reply_outputs(const Spec& spec, const float* outputs, bool with_hidden,
                         std::byte* out) noexcept {
  if (with_hidden || spec.hidden.size() == 0) {
    std::memcpy(out, outputs, bytes_of(spec.n_outputs));
    return;
  }
  std::memcpy(out, outputs, bytes_of(spec.hidden.begin));
  std::memcpy(out + bytes_of(spec.hidden.begin), outputs + spec.hidden.end,
              bytes_of(spec.n_outputs - spec.hidden.end));
}

bool expand_reply(const Spec& spec, std::span<const std::byte> floats, bool with_hidden,
                  std::span<float> outputs) noexcept {
  const bool whole = with_hidden || spec.hidden.size() == 0;
  if (floats.size() < bytes_of(whole ? spec.n_outputs : spec.n_reply()) ||
      outputs.size() != static_cast<size_t>(spec.n_outputs))
    return false;
  if (whole) {
    std::memcpy(outputs.data(), floats.data(), bytes_of(spec.n_outputs));
    return true;
  }
  std::memcpy(outputs.data(), floats.data(), bytes_of(spec.hidden.begin));
  std::memset(outputs.data() + spec.hidden.begin, 0, bytes_of(spec.hidden.size()));
  std::memcpy(outputs.data() + spec.hidden.end, floats.data() + bytes_of(spec.hidden.begin),
              bytes_of(spec.n_outputs - spec.hidden.end));
  return true;
}

}  // namespace outrider::driving
