// What the commands know of text models: keys, a configuration derived from a file, a report, token
// ids, one answer.
#pragma once
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/config.h"
#include "cli/config_keys.h"
#include "cli/inspect.h"
#include "cli/session.h"
#include "gguf/gguf.h"

namespace outrider::cli {

std::span<const ConfigKey> llm_keys();
std::span<const ConfigKey> mllm_keys();
inline bool is_language(std::string_view family) {
  return family == "llm" || family == "mllm";
}

// The keys a run of this file needs: greedy, the file's own context up to 4096 tokens.
// Errors: those of reading.
// vision: path of the vision file; "": family llm.
Result<std::vector<Setting>> derive_llm(const GgufFile& file, const std::string& path,
                                        const std::string& vision);

// What the file is and whether this build runs it; with a vision file: whether it runs the pair.
void inspect_llm(Inspection& inspection, const GgufFile& file);
void inspect_vision(Inspection& inspection, const GgufFile& text, const GgufFile& vision,
                    Report head);
// What a vision file is by itself.
Report vision_sizes(const GgufFile& vision);

// Token ids of a text as the prompt port makes them, with their pieces. Errors: kInvalid (not
// UTF-8), those of the tokenizer.
Result<Report> inspect_llm_tokens(const GgufFile& file, const std::string& text);

// One answer to what is staged.
struct Answer {
  std::string text;
  std::vector<int32_t> ids;  // of a staged plan, the last of generation included
  const char* end = "";      // "eog" or "length"; "" where the plan does not tell
  int64_t n_prompt_tokens = 0;
  double prefill_ms = 0, decode_ms = 0;
};
// Does what a configuration opens follow a JSON schema? Then: is the answer a whole document?
bool follows_schema(const Resolved& resolved);
bool is_whole(const Answer& answer);
inline constexpr const char* kCutAnswer =
    "the answer ends before its JSON is whole: max_tokens or n_ctx is used up; raise it, or bound "
    "strings and lists of the schema";
// Runs it; `more` is given every new part of the text as it comes. Errors: of the stages.
Result<Answer> run_answer(Session& session, const std::function<void(std::string_view)>& more);

}  // namespace outrider::cli
