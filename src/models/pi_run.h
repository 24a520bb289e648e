// One run of a policy: all mutable state, taken once, and the passes over it.
//
// Order of a tick: encode_views -> encode_prefix -> start -> denoise(0 .. n_steps-1) -> actions.
// PI0-FAST: encode_views -> encode_prefix -> next_token(-1), next_token(id), ...
// Source of the maths: pi-policy.md 5 to 9, 12.
#pragma once
#include <atomic>
#include <memory>
#include <span>

#include "base/arena.h"
#include "base/assert.h"
#include "models/pi_model.h"
#include "models/taps.h"

namespace outrider {

// One picture of image_size x image_size x 3: bytes, or values that are scaled to [-1, 1] already.
struct PiPixels {
  const uint8_t* rgb = nullptr;
  const float* scaled = nullptr;
};

// Real-time chunking in its identity form: every Euler step is pulled towards a chunk that is
// being carried out. All in model space. Source: async-control.md 5.2.
struct PiGuidance {
  std::span<const float> chunk;    // [action_steps, action_dim], row 0 belongs to this observation
  std::span<const float> weights;  // [action_steps]; 0: free
  float most = 0;                  // cap of the step's weight; 0: no guidance
  bool on() const { return most > 0 && !chunk.empty(); }
};
// Real-time chunking as it is trained: the first rows are given and stay as they are; their flow
// time is 0. Only for checkpoints that were trained so. Source: async-control.md 6.
struct PiHardPrefix {
  std::span<const float> chunk;  // [action_steps, action_dim]; rows from n_rows on are not read
  int64_t n_rows = 0;            // 0 .. action_steps - 1
};

class PiRun {
 public:
  struct Options {
    int64_t max_views = 0, max_text_tokens = 0;
    // Keep what the pictures and the prompt of the last passes became, and take it again when the
    // same pictures or the same whole prefix come back, byte for byte. Never changes a result.
    bool reuse = false;
  };
  // [setup] `ops` must be reserved for pi_limits(config, max_views, max_prefix()) and outlive the
  // run. Errors: kNoMemory.
  static Result<std::unique_ptr<PiRun>> make(std::shared_ptr<const PiModel> model, Ops& ops,
                                             const Options& options);
  static int64_t max_prefix(const PiConfig& config, int64_t max_views, int64_t max_text_tokens) {
    return max_views * config.vision.n_tokens() + max_text_tokens;
  }

  // [hot] Views that are seen, in order: packed RGB, image_size x image_size x 3. At most
  // max_views.
  void encode_views(std::span<const uint8_t* const> views) noexcept;
  // [hot] The same; pictures that are scaled already are never kept for reuse.
  void encode_views(std::span<const PiPixels> views) noexcept;
  // [hot] Text ids behind the image tokens, then the backbone: leaves keys and values of the
  // prefix. Ids must lie in the vocabulary and fit max_text_tokens (asserted: the caller checked).
  void encode_prefix(std::span<const int32_t> tokens) noexcept;
  // [hot] noise [action_steps, action_dim] is x at t = 1; state [action_dim] (PI0 only).
  void start(std::span<const float> noise, std::span<const float> state) noexcept;
  // [hot] After start: what else stands in the suffix of this run. `extra` [n, expert width], at
  // most kMaxExtraTokens: they see the prefix and each other, everything behind sees them.
  void condition(const PiHardPrefix& prefix, std::span<const float> extra) noexcept;
  // [hot] One Euler step.
  void denoise(int64_t step, const PiGuidance& guidance = {}) noexcept;
  // [hot] PI0-FAST, after encode_prefix: the likeliest id behind the prefix and what was answered
  // so far, the lowest of equals. previous: the id answered last, -1 for the first one. At most
  // answer_tokens calls after one prefix. -1 when a logit is not finite.
  int32_t next_token(int32_t previous) noexcept;
  // [action_steps, action_dim], normalised space.
  std::span<const float> actions() const { return x_; }
  // False when a value of the chunk is NaN or infinite.
  bool finite() const noexcept;

  // What passes did and were spared. A prefix that is taken again counts its views as reused too.
  struct ReuseCounts {
    int64_t computed_views = 0, reused_views = 0, reused_prefixes = 0;
  };
  const ReuseCounts& reuse_counts() const { return reuse_counts_; }
  // [setup] PI0-FAST: positions left out between the prefix and the answer. openpi counts one.
  void set_answer_gap(int64_t gap) {
    OUTRIDER_ASSERT(gap == 0 || gap == 1);
    answer_gap_ = gap;
  }
  // [setup] Nothing that was computed before is taken again, and the counts start at 0.
  void forget() noexcept;

  int64_t prefix_tokens() const { return n_prefix_; }
  int64_t state_bytes() const { return static_cast<int64_t>(arena_.used_bytes()); }
  // [setup] Looked at between layers of the pictures and of the prefix: once true, encode_views and
  // encode_prefix give up and stopped() says so; what they would have left is not there. null:
  // never.
  void stop_when(const std::atomic<bool>* wish) { stop_wish_ = wish; }
  bool stopped() const { return stopped_; }
  // [setup] Records taps from now on; null stops. Recording allocates, and computes everything: a
  // tap shows what its own run computed.
  void record_to(TapRecorder* taps) { taps_ = taps; }
  const PiModel& model() const { return *model_; }

 private:
  PiRun() = default;
  struct Sizes;
  // What keys and values are kept in.
  DType kv_type() const {
    const Precision p = model_->options.precision;
    return p == Precision::kF32 || p == Precision::kStored ? DType::kF32 : DType::kBf16;
  }
  void take_views(const Sizes& sizes);
  void place_views(std::span<const uint8_t* const> views) noexcept;
  int64_t find_slot(const uint8_t* rgb) const noexcept;
  int64_t free_slot() const noexcept;
  void compute_views(std::span<const PiPixels> views) noexcept;
  void encode_computed(std::span<const PiPixels> views) noexcept;
  void keep_prefix(std::span<const int32_t> tokens) noexcept;
  bool same_prefix(std::span<const int32_t> tokens) const noexcept;
  void patchify(const PiPixels& pixels, View<float> patches) noexcept;
  void guide(int64_t step, const PiGuidance& guidance) noexcept;
  void place_hard_prefix() noexcept;
  bool stop_here() noexcept;
  void drop_kept() noexcept;
  int64_t suffix_rows() const { return n_extra_ + model_->config.suffix_tokens(); }
  // Rows of the suffix that share a time: [first, first + n), and the row of the model's tables.
  struct TimedRows {
    int64_t first = 0, n = 0, time = 0;
  };
  size_t timed_rows(int64_t step, TimedRows out[3]) const noexcept;
  void vision_layer(const VisionLayer& layer, int64_t n_views) noexcept;
  void backbone_layer(size_t i) noexcept;
  void embed_text(std::span<const int32_t> tokens, float* out) noexcept;
  void embed_suffix(int64_t step) noexcept;
  void expert_layer(size_t i, int64_t step) noexcept;
  // Where rows stand: slot in the cache and position of the first one, keys that exist then, and
  // the first row that asks (those in front of it leave keys and values only).
  struct Place {
    int64_t slot = 0, position = 0, n_keys = 0, asks_from = 0;
  };
  void attend(const GemmaConfig& config, View<float> qkv, const KvCache& cache, const Place& place,
              const int32_t* visible, View<float> out) noexcept;
  void finish_layer(const GemmaLayer& layer, View<float> attended, View<float> x) noexcept;
  void keep_last_row() noexcept;
  void answer_layer(size_t i) noexcept;
  void tap(const char* name, int64_t index, View<const float> rows);
  void tap_cache(size_t layer);

  std::shared_ptr<const PiModel> model_;
  Ops* ops_ = nullptr;
  Arena arena_;
  RopeTable rope_;
  TapRecorder* taps_ = nullptr;
  const std::atomic<bool>* stop_wish_ = nullptr;
  bool stopped_ = false;
  int64_t n_views_ = 0, n_prefix_ = 0;
  float pixel_[256] = {};  // u8 / 255 * 2 - 1

  // Named views of the arena. m: rows in use, set per pass.
  float *patches_ = nullptr, *vision_h_ = nullptr, *vision_y_ = nullptr, *vision_qkv_ = nullptr,
        *vision_mlp_ = nullptr;
  KvCache vision_cache_;
  float *prefix_ = nullptr, *prefix_y_ = nullptr, *prefix_qkv_ = nullptr, *prefix_att_ = nullptr,
        *prefix_mlp_ = nullptr;
  std::span<KvCache> caches_;  // one a layer; prefix first, suffix behind it
  float *suffix_ = nullptr, *suffix_y_ = nullptr, *suffix_qkv_ = nullptr, *suffix_att_ = nullptr,
        *suffix_mlp_ = nullptr, *state_token_ = nullptr, *velocity_ = nullptr;
  std::span<int32_t> visible_;  // keys each suffix token sees
  std::span<float> x_;
  std::span<float> hard_chunk_, extra_;
  int64_t n_hard_ = 0, n_extra_ = 0;
  // PI0-FAST: the prefix's last row behind the last layer, the row that is being answered, and what
  // the head makes of it.
  std::span<float> last_row_, answer_row_, logits_;
  int64_t n_answered_ = 0, answer_gap_ = 1;

  // What is kept: one slot a view holds pixels and the tokens they became. A view is found by its
  // pixels, in whatever slot they lie, so views that change places are found as well.
  static constexpr int64_t kMaxSlots = 8, kNoSlot = -1;
  struct Slot {
    uint8_t* pixels = nullptr;
    float* tokens = nullptr;
    bool filled = false;
  };
  bool reuse_ = false;
  int64_t n_slots_ = 0;
  Slot slots_[kMaxSlots];
  int64_t slot_of_view_[kMaxSlots] = {};
  // The prefix whose keys and values lie in caches_.
  bool prefix_kept_ = false;
  bool views_placed_ = false;  // the views of this pass lie in slots
  int64_t prefix_views_ = 0, prefix_slots_[kMaxSlots] = {};
  std::span<int32_t> prefix_ids_;
  size_t n_prefix_ids_ = 0;
  ReuseCounts reuse_counts_;
};

}  // namespace outrider
