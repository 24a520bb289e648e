// outrider chat: a language model in the terminal.
#include <cstdio>

#include "cli/commands.h"
#include "cli/config.h"
#include "cli/flags.h"
#include "cli/llm_model.h"
#include "text/chat_template.h"
#include "text/language_tokenizer.h"

namespace outrider::cli {
namespace {

constexpr Flag kFlags[] = {
    {"--system", "T", nullptr, "What the model is told before the first line.", parse_text},
    {"--max-tokens", "N", nullptr, "Tokens of an answer at most (key max_tokens).", parse_count},
    {"--image", "P", nullptr, "Not in this build yet: models that see.", parse_text, true},
    kSeedFlag,
    kThreadsFlag,
    kSetFlag,
    kProviderFlag,
    kPrintConfigFlag,
    kJsonFlag,
};
constexpr Positional kPositionals[] = {
    {"FILE", "Model file (.gguf) with a chat template inside, or an open configuration of one."}};
constexpr size_t kMaxLineBytes = size_t{1} << 16;

// The conversation: what was said, and the ids that say it to the model.
class Conversation {
 public:
  static Result<Conversation> open(const std::string& model_path) {
    auto file = GgufFile::open(model_path.c_str());
    if (!file) return file.error();
    auto tokenizer = LanguageTokenizer::from_gguf(file.value());
    if (!tokenizer) return tokenizer.error();
    const std::string_view source = tokenizer.value().chat_template();
    if (source.empty())
      return make_error(Code::kUnsupported,
                        "%.300s: no tokenizer.chat_template inside, so how a conversation is "
                        "written is unknown; ask single prompts with outrider run",
                        model_path.c_str());
    auto chat = ChatTemplate::parse(source);
    if (!chat) return chat.error();
    return Conversation(std::move(tokenizer.value()), std::move(chat.value()));
  }

  void say(const char* role, const std::string& text) {
    request_.messages.push_back({.role = role, .content = text});
  }

  // Template text becomes special pieces, what people and the model said never does.
  Result<std::vector<int32_t>> ids() const {
    auto rendered = chat_.render(request_);
    if (!rendered) return rendered.error();
    TokenizeOptions options;
    options.add_special = options.bos_once = true;
    options.foreign = rendered.value().foreign;
    return tokenizer_.encode(rendered.value().text, options);
  }

 private:
  Conversation(LanguageTokenizer tokenizer, ChatTemplate chat)
      : tokenizer_(std::move(tokenizer)), chat_(std::move(chat)) {
    const auto text = [&](int32_t id) {
      return id < 0 ? std::string() : tokenizer_.piece(id).text;
    };
    request_.bos_token = text(tokenizer_.bos());
    request_.eos_token = text(tokenizer_.eos());
  }

  LanguageTokenizer tokenizer_;
  ChatTemplate chat_;
  ChatRequest request_;
};

Result<Answer> reply(Context& context, Session& session, const Conversation& conversation) {
  auto ids = conversation.ids();
  if (!ids) return ids.error();
  OUTRIDER_TRY(
      session.set_input("tokens", ids.value().data(), ids.value().size() * sizeof(int32_t)));
  auto answer = run_answer(session, [&](std::string_view part) {
    context.out.lines(shown_text(part));
    context.out.flush(kGood);
  });
  if (answer) context.out.lines("\n");
  context.out.flush(kGood);
  return answer;
}

// A line of standard input; false at its end.
bool next_line(Context& context, std::string& line) {
  if (context.out.stderr_is_terminal()) std::fputs("> ", stderr);
  line.clear();
  for (int c = 0; (c = std::fgetc(stdin)) != EOF;) {
    if (c == '\n') return true;
    if (line.size() < kMaxLineBytes) line += static_cast<char>(c);
  }
  return !line.empty();
}

int run(Context& context) {
  if (context.args.given("--image"))
    return context.fail(
        make_error(Code::kUnsupported, "chat: --image is not in this build yet; text models only"),
        kUsage);
  auto resolved = resolve(context.args.positional(0), wish_of(context.args, kChat));
  if (!resolved) return context.fail(resolved.error());
  if (resolved.value().family != "llm")
    return context.fail(make_error(
        Code::kUnsupported, "chat: %.200s is of family \"%.40s\"; a text model is wanted",
        context.args.positional(0).c_str(), resolved.value().family.c_str()));
  if (context.args.given("--print-config")) {
    print_settings(resolved.value(), context.out);
    context.out.document(settings_report(resolved.value()));
    return kGood;
  }
  auto conversation = Conversation::open(resolved.value().model_path);
  if (!conversation) return context.fail(conversation.error());
  auto session = open_session(resolved.value());
  if (!session) return context.fail(session.error());
  if (session.value().find("tokens") == nullptr)
    return context.fail(make_error(Code::kUnsupported,
                                   "chat: the configuration's plan is \"infer\", which takes no "
                                   "ids; remove the key plan"));
  Conversation& talk = conversation.value();
  if (context.args.given("--system")) talk.say("system", context.args.text("--system"));
  context.out.say(Level::kInfo, "an empty line or the end of the input ends the conversation");
  Report turns = Report::array();
  for (std::string line; next_line(context, line) && !line.empty();) {
    talk.say("user", line);
    auto answer = reply(context, session.value(), talk);
    if (!answer) return context.fail(answer.error());
    talk.say("assistant", answer.value().text);
    turns.push_back({{"user", line},
                     {"text", answer.value().text},
                     {"end", answer.value().end},
                     {"prompt_tokens", answer.value().n_prompt_tokens},
                     {"new_tokens", answer.value().ids.size()},
                     {"prefill_ms", answer.value().prefill_ms},
                     {"decode_ms", answer.value().decode_ms}});
  }
  context.out.document({{"turns", std::move(turns)}});
  return kGood;
}

}  // namespace

const Command kChat = {
    "chat",
    "Talk with a language model, line by line.",
    "Lines come from standard input, answers go to standard output as they are made. The "
    "conversation is written by the chat template in the model file; what you and the model say "
    "never becomes a control piece. Sampling follows the keys temp, top_k, top_p and seed (--set).",
    "outrider chat model.gguf --system \"You plan for a robot arm.\" --set temp=0.7",
    kPositionals,
    kFlags,
    run};

}  // namespace outrider::cli
