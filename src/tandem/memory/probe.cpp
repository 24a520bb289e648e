#include "tandem/memory/probe.h"

#include <algorithm>
#include <vector>

namespace outrider::memory {
namespace {

// One frame of the probe. Its import goes before its memory does: a camera buffer may come to lie
// at the same address.
class ProbeFrame {
 public:
  ProbeFrame(uint32_t stream, BufferRef buffer, ImportCache* imports)
      : buffer_(std::move(buffer)), imports_(imports), stream_(stream) {}
  ~ProbeFrame() {
    if (imports_ != nullptr) imports_->forget(buffer_->data(), buffer_->bytes());
  }
  ProbeFrame(const ProbeFrame&) = delete;
  ProbeFrame& operator=(const ProbeFrame&) = delete;
  std::span<std::byte> bytes() const { return {buffer_->data(), buffer_->bytes()}; }
  CameraFrame frame() const {
    return {stream_, buffer_->data(), buffer_->bytes(), buffer_->generation()};
  }

 private:
  BufferRef buffer_;
  ImportCache* imports_;
  uint32_t stream_;
};

Result<void> one_round(LinkWarp& warp, const ProbeParts& parts, const ProbeFrame& road,
                       const ProbeFrame& wide, int round, std::vector<std::byte>& wanted) {
  parts.fill(round, 0, road.bytes());
  parts.fill(round, 1, wide.bytes());
  Code code = warp.start(road.frame(), wide.frame());
  if (code == Code::kOk) code = warp.wait();
  if (code != Code::kOk)
    return make_error(Code::kDevice, "probe round %d: the warp failed (%d)", round,
                      static_cast<int>(code));
  parts.reference(road.bytes(), wide.bytes(), wanted);
  const std::span<const std::byte> view = warp.send_view();
  const auto at = std::mismatch(view.begin(), view.end(), wanted.begin());
  if (at.first == view.end()) return {};
  return make_error(Code::kFailed, "probe round %d: byte %zu is %d, wanted %d (not read live)",
                    round, static_cast<size_t>(at.first - view.begin()),
                    static_cast<int>(*at.first), static_cast<int>(*at.second));
}

}  // namespace

Result<void> probe_warp(LinkWarp& warp, const ProbeParts& parts) {
  if (parts.frames == nullptr || !parts.fill || !parts.reference || parts.frame_bytes == 0 ||
      parts.rounds < kLeastProbeRounds)
    return make_error(Code::kInvalid, "probe: %d rounds of %zu bytes, allowed is at least %d of 1",
                      parts.rounds, parts.frame_bytes, kLeastProbeRounds);
  ImportCache* imports = warp.state().imports;
  auto road = parts.frames->allocate(parts.frame_bytes, attribute::kSendable);
  if (!road) return road.error();
  auto wide = parts.frames->allocate(parts.frame_bytes, attribute::kSendable);
  if (!wide) return wide.error();
  if (road.value()->data() == nullptr || wide.value()->data() == nullptr)
    return make_error(Code::kDevice, "probe: %s gave frames that are not mapped",
                      parts.frames->name());
  const ProbeFrame road_frame(0, std::move(road.value()), imports),
      wide_frame(1, std::move(wide.value()), imports);
  std::vector<std::byte> wanted(warp.route().bytes);
  for (int round = 0; round < parts.rounds; ++round)
    OUTRIDER_TRY(one_round(warp, parts, road_frame, wide_frame, round, wanted));
  return {};
}

}  // namespace outrider::memory
