#include "providers/gguf/vlm_session.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "base/assert.h"
#include "base/utf8.h"
#include "outrider/frt_v1.h"
#include "providers/gguf/open_choices.h"

namespace outrider {
namespace {

constexpr std::string_view kMark = kPictureMark;

// Of one picture at most, in this context.
int64_t most_tokens(const VlmConfig& c, int64_t n_ctx) {
  return c.fixed_size() ? c.most_tokens() : std::min(n_ctx, VlmConfig::kMostTokens);
}

int64_t bytes_per_token(const VlmConfig& c) {
  const int64_t unit = c.patch_size * c.merge;
  const int64_t of_free = 3 * unit * unit;
  if (!c.fixed_size()) return of_free;
  const int64_t of_frame = 3 * c.image_size * c.image_size;
  return (of_frame + c.most_tokens() - 1) / c.most_tokens();
}

ImageView view_at(const std::byte* at, uint32_t* struct_size) noexcept {
  frt_image_view in;  // the caller's array may lie at any address
  std::memcpy(&in, at, sizeof in);
  *struct_size = in.struct_size;
  return {static_cast<PixelFormat>(in.pixel_format),
          in.data,
          in.bytes,
          in.width,
          in.height,
          in.stride_bytes};
}

}  // namespace

// ---- open ---------------------------------------------------------------------------------------

Result<std::unique_ptr<LlmSession>> VlmSession::open(const LlmOpenConfig& config,
                                                     std::shared_ptr<const VlmFiles> files) {
  std::unique_ptr<VlmSession> session(new VlmSession);
  const VlmConfig& c = files->config;
  session->pair_ = std::move(files);
  Needs needs;
  needs.limits = VlmTower::limits(c, most_tokens(c, config.context()));
  // Tokens that see each other are evaluated at once.
  if (c.kind == VlmKind::kGemma3) needs.chunk = c.most_tokens();
  OUTRIDER_TRY(session->prepare(config, session->pair_->text, needs));
  OUTRIDER_TRY(session->prepare_vision());
  session->warm_up();
  session->warm_up_vision();
  return std::unique_ptr<LlmSession>(std::move(session));
}

Result<void> VlmSession::prepare_vision() {
  const VlmConfig& c = pair_->config;
  const int64_t n_ctx = config_.context();
  vision_precision_ = resolve_precision(config_, *pair_);
  fuses_ = config_.numerics == NumericsChoice::kJetsonPi && c.kind == VlmKind::kQwen25Vl;
  auto model = open_vlm_model(pair_, vision_precision_, *ops_);
  if (!model) return model.error();
  auto tower = VlmTower::make(model.value(), *ops_, most_tokens(c, n_ctx));
  if (!tower) return tower.error();
  tower_ = std::move(tower.value());
  prompt_ = std::make_unique<VlmPrompt>(pair_->config, pair_->pieces, n_ctx);
  // Two pictures of a clip are as many tokens as one.
  const auto room = static_cast<size_t>(n_ctx * (fuses_ ? 2 : 1));
  pixels_.resize(room * static_cast<size_t>(bytes_per_token(c)));
  pictures_.resize(room);
  part_ends_.resize(room + 1);
  tokens_.resize(static_cast<size_t>(most_tokens(c, n_ctx) * c.out_width));
  return {};
}

void VlmSession::warm_up_vision() {
  const VlmConfig& c = pair_->config;
  const int64_t side = c.fixed_size() ? c.image_size : c.patch_size * c.merge;
  const std::vector<uint8_t> black(static_cast<size_t>(side * side * 3));
  const VlmFrame frame = {black.data(), nullptr, side, side, 0};
  tower_->encode(frame, {tokens_.data(), VlmTower::n_tokens(c, frame), c.out_width});
}

// ---- inputs -------------------------------------------------------------------------------------

void VlmSession::end_part() noexcept {
  part_ends_[n_parts_++] = n_staged_;
}

// Further ids; those beyond the context are counted.
Code VlmSession::encode_part(std::string_view text, bool first) noexcept {
  TokenizeOptions options;
  options.add_special = first;
  options.parse_special = true;
  const auto room = std::span<int32_t>(ids_).subspan(std::min(n_staged_, ids_.size()));
  const auto encoded = files_->tokenizer.encode(text, options, *scratch_, room);
  if (encoded.code != Code::kOk)
    return fail(Code::kFailed, "prompt: the tokenizer gave up on %zu bytes (%s)", text.size(),
                code_name(encoded.code));
  n_staged_ += encoded.n_ids;
  counters_.dropped_characters.fetch_add(static_cast<int64_t>(encoded.n_dropped),
                                         std::memory_order_relaxed);
  return Code::kOk;
}

Code VlmSession::stage_prompt(std::string_view text) noexcept {
  staged_ = false;
  if (text.empty())
    return fail(Code::kInvalid, "prompt: 0 bytes, wanted UTF-8 text of at least one");
  if (text.size() > max_prompt_bytes())
    return fail(Code::kShape,
                "prompt: %zu bytes, a context of %lld tokens takes at most %zu; raise n_ctx or cut "
                "the prompt",
                text.size(), static_cast<long long>(config_.context()), max_prompt_bytes());
  if (!utf8_valid(text))
    return fail(Code::kInvalid, "prompt: %zu bytes that are not UTF-8", text.size());
  n_staged_ = n_parts_ = 0;
  for (std::string_view rest = text;;) {
    const size_t mark = rest.find(kMark);
    if (n_parts_ + 1 >= part_ends_.size())
      return fail(Code::kShape, "prompt: more than %zu places %s, more pictures than fit",
                  part_ends_.size() - 2, kPictureMark);
    const bool first = n_parts_ == 0;
    if (const Code code = encode_part(rest.substr(0, mark), first); code != Code::kOk) return code;
    end_part();
    if (mark == std::string_view::npos) break;
    rest.remove_prefix(mark + kMark.size());
  }
  if (files_->tokenizer.doubles_bos(text))
    counters_.doubled_bos.fetch_add(1, std::memory_order_relaxed);
  staged_ = true;
  return Code::kOk;
}

Code VlmSession::stage_ids(std::span<const std::byte> bytes) noexcept {
  staged_ = false;
  if (bytes.empty() || bytes.size() % sizeof(int32_t) != 0)
    return fail(Code::kInvalid, "tokens: %zu bytes, wanted a whole number of i32, at least one",
                bytes.size());
  n_staged_ = n_parts_ = 0;
  for (size_t i = 0; i < bytes.size() / sizeof(int32_t); ++i) {
    int32_t id;
    std::memcpy(&id, bytes.data() + i * sizeof id, sizeof id);
    if (id == LlmRun::kPictureId) {
      if (n_parts_ + 2 >= part_ends_.size())
        return fail(Code::kShape, "tokens: more than %zu places of pictures, more than fit",
                    part_ends_.size() - 2);
      end_part();
      continue;
    }
    if (id < 0 || id >= files_->n_ids())
      return fail(Code::kInvalid, "tokens: id %d at position %zu, allowed -1 (a picture)..%lld", id,
                  i, static_cast<long long>(files_->n_ids() - 1));
    if (n_staged_ < ids_.size()) ids_[n_staged_] = id;
    ++n_staged_;
  }
  end_part();
  staged_ = true;
  return Code::kOk;
}

// Checks one view, and reads it behind those before.
Code VlmSession::read_view(const std::byte* at, size_t index) noexcept {
  char what[32];
  std::snprintf(what, sizeof what, "images[%zu]", index);
  uint32_t struct_size = 0;
  const ImageView view = view_at(at, &struct_size);
  if (struct_size < sizeof(frt_image_view))
    return fail(Code::kInvalid, "%s has struct_size %u, wanted at least %zu", what, struct_size,
                sizeof(frt_image_view));
  if (const auto checked = check_image(view, what); !checked)
    return fail(checked.error().code, "%s", checked.error().text);
  if (view.width > kMaxPictureSide || view.height > kMaxPictureSide)
    return fail(Code::kShape, "%s is %d x %d (width x height), allowed are sides of 1..%lld", what,
                view.width, view.height, static_cast<long long>(kMaxPictureSide));
  if (looks_like_float_buffer(view))
    return fail(Code::kInvalid,
                "%s has %llu bytes, a whole multiple of what 8-bit pixels need: float pixels? Give "
                "8-bit ones",
                what, static_cast<unsigned long long>(view.n_bytes));
  const VlmConfig& c = pair_->config;
  Picture picture;
  picture.plan = plan_picture(c, view.width, view.height);
  const PicturePlan& first = n_pictures_ > 0 ? pictures_[0].plan : picture.plan;
  if (!config_.any_sizes &&
      (first.source_width != view.width || first.source_height != view.height))
    return fail(Code::kShape,
                "%s is %d x %d (width x height), images[0] %lld x %lld; all of a call share one "
                "size (image_sizes \"any\" lifts that)",
                what, view.width, view.height, static_cast<long long>(first.source_width),
                static_cast<long long>(first.source_height));
  n_picture_tokens_ += picture.plan.n_tokens();
  const auto n_bytes = static_cast<size_t>(picture.plan.n_bytes());
  if (n_picture_tokens_ > config_.context() * (fuses_ ? 2 : 1) || n_pictures_ == pictures_.size())
    return refuse_length("images", n_picture_tokens_);
  OUTRIDER_ASSERT(n_bytes <= pixels_.size() - n_pixel_bytes_);
  uint8_t* pixels = pixels_.data() + n_pixel_bytes_;
  read_picture(c, picture.plan, view, pixels);
  picture.pixels = pixels;
  n_pixel_bytes_ += n_bytes;
  pictures_[n_pictures_++] = picture;
  if (picture.plan.n_frames() > 1 || view.width != picture.plan.frame_width ||
      view.height != picture.plan.frame_height)
    counters_.resized_pictures.fetch_add(1, std::memory_order_relaxed);
  return Code::kOk;
}

Code VlmSession::stage_pictures(std::span<const std::byte> views) noexcept {
  pictures_staged_ = false;
  n_pictures_ = n_pixel_bytes_ = 0;
  n_picture_tokens_ = 0;
  if (views.size() % sizeof(frt_image_view) != 0)
    return fail(Code::kInvalid, "images: %zu bytes, wanted a whole number of views of %zu bytes",
                views.size(), sizeof(frt_image_view));
  const int64_t start_ns = clock_.now_ns();
  for (size_t i = 0; i < views.size() / sizeof(frt_image_view); ++i) {
    const Code code = read_view(views.data() + i * sizeof(frt_image_view), i);
    if (code != Code::kOk) return code;
  }
  counters_.ns_pictures.store(clock_.now_ns() - start_ns, std::memory_order_relaxed);
  pictures_staged_ = true;
  return Code::kOk;
}

// ---- runs ---------------------------------------------------------------------------------------

// 2 when the next picture is shown as the second moment of this one.
size_t VlmSession::clip_length(size_t picture, bool next_follows) const noexcept {
  if (!fuses_ || !next_follows || picture + 1 >= n_pictures_) return 1;
  const PicturePlan &a = pictures_[picture].plan, &b = pictures_[picture + 1].plan;
  return a.source_width == b.source_width && a.source_height == b.source_height ? 2 : 1;
}

// Picture number `picture`, and moves on.
Code VlmSession::add_picture(size_t& picture, bool next_follows) noexcept {
  const size_t n = clip_length(picture, next_follows);
  prompt_->add(pictures_[picture].plan, pictures_[picture].pixels,
               n == 2 ? pictures_[picture + 1].pixels : nullptr);
  if (n == 2) counters_.fused_pictures.fetch_add(2, std::memory_order_relaxed);
  picture += n;
  return Code::kOk;
}

// Words and pictures in their order.
Code VlmSession::lay_out() noexcept {
  const size_t n_marks = n_parts_ - 1;
  if (n_marks > 0 && n_marks != n_pictures_)
    return fail(Code::kInvalid,
                "prompt: %zu places %s for %zu pictures; wanted none (pictures follow the prompt) "
                "or one a picture",
                n_marks, kPictureMark, n_pictures_);
  if (n_staged_ > ids_.size())
    return refuse_length("prompt", static_cast<int64_t>(n_staged_) + n_picture_tokens_);
  prompt_->clear();
  const std::span<const int32_t> ids(ids_);
  const auto part = [&](size_t i) {
    const size_t first = i == 0 ? 0 : part_ends_[i - 1];
    return ids.subspan(first, part_ends_[i] - first);
  };
  prompt_->add(part(0));
  size_t picture = 0;
  if (n_marks == 0)
    while (picture < n_pictures_) add_picture(picture, true);
  for (size_t i = 1; i < n_parts_; ++i) {
    // A picture that became part of the clip before has no words in front of it.
    if (picture < i) add_picture(picture, part(i).empty());
    prompt_->add(part(i));
  }
  if (!prompt_->fits()) return refuse_length("prompt with pictures", prompt_->n_tokens());
  if (prompt_->n_tokens() == 0) return fail(Code::kFailed, "prompt: it gives no token at all");
  return Code::kOk;
}

Code VlmSession::feed() noexcept {
  if (!pictures_staged_)
    return fail(Code::kInvalid,
                "prefill: port images is not staged; stage it first (0 bytes: no pictures)");
  if (!staged_) return fail(Code::kInvalid, "prefill: port prompt is not staged; stage it first");
  if (const Code code = lay_out(); code != Code::kOk) return code;
  const VlmConfig& c = pair_->config;
  const int64_t n = prompt_->n_tokens(), kept = run_->begin(prompt_->ids());
  int64_t first = 0;
  bool whole = true;
  logits_ready_ = false;
  for (const VlmSegment& segment : prompt_->segments()) {
    const int64_t begin = first, end = first + segment.n;
    first = end;
    if (!whole || end <= kept) continue;
    if (segment.frame.rgb == nullptr) {
      const int64_t from = std::max(begin, kept);
      whole = run_->append(
          prompt_->ids().subspan(static_cast<size_t>(from), static_cast<size_t>(end - from)),
          end == n, &cancel_);
      continue;
    }
    const View<float> tokens(tokens_.data(), segment.n, c.out_width);
    whole = tower_->encode(segment.frame, tokens, &cancel_) &&
            run_->append(LlmPicture{tokens, segment.columns, c.kind == VlmKind::kGemma3}, end == n,
                         &cancel_);
    counters_.encoded_frames.fetch_add(1, std::memory_order_relaxed);
    counters_.picture_tokens.fetch_add(segment.n, std::memory_order_relaxed);
  }
  const Code code = evaluated(whole, n - kept);
  if (code == Code::kOk) counters_.reused_tokens.fetch_add(kept, std::memory_order_relaxed);
  return code;
}

// ---- facts --------------------------------------------------------------------------------------

std::string VlmSession::describe() const {
  const VlmConfig& c = pair_->config;
  char text[512];
  std::snprintf(text, sizeof text,
                ",\"projector\":\"%s\",\"vision_precision\":\"%s\",\"picture_tokens\":%lld,"
                "\"tiles\":%s,\"clips\":%s,\"vision_packed_bytes\":%lld,"
                "\"vision_state_bytes\":%lld,\"picture_bytes\":%zu,\"image_sizes\":\"%s\","
                "\"tokens_port\":\"%s\"}",
                vlm_kind_name(c.kind), precision_name(vision_precision_),
                static_cast<long long>(most_tokens(c, config_.context())),
                c.longest > 0 ? "true" : "false", fuses_ ? "true" : "false",
                static_cast<long long>(tower_->model().packed_bytes()),
                static_cast<long long>(tower_->state_bytes()), pixels_.size(),
                config_.any_sizes ? "any" : "equal", config_.tokens_port ? "on" : "off");
  return "{" + text_facts() + text;
}

}  // namespace outrider
