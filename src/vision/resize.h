// Aspect-preserving resize into a fixed frame with black bars: the variants of pi-policy.md 3.1 and
// gguf-models.md B.6, bit for bit.
#pragma once
#include <cstdint>
#include <memory>

#include "base/result.h"

namespace outrider {

enum class ResizeRule : uint8_t {
  kPil,       // variant A, openpi's client library: the reference. Integer, horizontal pass first
  kJax,       // variant B on uint8: double, vertical pass first, rounded half to even
  kTorch,     // variant C: bilinear half-pixel without antialias, float, pad -1 (see resize_torch)
  kJetsonPi,  // f32, vertical pass first, rounded half away from zero
};

// Where the picture lies inside the frame; the rest is bars.
struct ContentRect {
  int x = 0, y = 0, width = 0, height = 0;
};

// The rectangle alone. Sides are the source's divided by the larger of the two ratios and
// truncated, in double (kPil, kJax, kTorch) or f32 (kJetsonPi); the odd pixel goes right and down.
// Sizes 1 .. 65535. A picture so thin that a side truncates to 0 becomes 1 pixel wide or high (the
// references other than kJetsonPi have no answer for it).
// Errors: kShape.
Result<ContentRect> fit_content(ResizeRule rule, int src_width, int src_height, int dst_width,
                                int dst_height);

// All tables and scratch for one (source size -> frame size) pair are made once.
class Resizer {
 public:
  // [setup] kPil, kJax, kJetsonPi. Sizes 1 .. 65535. Errors: kInvalid (kTorch or no rule), kShape
  // (a size out of range, a picture too thin for the frame, see fit_content), kNoMemory.
  static Result<Resizer> make(ResizeRule rule, int src_width, int src_height, int dst_width,
                              int dst_height);
  Resizer(Resizer&&) noexcept;
  Resizer& operator=(Resizer&&) noexcept;
  ~Resizer();

  // [hot] src packed RGB -> dst packed RGB (dst_width * dst_height * 3). No heap. Bars are 0.
  // src and dst must not overlap. A picture of the frame's own size is copied.
  void run(const uint8_t* src, uint8_t* dst) noexcept;

  // Content rectangle inside the frame.
  ContentRect content() const;
  int content_x() const { return content().x; }
  int content_y() const { return content().y; }
  int content_width() const { return content().width; }
  int content_height() const { return content().height; }

 private:
  Resizer();
  struct Plan;
  std::unique_ptr<Plan> plan_;
};

// Variant C with its tables made once.
class TorchResizer {
 public:
  // [setup] Errors: kShape as fit_content, kNoMemory.
  static Result<TorchResizer> make(int src_width, int src_height, int dst_width, int dst_height);
  TorchResizer(TorchResizer&&) noexcept;
  TorchResizer& operator=(TorchResizer&&) noexcept;
  ~TorchResizer();

  // [hot] src packed RGB u8 -> dst_width * dst_height * 3 floats inside [-1, 1], bars -1. No heap.
  void run(const uint8_t* src, float* dst) const noexcept;

 private:
  TorchResizer();
  struct Plan;
  std::unique_ptr<Plan> plan_;
};

// Variant C: src packed RGB u8 scaled to [-1, 1], bilinear without antialias, bars -1.
// dst: dst_width * dst_height * 3 floats inside [-1, 1]. [setup] may allocate; see TorchResizer.
// Errors: kShape as fit_content, kNoMemory.
Result<void> resize_torch(const uint8_t* src, int src_width, int src_height, float* dst,
                          int dst_width, int dst_height);

}  // namespace outrider
