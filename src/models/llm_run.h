// One session of a text model: keys and values of what it has read, and the passes over them.
//
// Tokens are evaluated in chunks. Every value of a token depends on the tokens before it alone and
// not on the chunk it came in, so one by one, all at once, or after a prefix that was kept give the
// same bits. Source of the maths: gguf-models.md C.2.
#pragma once
#include <atomic>
#include <memory>
#include <span>

#include "base/arena.h"
#include "models/llm_model.h"
#include "models/rope_table.h"

namespace outrider {

// What stands in the place of words: the tokens of one picture, row by row.
struct LlmPicture {
  View<const float> tokens;  // [n, width], taken as they are
  // n is a multiple of it. A model with rotary sections turns them by row and column.
  int64_t columns = 0;
  bool both_ways = false;  // the tokens see each other; n is at most the chunk then (asserted)
};

class LlmRun {
 public:
  struct Options {
    int64_t n_ctx = 0;     // tokens that fit, 1 .. kMaxContext
    int64_t chunk = 0;     // tokens evaluated at once, 1 .. n_ctx
    bool reuse = false;    // begin() keeps what the new tokens share with those before
    bool kv_8bit = false;  // keys and values in 8 bits instead of LlmModel::kv_type()
  };
  static constexpr int64_t kMaxContext = int64_t{1} << 20;
  static constexpr int32_t kPictureId = -1;

  // [setup] `ops` must be reserved for llm_limits(config, chunk, n_ctx, kv_8bit) and outlive the
  // run. Errors: kNoMemory.
  static Result<std::unique_ptr<LlmRun>> make(std::shared_ptr<const LlmModel> model, Ops& ops,
                                              const Options& options);

  // [hot] Nothing has been read.
  void reset() noexcept { n_past_ = position_ = 0; }
  // [hot] What will be evaluated is `ids` from the start: returns how many of them are there
  // already (0 without reuse; never the last one, whose logits are wanted) and drops the rest.
  // Tokens of pictures stand in `ids` as kPictureId: nothing from the first one on is kept.
  int64_t begin(std::span<const int32_t> ids) noexcept;

  // [hot] Reads further tokens: 0 <= id < vocab and n_past() + ids.size() <= n_ctx (asserted).
  // With logits, those behind the last of them are computed. False when `cancel` was seen set,
  // between layers: the tokens of finished chunks are kept, those of the current one are not.
  bool append(std::span<const int32_t> ids, bool with_logits,
              const std::atomic<bool>* cancel = nullptr) noexcept;

  // [hot] The same with a picture.
  bool append(const LlmPicture& picture, bool with_logits,
              const std::atomic<bool>* cancel = nullptr) noexcept;

  // [vocab]; valid after an append with logits that returned true.
  std::span<const float> logits() const { return logits_; }
  int64_t n_past() const { return n_past_; }
  int64_t n_ctx() const { return options_.n_ctx; }
  int64_t state_bytes() const { return static_cast<int64_t>(arena_.used_bytes()); }
  int64_t kv_bytes() const { return kv_bytes_; }
  DType kv_type() const { return options_.kv_8bit ? DType::kQ8_0 : model_->kv_type(); }
  const LlmModel& model() const { return *model_; }

 private:
  LlmRun() = default;
  struct Sizes;
  void take_views(const Sizes& sizes);
  void embed(std::span<const int32_t> ids) noexcept;
  bool layers(int64_t n, const std::atomic<bool>* cancel) noexcept;
  void place_text(int64_t n) noexcept;
  void place_picture(const LlmPicture& picture, int64_t first, int64_t n) noexcept;
  void turn(int64_t row, int64_t time, int64_t line, int64_t column) noexcept;
  void layer(size_t i, int64_t n) noexcept;
  void attend(size_t i, int64_t n) noexcept;
  void project(const LlmLayer& layer, View<float> y, View<float>& q, View<float>& k,
               View<float>& v) noexcept;
  void branch(View<const float> in, const Weight& w, const float* bias,
              const std::vector<float>& post_norm) noexcept;
  void compute_logits(int64_t row) noexcept;

  std::shared_ptr<const LlmModel> model_;
  Ops* ops_ = nullptr;
  Options options_;
  Arena arena_;
  RopeTable rope_, local_rope_;
  int64_t n_past_ = 0, kv_bytes_ = 0;
  int64_t position_ = 0;  // of the next word: n_past_ but for what pictures save

  // Named views of the arena; rows in use are set per pass.
  std::span<int32_t> ids_;     // [n_ctx] what was read
  std::span<KvCache> caches_;  // one a layer
  float *x_ = nullptr, *y_ = nullptr, *qkv_ = nullptr, *att_ = nullptr, *mlp_ = nullptr;
  float *cos_ = nullptr, *sin_ = nullptr;  // [chunk, head_dim / 2] where there are sections
  std::span<int32_t> visible_, first_;     // keys that each row of a chunk sees
  std::span<float> logits_;
};

}  // namespace outrider
