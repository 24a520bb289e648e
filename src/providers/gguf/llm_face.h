// The llm and mllm faces: ports, stages, stale rules. Source: model-runtime ABI sections 12, 13.2,
// 13.3, 25.
//
// [hot] verbs never allocate, lock, throw or print. One instance belongs to one thread at a time.
#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "providers/gguf/llm_session.h"

namespace outrider {

enum class LlmRole : uint8_t { kImages, kPrompt, kText, kNextToken, kLogits, kIsEog, kTokens };

struct LlmPort {
  LlmRole role;
  const char* name;
  bool is_input;
};

class LlmFace {
 public:
  // Private numbers of the stages; a host passes what the plan publishes.
  static constexpr uint32_t kInferRef = 37, kResetRef = 4, kPrefillRef = 91, kDecodeRef = 113;

  // [setup] Errors: those of every part.
  static Result<std::unique_ptr<LlmFace>> open(const LlmOpenConfig& config);

  // In the order of their numbers.
  const std::vector<LlmPort>& ports() const { return ports_; }

  // [hot] Verbs of the ABI.
  Code set_input(uint32_t port, const void* data, uint64_t bytes) noexcept;
  Code get_output(uint32_t port, void* out, uint64_t capacity, uint64_t* written) noexcept;
  Code run_stage(uint32_t executor_ref) noexcept;
  Code step() noexcept { return finish(session_->infer()); }
  Code prepare_graph() noexcept;  // no graph variants: always kUnsupported
  const char* last_error() const noexcept { return session_->error(); }

  bool staged() const { return session_->open_config().staged; }
  // All pairs of the identity, in order.
  std::vector<std::pair<std::string, std::string>> identity() const;
  LlmSession& session() { return *session_; }
  const LlmSession& session() const { return *session_; }

 private:
  explicit LlmFace(std::unique_ptr<LlmSession> session);
  Code refuse_port(const char* verb, uint32_t port, bool inputs) noexcept;
  Code stage(const LlmPort& port, std::span<const std::byte> bytes) noexcept;
  Code finish(Code code) noexcept;
  Code not_ready(const char* port) noexcept;
  Code copy(const char* port, const void* from, uint64_t bytes, void* out, uint64_t capacity,
            uint64_t* written) noexcept;
  Code get_text(void* out, uint64_t capacity, uint64_t* written) noexcept;

  std::unique_ptr<LlmSession> session_;
  std::vector<LlmPort> ports_;
  std::string inputs_, outputs_;  // "prompt (0) and tokens (5)"
};

}  // namespace outrider
