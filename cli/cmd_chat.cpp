// outrider chat: a language model in the terminal.
#include <algorithm>
#include <cstdio>
#include <span>

#include "cli/commands.h"
#include "cli/config.h"
#include "cli/flags.h"
#include "cli/llm_model.h"
#include "cli/request.h"
#include "models/llm_run.h"
#include "models/vlm_prompt.h"
#include "text/chat_template.h"
#include "text/language_tokenizer.h"

namespace outrider::cli {
namespace {

constexpr Flag kFlags[] = {
    {"--system", "T", nullptr, "What the model is told before the first line.", parse_text},
    {"--max-tokens", "N", nullptr, "Tokens of an answer at most (key max_tokens).", parse_count},
    {"--image", "P", nullptr,
     "PNG or JPEG picture that the first line is about; further ones by a line /image PATH.",
     parse_text, true},
    kMmprojFlag,
    kSchemaFlag,
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
constexpr std::string_view kMark = kPictureMark, kImageLine = "/image ";

std::string without_marks(std::string text) {
  for (size_t at = 0; (at = text.find(kMark, at)) != std::string::npos;)
    text.erase(at, kMark.size());
  return text;
}

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

  // text holds no mark; n_pictures are shown in front of it.
  void say(const char* role, const std::string& text, size_t n_pictures = 0) {
    std::string content;
    for (size_t i = 0; i < n_pictures; ++i) content += kMark;
    request_.messages.push_back({.role = role, .content = content + text});
  }

  // Template text becomes special pieces, what people and the model said never does. A picture is
  // one id, -1, and what lies between pictures is taken apart by itself.
  Result<std::vector<int32_t>> ids() const {
    auto rendered = chat_.render(request_);
    if (!rendered) return rendered.error();
    const std::string_view text = rendered.value().text;
    std::vector<int32_t> all;
    for (size_t first = 0; true;) {
      const size_t end = std::min(text.find(kMark, first), text.size());
      const auto foreign = inside(rendered.value().foreign, first, end);
      TokenizeOptions options;
      options.add_special = options.bos_once = first == 0;
      options.foreign = foreign;
      auto part = tokenizer_.encode(text.substr(first, end - first), options);
      if (!part) return part.error();
      all.insert(all.end(), part.value().begin(), part.value().end());
      if (end == text.size()) return all;
      all.push_back(LlmRun::kPictureId);
      first = end + kMark.size();
    }
  }

 private:
  // What of the ranges lies in [first, end), counted from first.
  static std::vector<ForeignText> inside(std::span<const ForeignText> ranges, size_t first,
                                         size_t end) {
    std::vector<ForeignText> out;
    for (const ForeignText& range : ranges) {
      const size_t begin = std::max(range.begin, first), stop = std::min(range.end, end);
      if (begin < stop) out.push_back({begin - first, stop - first});
    }
    return out;
  }

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

// A model that sees takes ids through a port that must be asked for.
Result<Resolved> resolve_talk(Context& context) {
  Wish wish = wish_of(context.args, kChat);
  auto resolved = resolve(context.args.positional(0), wish);
  if (!resolved || resolved.value().family != "mllm") return resolved;
  wish.set.emplace_back("tokens_port", "on");
  return resolve(context.args.positional(0), wish);
}

// The pictures of a conversation, in the order they are shown.
class Album {
 public:
  // How many of them no line was about yet.
  size_t n_new() const { return request_.images.size() - n_shown_; }
  void all_shown() { n_shown_ = request_.images.size(); }

  Result<void> add(std::span<const std::string> paths) {
    Request more;
    OUTRIDER_TRY(load_images(paths, more));
    for (Image& image : more.images) request_.images.push_back(std::move(image));
    return {};
  }

  Result<void> stage(Session& session) {
    if (session.find("images") == nullptr || n_staged_ == request_.images.size() + 1) return {};
    n_staged_ = request_.images.size() + 1;
    return stage_images(session, request_);
  }

 private:
  Request request_;
  size_t n_shown_ = 0;
  size_t n_staged_ = 0;  // and one more; 0: nothing was staged
};

// A line that is no question: "/image PATH". Errors are told and forgotten.
bool takes_picture(Context& context, const std::string& line, Album& album, bool sees) {
  if (!sees || !line.starts_with(kImageLine)) return false;
  const std::string path = line.substr(kImageLine.size());
  if (auto added = album.add(std::span(&path, 1)); !added)
    context.out.say(Level::kWarn, "{}", added.error().text);
  else
    context.out.say(Level::kInfo, "the next line is about {}", path);
  return true;
}

int run(Context& context) {
  auto resolved = resolve_talk(context);
  if (!resolved) return context.fail(resolved.error());
  const bool sees = resolved.value().family == "mllm";
  if (!is_language(resolved.value().family))
    return context.fail(make_error(
        Code::kUnsupported, "chat: %.200s is of family \"%.40s\"; a language model is wanted",
        context.args.positional(0).c_str(), resolved.value().family.c_str()));
  if (context.args.given("--print-config")) {
    print_settings(resolved.value(), context.out);
    context.out.document(settings_report(resolved.value()));
    return kGood;
  }
  if (context.args.given("--image") && !sees)
    return context.fail(make_error(
        Code::kInvalid, "chat: --image with a configuration of family llm; mllm takes pictures"));
  Album album;
  if (auto added = album.add(context.args.all("--image")); !added)
    return context.fail(added.error());
  auto conversation = Conversation::open(resolved.value().model_path);
  if (!conversation) return context.fail(conversation.error());
  auto session = open_session(resolved.value());
  if (!session) return context.fail(session.error());
  if (session.value().find("tokens") == nullptr)
    return context.fail(make_error(Code::kUnsupported,
                                   "chat: the configuration's plan is \"infer\", which takes no "
                                   "ids; remove the key plan"));
  Conversation& talk = conversation.value();
  if (context.args.given("--system"))
    talk.say("system", without_marks(context.args.text("--system")));
  context.out.say(Level::kInfo, "an empty line or the end of the input ends the conversation");
  const bool by_schema = follows_schema(resolved.value());
  Report turns = Report::array();
  // Where answers are not taken any more, none is made.
  for (std::string line; context.out.arrived() && next_line(context, line) && !line.empty();) {
    if (takes_picture(context, line, album, sees)) continue;
    const size_t n_pictures = album.n_new();
    if (auto staged = album.stage(session.value()); !staged) return context.fail(staged.error());
    talk.say("user", without_marks(line), n_pictures);
    album.all_shown();
    auto answer = reply(context, session.value(), talk);
    if (!answer) return context.fail(answer.error());
    talk.say("assistant", without_marks(answer.value().text));
    const bool whole = !by_schema || is_whole(answer.value());
    if (!whole) context.out.say(Level::kWarn, "{}", kCutAnswer);
    turns.push_back({{"user", line},
                     {"pictures", n_pictures},
                     {"text", answer.value().text},
                     {"end", answer.value().end},
                     {"prompt_tokens", answer.value().n_prompt_tokens},
                     {"new_tokens", answer.value().ids.size()},
                     {"prefill_ms", answer.value().prefill_ms},
                     {"decode_ms", answer.value().decode_ms}});
    if (by_schema) turns.back()["complete"] = whole;
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
    "never becomes a control piece. A model that sees is opened with its vision file when --image "
    "or --mmproj is given; a line /image PATH shows a further picture. Sampling follows the keys "
    "temp, top_k, top_p and seed (--set); with --schema every answer is JSON that follows it.",
    "outrider chat model.gguf --system \"You plan for a robot arm.\" --set temp=0.7",
    kPositionals,
    kFlags,
    run};

}  // namespace outrider::cli
