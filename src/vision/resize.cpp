#include "vision/resize.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <variant>

#include "base/assert.h"
#include "vision/resize_passes.h"

namespace outrider {
namespace {

constexpr int kMaxSide = 65535;

struct Sides {
  int width, height;
};

// The reference divides in double and truncates; dividing by a rounded ratio may lose a pixel of a
// side that would fit exactly. That is part of the rule.
template <class Real>
Sides fit_sides(int src_width, int src_height, int dst_width, int dst_height) {
  const Real ratio =
      std::max(Real(src_width) / Real(dst_width), Real(src_height) / Real(dst_height));
  const auto side = [ratio](int src, int most) {
    return std::clamp(int(Real(src) / ratio), 1, most);  // never less than one pixel
  };
  return {side(src_width, dst_width), side(src_height, dst_height)};
}

}  // namespace

Result<ContentRect> fit_content(ResizeRule rule, int src_width, int src_height, int dst_width,
                                int dst_height) {
  for (const int side : {src_width, src_height, dst_width, dst_height}) {
    if (side < 1 || side > kMaxSide) {
      return make_error(Code::kShape,
                        "resize: %d x %d to %d x %d pixels, every side must be 1 .. %d", src_width,
                        src_height, dst_width, dst_height, kMaxSide);
    }
  }
  const Sides sides = rule == ResizeRule::kJetsonPi
                          ? fit_sides<float>(src_width, src_height, dst_width, dst_height)
                          : fit_sides<double>(src_width, src_height, dst_width, dst_height);
  return ContentRect{(dst_width - sides.width) / 2, (dst_height - sides.height) / 2, sides.width,
                     sides.height};
}

struct Resizer::Plan {
  struct Copy {
    size_t n_bytes;
    void run(const uint8_t* src, uint8_t* out, size_t) noexcept { std::memcpy(out, src, n_bytes); }
  };

  int dst_width, dst_height;
  ContentRect content;
  std::variant<Copy, vision::FixedPasses, vision::FloatPasses<float>, vision::FloatPasses<double>>
      passes;
};

Resizer::Resizer() = default;
Resizer::Resizer(Resizer&&) noexcept = default;
Resizer& Resizer::operator=(Resizer&&) noexcept = default;
Resizer::~Resizer() = default;

Result<Resizer> Resizer::make(ResizeRule rule, int src_width, int src_height, int dst_width,
                              int dst_height) {
  if (rule != ResizeRule::kPil && rule != ResizeRule::kJax && rule != ResizeRule::kJetsonPi) {
    return make_error(Code::kInvalid,
                      "resize: rule %d, allowed are kPil, kJax and kJetsonPi; kTorch gives floats, "
                      "call resize_torch",
                      int(rule));
  }
  const auto fit = fit_content(rule, src_width, src_height, dst_width, dst_height);
  if (!fit) return fit.error();
  const ContentRect& content = fit.value();
  const vision::SizePair sizes{src_width, src_height, content.width, content.height};
  try {
    Resizer resizer;
    resizer.plan_ = std::make_unique<Plan>(Plan{dst_width, dst_height, content, Plan::Copy{0}});
    auto& passes = resizer.plan_->passes;
    if (src_width == dst_width && src_height == dst_height) {
      passes = Plan::Copy{size_t(dst_width) * size_t(dst_height) * 3};
    } else if (rule == ResizeRule::kPil) {
      passes.emplace<vision::FixedPasses>(sizes);
    } else if (rule == ResizeRule::kJax) {
      passes.emplace<vision::FloatPasses<double>>(sizes, vision::Rounding::kHalfEven);
    } else {
      passes.emplace<vision::FloatPasses<float>>(sizes, vision::Rounding::kHalfAway);
    }
    return resizer;
  } catch (const std::bad_alloc&) {
    return make_error(Code::kNoMemory, "resize: no memory for the tables of %d x %d to %d x %d",
                      src_width, src_height, dst_width, dst_height);
  }
}

ContentRect Resizer::content() const {
  OUTRIDER_ASSERT(plan_ != nullptr);
  return plan_->content;
}

void Resizer::run(const uint8_t* src, uint8_t* dst) noexcept {
  OUTRIDER_ASSERT(plan_ != nullptr && src != nullptr && dst != nullptr);
  const ContentRect& content = plan_->content;
  const size_t stride = size_t(plan_->dst_width) * 3;
  uint8_t* first = dst + size_t(content.y) * stride + size_t(content.x) * 3;
  std::visit([&](auto& passes) { passes.run(src, first, stride); }, plan_->passes);

  // Bars: above, then between the end of one content row and the start of the next, then below.
  const size_t row = size_t(content.width) * 3, gap = stride - row;
  std::memset(dst, 0, size_t(first - dst));
  uint8_t* end = first + row;
  for (int y = 1; y < content.height; ++y, end += stride) std::memset(end, 0, gap);
  std::memset(end, 0, size_t(dst + size_t(plan_->dst_height) * stride - end));
}

}  // namespace outrider
