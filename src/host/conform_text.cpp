// The llm and mllm faces. ABI text 13.2 and 13.3.
#include <cstring>

#include "host/conform_face.h"

namespace outrider::host::conformance {
namespace {

// Budgets beyond this are not run to their end.
constexpr int64_t kMaxDecodes = 64;

// Port and stage numbers of a staged text face.
struct Staged {
  uint32_t text, next_token, logits, is_eog, prefill, decode, reset;
  int64_t max_tokens;
};

std::optional<Staged> staged(Bench& b, Verdict& v) {
  if (!b.is_text()) return v.skip("model_family is neither llm nor mllm"), std::nullopt;
  const auto text = b.main->port("text"), token = b.main->port("next_token"),
             logits = b.main->port("logits"), eog = b.main->port("is_eog"),
             prefill = b.main->stage("prefill"), decode = b.main->stage("decode"),
             reset = b.main->stage("reset");
  if (!text || !token || !logits || !eog || !prefill || !decode || !reset)
    return v.skip("no staged decoding"), std::nullopt;
  const int64_t budget = b.integer_key("max_tokens").value_or(0);
  return Staged{*text,    *token,  *logits, *eog,
                *prefill, *decode, *reset,  budget == 0 ? 512 : budget};
}

void ports(Bench& b, Verdict& v) {
  if (!b.is_text()) return v.skip("model_family is neither llm nor mllm");
  const auto text = [](const char* name, uint32_t direction) {
    return FacePort{name,      FRT_MODALITY_TEXT,        FRT_DTYPE_U8, FRT_LAYOUT_FLAT,
                    direction, direction == FRT_PORT_IN, {-1}};
  };
  const auto tensor = [](const char* name, uint32_t dtype, uint32_t direction, int64_t n) {
    return FacePort{name, FRT_MODALITY_TENSOR, dtype, FRT_LAYOUT_FLAT, direction, 0, {n}};
  };
  std::vector<FacePort> want;
  if (b.family() == "mllm")
    want.push_back({"images",
                    FRT_MODALITY_IMAGE,
                    FRT_DTYPE_U8,
                    FRT_LAYOUT_NHWC,
                    FRT_PORT_IN,
                    1,
                    {-1, -1, -1, 3}});
  want.push_back(text("prompt", FRT_PORT_IN));
  want.push_back(text("text", FRT_PORT_OUT));
  if (b.main->stages().size() > 1) {
    want.push_back(tensor("next_token", FRT_DTYPE_I32, FRT_PORT_OUT, 1));
    want.push_back(tensor("logits", FRT_DTYPE_F32, FRT_PORT_OUT, -1));
    want.push_back(tensor("is_eog", FRT_DTYPE_I32, FRT_PORT_OUT, 1));
    if (b.family() == "llm") want.push_back(tensor("tokens", FRT_DTYPE_I32, FRT_PORT_IN, -1));
  }
  expect_ports(b, v, want);
}

void plan(Bench& b, Verdict& v) {
  if (!b.is_text()) return v.skip("model_family is neither llm nor mllm");
  if (b.main->stages().size() == 1) return expect_stages(b, v, {{"infer", 37, {}}});
  expect_stages(b, v, {{"reset", 4, {}}, {"prefill", 91, {0}}, {"decode", 113, {1}}});
}

bool run(Bench& b, Verdict& v, uint32_t stage) {
  const int code = b.main->run_stage(stage);
  if (code != 0)
    v.fail("%s answered %d: %s", b.main->stages()[stage].name, code, b.main->error().c_str());
  return code == 0;
}

bool start(Bench& b, Verdict& v, const Staged& s) {
  return b.stage_all(*b.main, v) && run(b, v, s.prefill);
}

void expect_not_ready(Bench& b, Verdict& v, uint32_t port, const char* when) {
  if (const int code = b.main->read(port).code; code != FRT_ERR_NOT_READY)
    v.fail("%s answered %d %s, not ready is -7", b.main->ports()[port].name, code, when);
}

int32_t integer(const Output& out) {
  int32_t value = -1;
  if (out.code == 0 && out.bytes.size() == sizeof value)
    std::memcpy(&value, out.bytes.data(), sizeof value);
  return value;
}

void prefill_leaves_logits(Bench& b, Verdict& v) {
  const auto s = staged(b, v);
  if (!s || !start(b, v, *s)) return;
  const Output logits = b.main->read(s->logits);
  if (logits.code != 0 || logits.bytes.size() < sizeof(float))
    v.fail("logits answered %d with %zu bytes after prefill", logits.code, logits.bytes.size());
  expect_not_ready(b, v, s->next_token, "after prefill, before any decode");
  const Output text = b.main->read(s->text);
  if (text.code == 0 && !text.bytes.empty())
    v.fail("%zu bytes of text after prefill alone", text.bytes.size());
  if (!run(b, v, s->decode)) return;
  if (integer(b.main->read(s->next_token)) < 0) v.fail("next_token is not readable after a decode");
  const int32_t eog = integer(b.main->read(s->is_eog));
  if (eog != 0 && eog != 1) v.fail("is_eog is %d after a decode, known are 0 and 1", eog);
  const Output after = b.main->read(s->logits);
  if (eog == 1)
    expect_not_ready(b, v, s->logits, "after end of generation");
  else if (after.code != 0 || after.bytes.size() != logits.bytes.size())
    v.fail("logits answered %d with %zu bytes after a decode, %zu after prefill", after.code,
           after.bytes.size(), logits.bytes.size());
}

void decode_needs_a_session(Bench& b, Verdict& v) {
  const auto s = staged(b, v);
  if (!s || !start(b, v, *s) || !run(b, v, s->decode) || !run(b, v, s->reset)) return;
  for (const uint32_t port : {s->next_token, s->logits, s->is_eog})
    expect_not_ready(b, v, port, "after reset");
  if (const int code = b.main->run_stage(s->decode); code >= 0)
    v.fail("decode after reset answered %d", code);
  if (!start(b, v, *s) || !b.stage_all(*b.main, v, 1)) return;
  if (const int code = b.main->run_stage(s->decode); code >= 0)
    v.advise("decode answered %d after a new prompt without prefill", code);
}

// Decodes to the end of generation or of the budget; false when something failed.
bool decode_to_end(Bench& b, Verdict& v, const Staged& s, bool* eog, int64_t* n) {
  for (*n = 0, *eog = false; *n < s.max_tokens && !*eog; ++*n) {
    if (!run(b, v, s.decode)) return false;
    *eog = integer(b.main->read(s.is_eog)) == 1;
  }
  return true;
}

void budget_is_kept(Bench& b, Verdict& v) {
  const auto s = staged(b, v);
  if (!s) return;
  if (s->max_tokens > kMaxDecodes) return v.skip("max_tokens above 64 takes too long here");
  bool eog = false;
  int64_t n = 0;
  if (!start(b, v, *s) || !decode_to_end(b, v, *s, &eog, &n)) return;
  const int32_t token = integer(b.main->read(s->next_token));
  if (eog) {
    if (token < 0) v.fail("next_token is not readable after end of generation");
    expect_not_ready(b, v, s->logits, "after end of generation");
    if (b.main->read(s->text).code != 0) v.fail("the text is lost after end of generation");
  }
  const int code = b.main->run_stage(s->decode);
  if (code >= 0)
    v.fail("decode %d answered %d, the budget or the text was at its end", static_cast<int>(n) + 1,
           code);
  if (!eog) {
    if (b.main->error().find("max_tokens") == std::string::npos)
      v.fail("last_error does not say max_tokens when the budget is used up: %.200s",
             b.main->error().c_str());
    for (const uint32_t port : {s->next_token, s->is_eog, s->logits})
      expect_not_ready(b, v, port, "after the budget was used up");
  }
  if (!run(b, v, s->prefill) || !run(b, v, s->decode))
    v.fail("prefill does not restore the budget");
}

void step_writes_the_staged_text(Bench& b, Verdict& v) {
  const auto s = staged(b, v);
  if (!s) return;
  if (b.number_key("temp", 0) > 0) return v.skip("only greedy sampling promises equal text");
  if (s->max_tokens > kMaxDecodes) return v.skip("max_tokens above 64 takes too long here");
  bool eog = false;
  int64_t n = 0;
  if (!start(b, v, *s) || !decode_to_end(b, v, *s, &eog, &n)) return;
  const Output by_stages = b.main->read(s->text);
  if (!b.stage_all(*b.main, v)) return;
  if (const int code = b.main->step(); code != 0) {
    if (code == FRT_ERR_UNSUPPORTED) return v.skip("no step verb");
    return v.fail("step answered %d: %s", code, b.main->error().c_str());
  }
  const Output whole = b.main->read(s->text);
  const bool both_empty = by_stages.bytes.empty() && whole.bytes.empty();
  if (!both_empty && whole != by_stages)
    v.fail("step wrote %zu bytes of text (%d), the stages %zu (%d)", whole.bytes.size(), whole.code,
           by_stages.bytes.size(), by_stages.code);
  for (const uint32_t port : {s->next_token, s->logits}) expect_not_ready(b, v, port, "after step");
}

void tokens_replace_the_prompt(Bench& b, Verdict& v) {
  const auto s = staged(b, v);
  if (!s) return;
  const auto tokens = b.main->port("tokens");
  if (!tokens) return v.skip("no tokens port");
  if (!start(b, v, *s) || !run(b, v, s->decode)) return;
  const Output by_prompt = b.main->read(s->next_token);
  const int32_t ids[] = {integer(by_prompt), integer(by_prompt)};
  if (b.main->set(*tokens, ids, sizeof ids) != 0)
    return v.fail("tokens {%d, %d} were refused: %s", ids[0], ids[1], b.main->error().c_str());
  if (!run(b, v, s->prefill) || !run(b, v, s->decode)) return;
  for (const uint64_t bytes : {1, 3, 5})
    if (b.main->set(*tokens, ids, bytes) >= 0)
      v.fail("tokens of %d bytes were accepted", static_cast<int>(bytes));
  if (!start(b, v, *s) || !run(b, v, s->decode) || b.may_vary()) return;
  if (b.main->read(s->next_token) != by_prompt)
    v.fail("the prompt does not replace tokens that were staged before");
}

void no_images_means_text_only(Bench& b, Verdict& v) {
  if (b.family() != "mllm") return v.skip("model_family is not mllm");
  const auto images = b.main->port("images");
  if (!images || !b.stage_all(*b.main, v)) return;
  const char any = 0;
  for (const void* pointer : {static_cast<const void*>(nullptr), static_cast<const void*>(&any)}) {
    if (b.main->set(*images, pointer, 0) != 0)
      return v.fail("images of 0 bytes were refused: %s", b.main->error().c_str());
    if (const int code = b.main->tick(); code != 0)
      return v.fail("a tick without pictures answered %d: %s", code, b.main->error().c_str());
  }
}

constexpr Check kChecks[] = {
    {"text: the ports of the family", Check::kSound, ports},
    {"text: the plan", Check::kSound, plan},
    {"text: prefill leaves logits, decode a token", Check::kSound, prefill_leaves_logits},
    {"text: decode needs a session", Check::kSound, decode_needs_a_session},
    {"text: max_tokens bounds the decodes", Check::kSound, budget_is_kept},
    {"text: step writes what the stages write", Check::kSound, step_writes_the_staged_text},
    {"text: tokens and prompt replace each other", Check::kSound, tokens_replace_the_prompt},
    {"text: no pictures means text only", Check::kSound, no_images_means_text_only},
};

}  // namespace

std::span<const Check> text_checks() {
  return kChecks;
}

}  // namespace outrider::host::conformance
