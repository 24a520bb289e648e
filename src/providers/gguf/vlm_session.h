// A conversation that sees: words and pictures in, text out. Family mllm.
#pragma once
#include <memory>
#include <span>
#include <vector>

#include "models/vlm_prompt.h"
#include "models/vlm_tower.h"
#include "providers/gguf/llm_session.h"

namespace outrider {

class VlmSession final : public LlmSession {
 public:
  // [setup] As LlmSession::open, for a pair.
  static Result<std::unique_ptr<LlmSession>> open(const LlmOpenConfig& config,
                                                  std::shared_ptr<const VlmFiles> files);

  // [hot] A prompt without kPictureMark: the pictures follow it. One with marks: as many as there
  // are pictures, and they stand there (checked by prefill). Errors: as LlmSession.
  Code stage_prompt(std::string_view text) noexcept override;
  // [hot] Ids as they are; LlmRun::kPictureId is the place of a picture, as a mark is.
  Code stage_ids(std::span<const std::byte> ids) noexcept override;
  // [hot] Resized and kept; nothing stays of what is pointed to. No bytes: no pictures, which must
  // be said too. Errors: kInvalid (a broken view), kShape (sizes that differ, sides beyond
  // kMaxPictureSide, more tokens than the context holds).
  Code stage_pictures(std::span<const std::byte> views) noexcept override;
  void drop_pictures() noexcept override { pictures_staged_ = false; }

  std::string describe() const override;
  std::string vision_sha256() const override { return pair_->sha256; }

 private:
  VlmSession() = default;
  Result<void> prepare_vision();
  void warm_up_vision();
  Code feed() noexcept override;
  Code lay_out() noexcept;
  size_t clip_length(size_t picture, bool next_follows) const noexcept;
  Code add_picture(size_t& picture, bool next_follows) noexcept;
  Code read_view(const std::byte* view, size_t index) noexcept;
  Code encode_part(std::string_view text, bool first) noexcept;
  void end_part() noexcept;

  // A picture as the tower reads it.
  struct Picture {
    PicturePlan plan;
    const uint8_t* pixels = nullptr;
  };

  std::shared_ptr<const VlmFiles> pair_;
  std::unique_ptr<VlmTower> tower_;
  std::unique_ptr<VlmPrompt> prompt_;
  Precision vision_precision_ = Precision::kF32;
  bool fuses_ = false;

  std::vector<uint8_t> pixels_;
  std::vector<Picture> pictures_;  // room for as many as fit
  size_t n_pictures_ = 0, n_pixel_bytes_ = 0;
  int64_t n_picture_tokens_ = 0;
  bool pictures_staged_ = false;

  // Parts of the prompt between marks: part i is ids_[part_ends_[i - 1], part_ends_[i]). n_staged_
  // counts all ids, which may be more than are kept.
  std::vector<size_t> part_ends_;
  size_t n_parts_ = 0;

  std::vector<float> tokens_;  // of the frame at hand
};

}  // namespace outrider
