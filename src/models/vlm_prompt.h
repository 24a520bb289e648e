// Words and pictures in the order a text model reads them. Source: gguf-models.md D.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "models/vlm_picture.h"
#include "text/language_tokenizer.h"

namespace outrider {

// A place for a picture in a prompt.
inline constexpr const char* kPictureMark = "<__media__>";

// The ids around pictures, found once.
class VlmPieces {
 public:
  // [setup] Errors: kNotFound naming the piece that the vocabulary lacks; kUnsupported (a grid of
  // tiles beyond kMaxGrid a side).
  static Result<VlmPieces> find(const VlmConfig& config, const LanguageTokenizer& tokenizer);
  static constexpr int64_t kMaxGrid = 64;

  std::vector<int32_t> begin, end;                                   // around every picture
  int32_t newline = -1, two_newlines = -1, whole = -1, around = -1;  // kIdefics3
  // kIdefics3: of tile (row, column), both from 0.
  std::span<const int32_t> tile(int64_t row, int64_t column) const {
    return tiles_[static_cast<size_t>(row * n_grid_ + column)];
  }

 private:
  int64_t n_grid_ = 0;
  std::vector<std::vector<int32_t>> tiles_;
};

// Do the two files belong together: architecture and projector, widths, pieces? Errors, naming both
// files: kUnsupported, kShape, kNotFound; those of read_llm_config and read_vlm_config.
Result<void> check_vlm_pair(const GgufFile& text, const GgufFile& vision,
                            const LanguageTokenizer& tokenizer);

// Tokens that follow each other and are evaluated alike.
struct VlmSegment {
  int64_t n = 0;        // tokens
  VlmFrame frame;       // rgb null: words
  int64_t columns = 0;  // of a frame's tokens
};

// A prompt being put together. Tokens beyond its capacity are counted and not kept.
class VlmPrompt {
 public:
  // [setup]
  VlmPrompt(const VlmConfig& config, const VlmPieces& pieces, int64_t capacity);

  // [hot]
  void clear() noexcept;
  void add(std::span<const int32_t> ids) noexcept;
  // second: of a clip of two pictures (kQwen25Vl), or null.
  void add(const PicturePlan& plan, const uint8_t* pixels, const uint8_t* second) noexcept;

  int64_t n_tokens() const { return n_tokens_; }
  bool fits() const { return n_tokens_ <= static_cast<int64_t>(ids_.size()); }
  // When it fits: the ids, LlmRun::kPictureId in the place of picture tokens, and what they make.
  std::span<const int32_t> ids() const {
    return std::span<const int32_t>(ids_).first(static_cast<size_t>(n_tokens_));
  }
  std::span<const VlmSegment> segments() const {
    return std::span<const VlmSegment>(segments_).first(n_segments_);
  }

 private:
  void add(int32_t id) noexcept { add(std::span<const int32_t>(&id, 1)); }
  void add_frame(const PicturePlan& plan, const VlmFrame& frame) noexcept;

  const VlmConfig& config_;
  const VlmPieces& pieces_;
  std::vector<int32_t> ids_;
  std::vector<VlmSegment> segments_;
  size_t n_segments_ = 0;
  int64_t n_tokens_ = 0;
};

}  // namespace outrider
