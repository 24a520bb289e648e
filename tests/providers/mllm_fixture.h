// A tiny vision-language pair on disk and provider_gguf.so opened through the plain C ABI.
#pragma once
#include <string>
#include <vector>

#include "models/synthetic_vlm.h"
#include "providers/llm_fixture.h"

namespace outrider::test {

struct PairPaths {
  std::string text, vision;
};
// Paths of a synthetic pair, written once per program.
const PairPaths& tiny_pair(VlmKind kind, DType dtype = DType::kF16);

struct MllmSpec {
  std::string model, mmproj;
  int64_t n_ctx = 256, n_threads = 1, max_tokens = 16, seed = 1, top_k = 0;
  double temp = 0, top_p = 0;
  std::string extra = {};
};
MllmSpec tiny_mllm(VlmKind kind, std::string extra = {});
std::string config_json(const MllmSpec& spec);

// A picture of its own; seed and size decide every pixel.
struct Picture {
  int32_t width = 0, height = 0;
  std::vector<uint8_t> rgb;
  static Picture make(int32_t width, int32_t height, uint32_t seed = 1);
  frt_image_view view() const;
};

class MllmProvider : public LlmProvider {
 public:
  enum Port : uint32_t { kImages, kPrompt, kText, kNextToken, kLogits, kIsEog, kTokens };
  explicit MllmProvider(const MllmSpec& spec) : LlmProvider(config_json(spec), kPrompt) {}
  int images(const std::vector<Picture>& pictures) const;
};

}  // namespace outrider::test
