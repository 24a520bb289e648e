// Writes text models with random weights: for tests, benchmarks and a chat that needs no download.
// Every key and tensor of a converted checkpoint is there. Source: gguf-models.md C.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/output_file.h"
#include "base/result.h"
#include "models/llm_config.h"
#include "tensor/dtype.h"

namespace outrider {

struct SyntheticLlm {
  LlmArch arch = LlmArch::kLlama;
  // False: about a million weights. True: 28 layers of 1536, as a model of 1.5 billion weights has
  // them (1.36 billion here, its vocabulary being smaller): 0.8 GB in Q4_K, 2.7 GB in F16.
  bool full = false;
  DType dtype = DType::kF16;  // of the matrices; F16 where a row is no multiple of its block
  uint64_t seed = 1;          // same seed, same bytes
  int32_t end_of_turn = 107;  // the id that ends generation beside eos
  std::vector<std::string> control_pieces = {};  // from id 4 on, at most 62
};

LlmConfig synthetic_llm_config(const SyntheticLlm& what);

// The vocabulary is that of synthetic policies; a chat template with its turns is inside. Nothing
// is left behind on failure. Errors: kUnsupported (dtype cannot be a weight), those of GgufWriter.
Result<void> write_synthetic_llm(const SyntheticLlm& what, const char* path);
// The same, not yet in its place.
Result<OutputFile> stage_synthetic_llm(const SyntheticLlm& what, const char* path);

}  // namespace outrider
