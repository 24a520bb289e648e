// The payload of a frame request and of its reply, byte for byte (link specification 9.1, 9.2):
// what a server hands to staging and what a client fills. Little endian; no padding.
//
//   request   u32 frame_id, u32 flags, u8 frames[2*6*H*W], f32 packed[n_packed]
//   reply     u32 frame_id, u32 status, u32 gpu_us, u32 queue_us, u32 total_us, f32 outputs[],
//             then JSON when state was wanted
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "driving/spec.h"

namespace outrider::driving {

inline constexpr size_t kRequestHeadBytes = 8, kReplyHeadBytes = 20;

enum RequestFlags : uint32_t { kResetQueues = 1, kWantState = 2, kWantHidden = 4 };
enum class FrameStatus : uint32_t {
  kOk = 0,
  kNotReady = 1,
  kBadShape = 2,
  kInferFailed = 3,
  kNotFinite = 4
};

struct RequestView {
  uint32_t frame_id = 0, flags = 0;
  std::span<const std::byte> frames, packed;  // of the payload itself; packed at any address
};
struct ReplyHead {
  uint32_t frame_id = 0, status = 0, gpu_us = 0, queue_us = 0, total_us = 0;
};

// Bytes of a request's payload: 393272 for the shipped models.
size_t request_bytes(const Spec& spec);
// Bytes of an OK reply without the JSON: 8292, or 73828 with the hidden state.
size_t reply_bytes(const Spec& spec, bool with_hidden);

// [hot] False when the length is not exactly request_bytes(): BAD_SHAPE.
bool view_request(const Spec& spec, std::span<const std::byte> payload, RequestView& out) noexcept;
// [hot] Writes the eight bytes before the frames. `out` has kRequestHeadBytes.
void write_request_head(uint32_t frame_id, uint32_t flags, std::byte* out) noexcept;
// [hot] `out` has kReplyHeadBytes.
void write_reply_head(const ReplyHead& head, std::byte* out) noexcept;
// [hot] False when shorter than a head.
bool read_reply_head(std::span<const std::byte> payload, ReplyHead& out) noexcept;

// [hot] The floats of a reply from the whole vector: all of it, or without the hidden range. `out`
// has reply_bytes() - kReplyHeadBytes, at any address.
void write_reply_outputs(const Spec& spec, const float* outputs, bool with_hidden,
                         std::byte* out) noexcept;
// [hot] The other way: the whole vector, zeros where the hidden state sits unless it came. False
// when `floats` (a reply behind its head) is shorter than what it should hold.
bool expand_reply(const Spec& spec, std::span<const std::byte> floats, bool with_hidden,
                  std::span<float> outputs) noexcept;

}  // namespace outrider::driving
