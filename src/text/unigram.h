// Unigram segmentation: the pieces whose scores have the largest sum.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/tokenizer.h"

namespace outrider {

struct UnigramScratch {
  struct Best {
    double score = 0;
    uint32_t from = 0;  // where the last piece of the best way here begins
    int32_t id = -1;
    uint32_t to = 0;  // free for the caller
  };
  explicit UnigramScratch(size_t max_bytes) : best(max_bytes + 1) {}
  std::vector<Best> best;  // per byte
};

class Unigram {
 public:
  static constexpr int32_t kUnknown = -1;  // one character that no piece covers

  // [setup] Normal and user-defined pieces take part. Errors: kUnsupported (more text than an
  // index of 32 bits can hold).
  Result<void> build(std::span<const Piece> pieces);

  // [hot] The best way through valid UTF-8, back to front: calls nothing, leaves for each end of a
  // piece scratch.best[end]. Ties: the longest last piece. A character without a piece costs ten
  // below the lowest score.
  void run(std::string_view text, UnigramScratch& scratch) const noexcept;

 private:
  struct Slot {
    uint64_t key = UINT64_MAX;  // node << 8 | byte
    uint32_t child = 0;
  };
  uint32_t step(uint32_t node, uint8_t byte) const noexcept;
  uint32_t insert(uint32_t node, uint8_t byte);
  void grow();
  size_t home(uint64_t key) const noexcept;

  std::vector<Slot> slots_;
  struct End {
    int32_t id = -1;
    float score = 0;
  };
  std::vector<End> ends_;  // per node
  double unknown_score_ = 0;
  size_t n_used_ = 0;
};

}  // namespace outrider
