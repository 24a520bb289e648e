#include "providers/gguf/fast_runtime.h"

#include <cstdio>

namespace outrider {
namespace {

constexpr const char* kUndecodableNames[] = {"refuse", "zeros", "fit"};

FastAnswer::Rule fast_rule(const PolicyDescription& robot) {
  return {.lerobot = lerobot_fast(robot, PiFamily::kPi0Fast),
          .fit = robot.action_tokens.undecodable == Undecodable::kFit};
}

}  // namespace

Result<std::unique_ptr<PiFace>> FastRuntime::open(const PiOpenConfig& config,
                                                  std::shared_ptr<const PiFiles> files) {
  if (config.numerics == NumericsChoice::kJetsonPi)
    return make_error(Code::kUnsupported,
                      "config: numerics is \"jetson-pi\", which has no PI0-FAST; allowed is "
                      "\"reference\"");
  if (config.num_steps > 0)
    return make_error(Code::kInvalid,
                      "config: num_steps is %lld, but PI0-FAST has no Euler steps; leave it out",
                      static_cast<long long>(config.num_steps));
  const PiConfig& model = files->config;
  auto answer = FastAnswer::make(files->tokenizer, *files->action_tokens, model.action_steps,
                                 model.action_dim, model.answer_tokens, fast_rule(*files->robot));
  if (!answer) return answer.error();
  std::unique_ptr<FastRuntime> runtime(new FastRuntime(std::move(answer.value())));
  runtime->ids_.resize(static_cast<size_t>(model.answer_tokens));
  runtime->chunk_.resize(static_cast<size_t>(model.action_steps * model.action_dim));
  const bool lerobot = lerobot_fast(*files->robot, model.family);
  OUTRIDER_TRY(runtime->open_robot(config, std::move(files)));
  runtime->engine_->set_answer_gap(lerobot ? 0 : 1);
  return std::unique_ptr<PiFace>(std::move(runtime));
}

Code FastRuntime::write_answer() noexcept {
  PiEngine& engine = *engine_;
  n_ids_ = 0;
  ended_ = false;
  for (int32_t id = -1; n_ids_ < ids_.size() && !ended_;) {
    if (engine.cancelled()) return refuse_cancelled("action");
    id = engine.next_token(id);
    if (id < 0) {
      engine.counters().nonfinite_outputs.fetch_add(1, std::memory_order_relaxed);
      return fail(Code::kFailed,
                  "action: the model's output for token %zu holds NaN or infinite values; check "
                  "weights and inputs",
                  n_ids_);
    }
    ids_[n_ids_++] = id;
    ended_ = answer_.ends(id);
  }
  engine.counters().answer_tokens.store(static_cast<int64_t>(n_ids_), std::memory_order_relaxed);
  return Code::kOk;
}

Code FastRuntime::undecodable(const FastAnswer::Verdict& verdict) noexcept {
  engine_->counters().undecodable_answers.fetch_add(1, std::memory_order_relaxed);
  const Undecodable rule = robot().action_tokens.undecodable;
  if (rule == Undecodable::kZeros) return Code::kOk;
  if (rule == Undecodable::kFit && verdict.fault == FastAnswer::Fault::kCount) return Code::kOk;
  const PiConfig& c = pi_config();
  char what[160] = "";
  switch (verdict.fault) {
    case FastAnswer::Fault::kNone:
      return Code::kOk;
    case FastAnswer::Fault::kText:
      std::snprintf(what, sizeof what, "it is no UTF-8 text of at most %zu bytes",
                    FastAnswer::kMaxTextBytes);
      break;
    case FastAnswer::Fault::kNoCue:
      std::snprintf(what, sizeof what, "it does not hold \"Action: \"");
      break;
    case FastAnswer::Fault::kNoAction:
      std::snprintf(what, sizeof what, "place %lld of the action holds id %lld, allowed %lld..%lld",
                    static_cast<long long>(verdict.at), static_cast<long long>(verdict.found),
                    static_cast<long long>(answer_.least_id()),
                    static_cast<long long>(answer_.most_id()));
      break;
    case FastAnswer::Fault::kCharacter:
      std::snprintf(what, sizeof what, "its action tokens end inside a character");
      break;
    case FastAnswer::Fault::kCount:
      std::snprintf(what, sizeof what, "it has %lld coefficients, wanted %lld (%lld rows of %lld)",
                    static_cast<long long>(verdict.found),
                    static_cast<long long>(c.action_steps * c.action_dim),
                    static_cast<long long>(c.action_steps), static_cast<long long>(c.action_dim));
      break;
  }
  return fail(Code::kFailed,
              "action: the model's answer of %zu tokens%s is no chunk: %s; nothing is delivered "
              "(policy.json: action_tokens.undecodable \"zeros\" gives openpi's chunk of zeros, "
              "\"fit\" LeRobot's cut or filled one)",
              n_ids_, ended_ ? "" : " (cut off there)", what);
}

// Recording may allocate.
void FastRuntime::tap_answer() {
  const std::vector<float> ids(ids_.begin(), ids_.begin() + static_cast<int64_t>(n_ids_));
  engine_->tap("answer", View<const float>(ids.data(), 1, static_cast<int64_t>(ids.size())));
  const auto coefficients = answer_.coefficients();
  engine_->tap("coefficients", View<const float>(coefficients.data(), 1,
                                                 static_cast<int64_t>(coefficients.size())));
}

Code FastRuntime::action() noexcept {
  if (const Code code = write_answer(); code != Code::kOk) return code;
  const auto verdict = answer_.read(std::span<const int32_t>(ids_).first(n_ids_), chunk_);
  if (engine_->taps_on()) tap_answer();
  if (verdict.fault != FastAnswer::Fault::kNone) {
    if (const Code code = undecodable(verdict); code != Code::kOk) return code;
  }
  if (!pipeline().finish(chunk_, actions_)) return refuse_nonfinite();
  return Code::kOk;
}

std::string FastRuntime::describe_own() const {
  const PiConfig& c = pi_config();
  char text[240];
  std::snprintf(text, sizeof text,
                ",\"action_tokens\":{\"most\":%lld,\"least_id\":%lld,\"most_id\":%lld,"
                "\"rule\":\"%s\",\"undecodable\":\"%s\"}",
                static_cast<long long>(c.answer_tokens), static_cast<long long>(answer_.least_id()),
                static_cast<long long>(answer_.most_id()),
                fast_rule(robot()).lerobot ? "lerobot" : "openpi",
                kUndecodableNames[static_cast<size_t>(robot().action_tokens.undecodable)]);
  return text;
}

}  // namespace outrider
