// Chat templates: the Jinja subset that templates stored with models use, with bounds on steps,
// depth and output. No input or output of its own, no attribute access beyond the values given.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "text/language_tokenizer.h"

namespace outrider {

struct ChatPart {
  bool image = false;  // an image: {"type": "image"}; else {"type": "text", "text": text}
  std::string text;
};

struct ChatMessage {
  std::string role;
  std::string content;
  std::vector<ChatPart> parts = {};  // not empty: content is the list of these instead
  const Json* more = nullptr;        // an object: further members (tool_calls, name ...)
};

struct ChatRequest {
  std::vector<ChatMessage> messages;
  bool add_generation_prompt = true;
  std::string bos_token, eos_token;  // texts of the model's own pieces
  const Json* tools = nullptr;       // an array
  const Json* variables = nullptr;   // an object: what else the template may ask for
  int64_t now_s = 0;                 // for strftime_now, seconds since 1970 UTC
};

// What the template wrote. foreign: the parts that came from messages, tools and variables; give
// them to LanguageTokenizer::encode, so that no text of a user becomes a control piece.
struct RenderedChat {
  std::string text;
  std::vector<ForeignText> foreign;
};

class ChatTemplate {
 public:
  struct Limits {
    size_t max_source_bytes = size_t{1} << 18;
    uint32_t max_depth = 192;        // of nested statements, expressions and calls
    uint64_t max_steps = 1'000'000;  // evaluated nodes and 64-byte pieces copied, one rendering
    size_t max_output_bytes = size_t{8} << 20;
  };
  // [setup] Errors: kUnsupported naming line and what this build does not know, kInvalid (line,
  // what was found and expected; a limit by name).
  static Result<ChatTemplate> parse(std::string_view source);
  static Result<ChatTemplate> parse(std::string_view source, const Limits& limits);

  // [setup] Errors: kInvalid with the line: raise_exception of the template with its text, a wrong
  // type, a limit by name; kUnsupported: a filter, test or function met that is not known.
  Result<RenderedChat> render(const ChatRequest& request) const;

  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;
  ~ChatTemplate();

 private:
  struct Program;
  explicit ChatTemplate(std::unique_ptr<Program> program);
  std::unique_ptr<Program> program_;
};

}  // namespace outrider
