#include "models/vlm_prompt.h"

#include <algorithm>
#include <string>

#include "models/llm_run.h"
#include "models/vlm_weights.h"

namespace outrider {
namespace {

Result<int32_t> need(const LanguageTokenizer& tokenizer, const char* stored, const char* shown) {
  const int32_t id = tokenizer.find(stored);
  if (id >= 0) return id;
  return make_error(Code::kNotFound,
                    "vocabulary: no piece %s, which stands around pictures; this text file is not "
                    "of the vision file's family",
                    shown);
}

// Byte-level vocabularies store a newline as U+010A.
Result<int32_t> need_newlines(const LanguageTokenizer& tokenizer, const char* letters,
                              const char* plain, const char* shown) {
  const int32_t id = tokenizer.find(letters);
  return id >= 0 ? Result<int32_t>(id) : need(tokenizer, plain, shown);
}

// Which text model reads the tokens of which projector.
LlmArch reader_of(VlmKind kind) {
  switch (kind) {
    case VlmKind::kGemma3:
      return LlmArch::kGemma3;
    case VlmKind::kQwen25Vl:
      return LlmArch::kQwen2Vl;
    case VlmKind::kIdefics3:
      break;
  }
  return LlmArch::kLlama;
}

}  // namespace

Result<void> check_vlm_pair(const GgufFile& text, const GgufFile& vision,
                            const LanguageTokenizer& tokenizer) {
  const auto reader = read_llm_config(text);
  if (!reader) return reader.error();
  const auto config = read_vlm_config(vision);
  if (!config) return config.error();
  const LlmArch wanted = reader_of(config.value().kind);
  if (reader.value().arch != wanted)
    return make_error(Code::kUnsupported,
                      "%.200s is of architecture %s, but %.200s has the projector %s, whose tokens "
                      "%s reads",
                      text.path().c_str(), llm_arch_name(reader.value().arch),
                      vision.path().c_str(), vlm_kind_name(config.value().kind),
                      llm_arch_name(wanted));
  if (reader.value().width != config.value().out_width)
    return make_error(Code::kShape,
                      "%.200s: clip.vision.projection_dim is %lld, but %.200s has "
                      "embedding_length %lld: they do not belong together",
                      vision.path().c_str(), static_cast<long long>(config.value().out_width),
                      text.path().c_str(), static_cast<long long>(reader.value().width));
  const auto pieces = VlmPieces::find(config.value(), tokenizer);
  if (pieces) return {};
  return make_error(pieces.error().code, "%.200s: %s", text.path().c_str(), pieces.error().text);
}

Result<VlmPieces> VlmPieces::find(const VlmConfig& config, const LanguageTokenizer& tokenizer) {
  VlmPieces pieces;
  if (config.kind != VlmKind::kIdefics3) {
    const bool gemma = config.kind == VlmKind::kGemma3;
    const char* begin = gemma ? "<start_of_image>" : "<|vision_start|>";
    const char* end = gemma ? "<end_of_image>" : "<|vision_end|>";
    const auto first = need(tokenizer, begin, begin), last = need(tokenizer, end, end);
    if (!first) return first.error();
    if (!last) return last.error();
    pieces.begin = {first.value()};
    pieces.end = {last.value()};
    return pieces;
  }
  const auto around = need(tokenizer, "<fake_token_around_image>", "<fake_token_around_image>");
  const auto whole = need(tokenizer, "<global-img>", "<global-img>");
  const auto one = need_newlines(tokenizer, "\xc4\x8a", "\n", "of one newline");
  const auto two = need_newlines(tokenizer, "\xc4\x8a\xc4\x8a", "\n\n", "of two newlines");
  for (const auto* id : {&around, &whole, &one, &two})
    if (!*id) return id->error();
  pieces.around = around.value();
  pieces.whole = whole.value();
  pieces.newline = one.value();
  pieces.two_newlines = two.value();
  if (config.longest == 0) return pieces;
  // Rounding may cost one tile more than the longest side holds.
  pieces.n_grid_ = (config.longest + config.image_size - 1) / config.image_size + 1;
  if (pieces.n_grid_ > kMaxGrid)
    return make_error(
        Code::kUnsupported,
        "vision file: preproc_image_size %lld is %lld frames of image_size %lld, at "
        "most %lld a side are allowed",
        static_cast<long long>(config.longest), static_cast<long long>(pieces.n_grid_ - 1),
        static_cast<long long>(config.image_size), static_cast<long long>(kMaxGrid - 1));
  for (int64_t row = 0; row < pieces.n_grid_; ++row) {
    for (int64_t column = 0; column < pieces.n_grid_; ++column) {
      const std::string text =
          "<row_" + std::to_string(row + 1) + "_col_" + std::to_string(column + 1) + ">";
      auto ids = tokenizer.encode(text, {});
      if (!ids) return ids.error();
      pieces.tiles_.push_back(std::move(ids.value()));
    }
  }
  return pieces;
}

VlmPrompt::VlmPrompt(const VlmConfig& config, const VlmPieces& pieces, int64_t capacity)
    : config_(config),
      pieces_(pieces),
      ids_(static_cast<size_t>(capacity)),
      segments_(static_cast<size_t>(capacity)) {}

void VlmPrompt::clear() noexcept {
  n_segments_ = 0;
  n_tokens_ = 0;
}

void VlmPrompt::add(std::span<const int32_t> ids) noexcept {
  if (ids.empty()) return;
  const int64_t first = n_tokens_;
  n_tokens_ += static_cast<int64_t>(ids.size());
  if (!fits()) return;
  std::copy(ids.begin(), ids.end(), ids_.begin() + first);
  if (n_segments_ == 0 || segments_[n_segments_ - 1].frame.rgb != nullptr)
    segments_[n_segments_++] = {};
  segments_[n_segments_ - 1].n += static_cast<int64_t>(ids.size());
}

void VlmPrompt::add_frame(const PicturePlan& plan, const VlmFrame& frame) noexcept {
  const int64_t first = n_tokens_;
  n_tokens_ += plan.frame_tokens;
  if (!fits()) return;
  std::fill_n(ids_.begin() + first, plan.frame_tokens, LlmRun::kPictureId);
  segments_[n_segments_++] = {plan.frame_tokens, frame, plan.token_columns};
}

void VlmPrompt::add(const PicturePlan& plan, const uint8_t* pixels,
                    const uint8_t* second) noexcept {
  const int64_t last = plan.n_frames() - 1;
  if (config_.kind != VlmKind::kIdefics3) {
    VlmFrame frame = frame_at(plan, pixels, last);
    frame.second = second;
    add(pieces_.begin);
    add_frame(plan, frame);
    return add(pieces_.end);
  }
  for (int64_t i = 0; i < last; ++i) {
    const int64_t row = i / plan.tile_columns, column = i % plan.tile_columns;
    if (row > 0 && column == 0) add(pieces_.newline);
    add(pieces_.around);
    add(pieces_.tile(row, column));
    add_frame(plan, frame_at(plan, pixels, i));
  }
  add(pieces_.two_newlines);
  add(pieces_.around);
  add(pieces_.whole);
  add_frame(plan, frame_at(plan, pixels, last));
  add(pieces_.around);
}

}  // namespace outrider
