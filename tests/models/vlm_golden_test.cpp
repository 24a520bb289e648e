// Recorded cases of vision-language pairs: what a prompt with pictures becomes, the tokens of every
// frame, logits and greedy ids.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kernels/cpu_ops.h"
#include "models/llm_run.h"
#include "models/vlm_prompt.h"
#include "models/vlm_tower.h"
#include "support/recorded_pair.h"

namespace outrider::test {
namespace {

constexpr int64_t kContext = 512;
constexpr std::string_view kMark = kPictureMark;

double max_abs(std::span<const float> got, std::span<const float> wanted) {
  if (got.size() != wanted.size()) return INFINITY;
  double worst = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const double d = std::fabs(double(got[i]) - double(wanted[i]));
    if (!(d <= worst)) worst = std::isfinite(d) ? d : INFINITY;
  }
  return worst;
}

GgufFile open_file(const std::string& path) {
  auto file = GgufFile::open(path.c_str());
  if (!file) throw std::runtime_error(file.error().text);
  return std::move(file.value());
}

// A pair with all that a run of it needs.
struct Pair {
  GgufFile text, vision;
  LanguageTokenizer tokenizer;
  VlmConfig config;
  VlmPieces pieces;
  std::unique_ptr<Ops> ops;
  std::unique_ptr<LlmRun> run;
  std::unique_ptr<VlmTower> tower;
  VlmPrompt prompt;
  std::vector<std::vector<uint8_t>> pixels;
  std::vector<std::vector<float>> tokens;  // of every frame, after feed()

  Pair(const std::string& text_path, const std::string& vision_path, Precision precision,
       int n_threads, int64_t chunk = 64)
      : text(open_file(text_path)),
        vision(open_file(vision_path)),
        tokenizer(std::move(LanguageTokenizer::from_gguf(text).value())),
        config(read_vlm_config(vision).value()),
        pieces(VlmPieces::find(config, tokenizer).value()),
        ops(std::move(make_cpu_ops({.n_threads = n_threads}).value())),
        prompt(config, pieces, kContext) {
    auto weights = read_llm_weights(text);
    auto vision_weights = read_vlm_weights(vision);
    if (!weights || !vision_weights) throw std::runtime_error("weights");
    if (config.kind == VlmKind::kGemma3) chunk = std::max(chunk, config.most_tokens());
    const auto a = llm_limits(weights.value().config, chunk, kContext),
               b = VlmTower::limits(config, kContext);
    const OpsLimits both = {
        std::max(a.max_rows, b.max_rows),         std::max(a.max_in, b.max_in),
        std::max(a.max_out, b.max_out),           std::max(a.max_keys, b.max_keys),
        std::max(a.max_head_dim, b.max_head_dim), 0};
    EXPECT_TRUE(ops->reserve(both));
    auto model = LlmModel::build(weights.value(), precision, *ops, {}, nullptr);
    auto vision_model = VlmModel::build(vision_weights.value(), precision, *ops, {});
    run = std::move(
        LlmRun::make(model.value(), *ops, {.n_ctx = kContext, .chunk = chunk, .reuse = true})
            .value());
    tower = std::move(VlmTower::make(vision_model.value(), *ops, kContext).value());
  }

  void write(const std::string& all, const std::vector<RecordedPair::Shown>& pictures, bool clips) {
    prompt.clear();
    pixels.clear();
    std::vector<PicturePlan> plans;
    for (const RecordedPair::Shown& p : pictures) {
      plans.push_back(plan_picture(config, p.width, p.height));
      pixels.emplace_back(static_cast<size_t>(plans.back().n_bytes()));
      const ImageView view = {PixelFormat::kRgb8, p.rgb.data(), p.rgb.size(), p.width, p.height, 0};
      read_picture(config, plans.back(), view, pixels.back().data());
    }
    std::string_view rest = all;
    for (size_t i = 0; true; ++i) {
      const size_t mark = rest.find(kMark);
      TokenizeOptions options;
      options.add_special = rest.data() == all.data();
      if (mark != 0) prompt.add(tokenizer.encode(rest.substr(0, mark), options).value());
      if (mark == std::string_view::npos) break;
      rest.remove_prefix(mark + kMark.size());
      const bool clip = clips && rest.starts_with(kMark) &&
                        pictures[i].width == pictures[i + 1].width &&
                        pictures[i].height == pictures[i + 1].height;
      prompt.add(plans[i], pixels[i].data(), clip ? pixels[i + 1].data() : nullptr);
      if (!clip) continue;
      rest.remove_prefix(kMark.size());
      ++i;
    }
    ASSERT_TRUE(prompt.fits()) << prompt.n_tokens();
  }

  void feed() {
    tokens.clear();
    int64_t at = run->begin(prompt.ids()), first = 0;
    for (const VlmSegment& s : prompt.segments()) {
      const int64_t kept = std::clamp<int64_t>(at - first, 0, s.n);
      const bool last = first + s.n == prompt.n_tokens();
      if (s.frame.rgb == nullptr) {
        ASSERT_TRUE(
            run->append(prompt.ids().subspan(size_t(first + kept), size_t(s.n - kept)), last));
      } else {
        ASSERT_EQ(kept, 0);
        const int64_t width = config.out_width;
        tokens.emplace_back(static_cast<size_t>(s.n * width));
        const View<float> rows(tokens.back().data(), s.n, width);
        ASSERT_TRUE(tower->encode(s.frame, rows));
        const bool both = config.kind == VlmKind::kGemma3;
        ASSERT_TRUE(run->append(LlmPicture{rows, s.columns, both}, last));
      }
      first += s.n;
    }
  }

  std::vector<std::vector<float>> generate(size_t n) {
    feed();
    std::vector<std::vector<float>> out;
    while (true) {
      out.emplace_back(run->logits().begin(), run->logits().end());
      if (out.size() == n) return out;
      const auto id = static_cast<int32_t>(std::max_element(out.back().begin(), out.back().end()) -
                                           out.back().begin());
      EXPECT_TRUE(run->append({&id, 1}, true));
    }
  }
};

class VlmGolden : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    case_ = RecordedPair(GetParam());
    if (!case_.absent.empty()) GTEST_SKIP() << case_.absent;
    const Json* text = case_.meta.find("text");
    if (text != nullptr) {
      prompt_ = text->text();
      return;
    }
    prompt_ = case_.meta.find("prompt")->text();
    for (size_t i = 0; i < case_.pictures.size(); ++i) prompt_ += kMark;
  }

  std::unique_ptr<Pair> pair(Precision precision, int n_threads, int64_t chunk = 64) const {
    auto made =
        std::make_unique<Pair>(case_.text_path, case_.vision_path, precision, n_threads, chunk);
    made->write(prompt_, case_.pictures, case_.clips);
    return made;
  }

  RecordedPair case_;
  std::string prompt_;
};

// Cases that record tokens and frames too.
class VlmFrames : public VlmGolden {};
const auto kName = [](const auto& c) { return std::string(c.param); };
INSTANTIATE_TEST_SUITE_P(Cases, VlmGolden, testing::ValuesIn(kRecordedPairs), kName);
INSTANTIATE_TEST_SUITE_P(Cases, VlmFrames,
                         testing::ValuesIn(kRecordedPairs + 2, std::end(kRecordedPairs)), kName);

TEST_P(VlmFrames, the_prompt_becomes_the_recorded_tokens_and_frames) {
  const Json* chunks = case_.meta.find("chunks");
  ASSERT_NE(chunks, nullptr);
  const auto p = pair(Precision::kF32, 1);
  const auto segments = p->prompt.segments();
  ASSERT_EQ(segments.size(), chunks->items().size());
  size_t at = 0;
  for (size_t i = 0; i < segments.size(); ++i) {
    const Json& chunk = chunks->items()[i];
    const bool words = chunk.find("type")->text() == "text";
    ASSERT_EQ(segments[i].frame.rgb == nullptr, words) << "chunk " << i;
    if (words) {
      const auto& ids = chunk.find("ids")->items();
      ASSERT_EQ(static_cast<size_t>(segments[i].n), ids.size()) << "chunk " << i;
      for (size_t k = 0; k < ids.size(); ++k)
        EXPECT_EQ(p->prompt.ids()[at + k], ids[k].integer()) << "chunk " << i << " id " << k;
    } else if (const Json* columns = chunk.find("nx")) {
      EXPECT_EQ(segments[i].columns, columns->integer());
      EXPECT_EQ(segments[i].n, columns->integer() * chunk.find("ny")->integer());
    } else {
      EXPECT_EQ(segments[i].n, chunk.find("tokens")->integer());
    }
    at += static_cast<size_t>(segments[i].n);
  }
}

TEST_P(VlmFrames, picture_tokens_are_within_the_tolerance) {
  const Json* tolerance = case_.meta.find("tolerance_image_embd");
  ASSERT_NE(tolerance, nullptr);
  const auto p = pair(Precision::kF32, 2);
  p->feed();
  const auto& chunks = case_.meta.find("chunks")->items();
  ASSERT_EQ(static_cast<std::ptrdiff_t>(p->tokens.size()),
            std::count_if(chunks.begin(), chunks.end(),
                          [](const Json& c) { return c.find("type")->text() == "image"; }));
  const bool one_file = p->config.kind == VlmKind::kIdefics3;
  std::vector<float> got, wanted;
  for (size_t i = 0; i < p->tokens.size(); ++i) {
    got.insert(got.end(), p->tokens[i].begin(), p->tokens[i].end());
    if (one_file) continue;
    const auto part =
        read_reference<float>(case_.folder + "/image_embd_" + std::to_string(i) + ".bin");
    wanted.insert(wanted.end(), part.begin(), part.end());
  }
  if (one_file) wanted = read_reference<float>(case_.folder + "/image_embd.bin");
  EXPECT_LE(max_abs(got, wanted), tolerance->number());
}

TEST_P(VlmGolden, greedy_ids_are_exact_and_logits_within_the_tolerance) {
  for (const Precision precision : {Precision::kF32, Precision::kStored}) {
    const auto p = pair(precision, 2);
    const auto got = p->generate(case_.greedy.size());
    const auto vocab = got[0].size();
    for (size_t i = 0; i < got.size(); ++i)
      EXPECT_EQ(std::max_element(got[i].begin(), got[i].end()) - got[i].begin(), case_.greedy[i])
          << "token " << i;
    const auto logits = read_reference<float>(case_.folder + "/logits.bin");
    ASSERT_EQ(logits.size(), vocab);
    EXPECT_LE(max_abs(got[0], logits), case_.meta.find("tolerance_max_abs_logits")->number());
    const Json* plain = case_.meta.find("tolerance_max_abs_logits_plain");
    if (plain == nullptr) continue;
    const auto rows = read_reference<float>(case_.folder + "/logits_plain.bin");
    ASSERT_EQ(rows.size(), 3 * vocab);
    const size_t steps[] = {0, 1, got.size() - 1};
    for (size_t i = 0; i < 3; ++i)
      EXPECT_LE(max_abs(got[steps[i]], std::span(rows).subspan(i * vocab, vocab)), plain->number())
          << "logits of token " << steps[i];
  }
}

TEST_P(VlmGolden, any_chunk_and_any_number_of_threads_gives_the_same_bits) {
  const auto wanted = pair(Precision::kStored, 1, kContext)->generate(3);
  for (const auto& [n_threads, chunk] : {std::pair{1, 7}, {2, 64}, {5, 33}})
    ASSERT_EQ(pair(Precision::kStored, n_threads, chunk)->generate(3), wanted)
        << n_threads << " threads, chunk " << chunk;
}

TEST_P(VlmGolden, a_second_run_keeps_the_words_before_the_first_picture_and_no_bit_changes) {
  const auto p = pair(Precision::kStored, 2);
  const auto wanted = p->generate(3);
  const auto ids = p->prompt.ids();
  const auto words = std::find(ids.begin(), ids.end(), LlmRun::kPictureId) - ids.begin();
  const auto most = std::min<int64_t>(words, p->prompt.n_tokens() - 1);
  EXPECT_EQ(p->run->begin(ids), most);
  EXPECT_EQ(p->generate(3), wanted);
}

}  // namespace
}  // namespace outrider::test
