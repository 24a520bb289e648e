// The open configuration of families llm and mllm: strict, every key known, every value in range.
// Source: model-runtime ABI section 14, cli-and-config.md 1.
#pragma once
#include <cstdint>
#include <string>

#include "base/json.h"
#include "base/result.h"
#include "models/llm_run.h"
#include "providers/gguf/pi_open_config.h"

namespace outrider {

struct LlmOpenConfig {
  std::string model_path, backend;
  std::string mmproj_path;  // of family mllm, which it makes the configuration one of
  int64_t n_ctx = 0;        // 0: 4096
  int64_t n_threads = 0;    // <= 0: all that this process may use
  float temp = 0;           // <= 0: greedy
  int64_t top_k = 0;        // <= 0: off
  float top_p = 0;          // <= 0: off
  int64_t seed = 0;         // 0: one from the system
  int64_t max_tokens = 0;   // 0: 512
  // Optional keys; the defaults below are those of an absent key.
  // Text models compute the same in both; neighbouring pictures of one size may become a clip.
  NumericsChoice numerics = NumericsChoice::kReference;
  PrecisionChoice precision = PrecisionChoice::kAuto;
  bool staged = true;        // plan "staged": reset, prefill, decode; "infer": the whole at once
  bool reuse = false;        // a new prompt keeps what it shares with the last; never changes a bit
  bool kv_8bit = false;      // keys and values in 8 bits
  bool pin_threads = false;  // each compute thread on a CPU of its own; never changes a result
  int64_t rt_priority = 0;   // 1..99: SCHED_FIFO for the compute threads; 0: none
  std::string cache_dir;     // digests are kept there; "": nothing is kept
  std::string schema_path;   // a JSON schema that what is written follows; "": anything

  // Family mllm.
  bool any_sizes = false;    // pictures of one call may differ in size
  bool tokens_port = false;  // a further input: ids, -1 in the place of a picture

  bool sees() const { return !mmproj_path.empty(); }
  const char* family() const { return sees() ? "mllm" : "llm"; }
  int64_t context() const { return n_ctx == 0 ? 4096 : n_ctx; }
  int64_t budget() const { return max_tokens == 0 ? 512 : max_tokens; }
};

// `json` is the parsed flat object with model_family "llm", or "mllm". Errors: kInvalid naming key,
// value found, value allowed; kUnsupported for a backend other than "cpu".
Result<LlmOpenConfig> read_llm_open_config(const Json& json);
Result<LlmOpenConfig> read_mllm_open_config(const Json& json);

}  // namespace outrider
