// Aspect-preserving resize into a fixed frame with black bars: the variants of pi-policy.md 3.1 and
// gguf-models.md B.6, bit for bit.
#pragma once
#include <cstdint>
#include <memory>

#include "base/result.h"

namespace outrider {

enum class ResizeRule : uint8_t {
  kPil,       // variant A, openpi's client library: the reference
  kJax,       // variant B on uint8: float, rounded half to even
  kTorch,     // variant C: bilinear half-pixel without antialias, float, pad -1 (see resize_torch)
  kJetsonPi,  // variant B, vertical first, rounded half away from zero
};

// All tables and scratch for one (source size -> frame size) pair are made once.
class Resizer {
 public:
  // [setup] kPil, kJax, kJetsonPi. Sizes 1 .. 65535. Errors: kShape, kNoMemory.
  static Result<Resizer> make(ResizeRule rule, int src_width, int src_height, int dst_width, int dst_height);
  Resizer(Resizer&&) noexcept;
  Resizer& operator=(Resizer&&) noexcept;
  ~Resizer();

  // [hot] src packed RGB -> dst packed RGB (dst_width * dst_height * 3). No heap. Bars are 0.
  void run(const uint8_t* src, uint8_t* dst) noexcept;
  // Content rectangle inside the frame.
  int content_x() const, content_y() const, content_width() const, content_height() const;

 private:
  Resizer();
  struct Plan;
  std::unique_ptr<Plan> plan_;
};

// Variant C: src packed RGB u8 scaled to [-1, 1], bilinear without antialias, bars -1.
// dst: dst_width * dst_height * 3 floats. [setup] may allocate.
Result<void> resize_torch(const uint8_t* src, int src_width, int src_height, float* dst, int dst_width,
                          int dst_height);

}  // namespace outrider
