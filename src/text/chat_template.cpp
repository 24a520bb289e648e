#include "text/chat_template.h"

#include <new>

#include "base/printable.h"
#include "base/utf8.h"
#include "text/jinja/evaluator.h"
#include "text/jinja/syntax.h"

namespace outrider {

struct ChatTemplate::Program {
  std::unique_ptr<jinja::Node> root;
  Limits limits;
};

namespace {

using jinja::Kind;
using jinja::MarkedText;
using jinja::Value;

Error error_of(const jinja::Fault& fault) {
  return make_error(fault.code, "chat template line %u: %s", fault.line,
                    printable(fault.text, 400).c_str());
}

Value foreign(const std::string& text) {
  return Value::text(MarkedText(text, true));
}

// Later members take the place of earlier ones.
void put(Value::Dict& members, const std::string& name, Value value) {
  for (auto& [key, old] : members) {
    if (key != name) continue;
    old = std::move(value);
    return;
  }
  members.emplace_back(name, std::move(value));
}

Value message_value(const ChatMessage& message) {
  Value::Dict members;
  put(members, "role", foreign(message.role));
  if (message.parts.empty()) {
    put(members, "content", foreign(message.content));
  } else {
    Value::List parts;
    for (const ChatPart& part : message.parts) {
      if (part.image) {
        parts.push_back(Value::dict({{"type", Value::text(std::string("image"))}}));
      } else {
        parts.push_back(Value::dict(
            {{"type", Value::text(std::string("text"))}, {"text", foreign(part.text)}}));
      }
    }
    put(members, "content", Value::list(std::move(parts)));
  }
  if (message.more != nullptr)
    for (const Json::Member& member : message.more->members())
      put(members, member.name, Value::from_json(member.value));
  return Value::dict(std::move(members));
}

Value::Dict variables_of(const ChatRequest& request) {
  Value::Dict variables;
  if (request.variables != nullptr)
    for (const Json::Member& member : request.variables->members())
      put(variables, member.name, Value::from_json(member.value));
  Value::List messages;
  for (const ChatMessage& message : request.messages) messages.push_back(message_value(message));
  put(variables, "messages", Value::list(std::move(messages)));
  put(variables, "add_generation_prompt", Value::boolean(request.add_generation_prompt));
  put(variables, "bos_token", Value::text(request.bos_token));
  put(variables, "eos_token", Value::text(request.eos_token));
  put(variables, "tools",
      request.tools != nullptr ? Value::from_json(*request.tools) : Value::none());
  return variables;
}

bool all_utf8(const ChatRequest& request) {
  for (const ChatMessage& message : request.messages) {
    if (!utf8_valid(message.role) || !utf8_valid(message.content)) return false;
    for (const ChatPart& part : message.parts)
      if (!utf8_valid(part.text)) return false;
  }
  return utf8_valid(request.bos_token) && utf8_valid(request.eos_token);
}

}  // namespace

Result<ChatTemplate> ChatTemplate::parse(std::string_view source) {
  return parse(source, Limits{});
}

Result<ChatTemplate> ChatTemplate::parse(std::string_view source, const Limits& limits) {
  if (source.size() > limits.max_source_bytes)
    return make_error(Code::kInvalid, "chat template: %zu bytes, at most max_source_bytes %zu",
                      source.size(), limits.max_source_bytes);
  if (!utf8_valid(source)) return make_error(Code::kInvalid, "chat template: not valid UTF-8");
  try {
    auto program = std::make_unique<Program>();
    program->limits = limits;
    program->root = jinja::parse(source, limits.max_depth);
    return ChatTemplate(std::move(program));
  } catch (const jinja::Fault& fault) {
    return error_of(fault);
  } catch (const std::bad_alloc&) {
    return make_error(Code::kNoMemory, "chat template: no memory for it");
  }
}

Result<RenderedChat> ChatTemplate::render(const ChatRequest& request) const {
  const Limits& limits = program_->limits;
  if (!all_utf8(request)) return make_error(Code::kInvalid, "chat: a message is not valid UTF-8");
  try {
    jinja::Evaluator evaluator({.max_steps = limits.max_steps,
                                .max_bytes = limits.max_output_bytes,
                                .max_depth = 2 * limits.max_depth,
                                .now_s = request.now_s},
                               variables_of(request));
    const MarkedText text = evaluator.render(*program_->root);
    return RenderedChat{text.text(), text.foreign()};
  } catch (const jinja::Fault& fault) {
    return error_of(fault);
  } catch (const std::bad_alloc&) {
    return make_error(Code::kNoMemory, "chat template: no memory to render it");
  }
}

ChatTemplate::ChatTemplate(std::unique_ptr<Program> program) : program_(std::move(program)) {}
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;
ChatTemplate::~ChatTemplate() = default;

}  // namespace outrider
