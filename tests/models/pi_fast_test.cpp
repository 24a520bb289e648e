// PI0-FAST at model level: its prefix is the language model of the recorded cases, whose last
// rows behind the final norm were recorded with openpi.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "base/json.h"
#include "kernels/cpu_ops.h"
#include "models/pi_run.h"
#include "models/pi_safetensors.h"
#include "support/shared_data.h"

namespace outrider {
namespace {

struct Case {
  SafeTensorsFile weights, io;
  PiConfig config;
};

Case open_case(const std::string& folder, bool small) {
  auto weights = SafeTensorsFile::open((folder + "/weights.safetensors").c_str()),
       io = SafeTensorsFile::open((folder + "/io.safetensors").c_str());
  EXPECT_TRUE(weights && io);
  auto meta = MappedFile::open((folder + "/meta.json").c_str());
  const auto bytes = meta.value().bytes();
  const auto json = Json::parse({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  const Json& c = *json.value().find("config");
  const auto number = [&](const char* part, const char* key) {
    return c.find(part)->find(key)->integer();
  };
  PiConfig config;
  config.family = PiFamily::kPi0Fast;
  config.vision = {number("vision", "image_size"),
                   number("vision", "patch_size"),
                   number("vision", "hidden_size"),
                   number("vision", "intermediate_size"),
                   number("vision", "num_hidden_layers"),
                   number("vision", "num_attention_heads"),
                   true};
  config.backbone = {number("paligemma", "width"),        number("paligemma", "mlp_dim"),
                     number("paligemma", "depth"),        number("paligemma", "num_heads"),
                     number("paligemma", "num_kv_heads"), number("paligemma", "head_dim")};
  config.vocab = c.find("vocab")->integer();
  config.action_dim = 1, config.action_steps = 1, config.n_denoise_steps = 0;
  config.answer_tokens = small ? 1 : 8;
  return {std::move(weights.value()), std::move(io.value()), config};
}

template <class T>
std::vector<T> array(const SafeTensorsFile& file, const char* name) {
  const SafeTensor* tensor = file.tensor(name);
  EXPECT_NE(tensor, nullptr) << name;
  std::vector<T> out(static_cast<size_t>(tensor->n_values()));
  std::memcpy(out.data(), tensor->data, out.size() * sizeof(T));
  return out;
}

struct Seen {
  std::vector<const uint8_t*> views;
  std::vector<int32_t> ids;
};

// The masked picture is left out here as in the recording: PI0-FAST itself masks none.
class Runner {
 public:
  Runner(const std::string& folder, Precision precision, int threads, bool small = false)
      : case_(open_case(folder, small)) {
    const auto mask = array<uint8_t>(case_.io, "in.image_mask"),
               token_mask = array<uint8_t>(case_.io, "in.token_mask");
    images_ = array<uint8_t>(case_.io, "in.images_u8");
    const auto tokens = array<int64_t>(case_.io, "in.tokens");
    const int64_t size = case_.config.vision.image_size;
    for (size_t v = 0; v < mask.size(); ++v)
      if (mask[v] != 0)
        seen_.views.push_back(images_.data() + v * static_cast<size_t>(size * size * 3));
    for (size_t i = 0; i < tokens.size(); ++i)
      if (token_mask[i] != 0) seen_.ids.push_back(static_cast<int32_t>(tokens[i]));
    ops_ = std::move(make_cpu_ops({.n_threads = threads}).value());
    const int64_t prefix = PiRun::max_prefix(case_.config, 3, 32);
    EXPECT_TRUE(ops_->reserve(pi_limits(case_.config, 3, prefix)));
    auto weights = read_pi_safetensors(case_.weights, case_.config);
    EXPECT_TRUE(weights) << weights.error().text;
    auto model = PiModel::build(weights.value(), {.numerics = {}, .precision = precision}, *ops_,
                                {}, nullptr);
    EXPECT_TRUE(model) << model.error().text;
    auto run = PiRun::make(model.value(), *ops_, {.max_views = 3, .max_text_tokens = 32});
    EXPECT_TRUE(run);
    run_ = std::move(run.value());
    run_->record_to(&taps_);
  }
  void encode(std::span<const int32_t> more = {}) {
    std::vector<int32_t> ids = seen_.ids;
    ids.insert(ids.end(), more.begin(), more.end());
    run_->encode_views(seen_.views);
    run_->encode_prefix(ids);
  }
  const std::vector<float>& tap(const std::string& name) { return taps_.taps().at(name).values; }
  const std::vector<float>& logits(int k) { return tap("logits_" + std::to_string(k)); }
  PiRun& run() { return *run_; }
  const Case& made() const { return case_; }
  // Last row of the recording that is no padding.
  size_t last_row() const {
    const auto mask = array<uint8_t>(case_.io, "in.token_mask");
    size_t row = 0;
    for (size_t i = 0; i < mask.size(); ++i)
      if (mask[i] != 0) row = i;
    return array<uint8_t>(case_.io, "in.image_mask").size() *
               static_cast<size_t>(case_.config.vision.n_tokens()) +
           row;
  }

 private:
  Case case_;
  std::vector<uint8_t> images_;
  Seen seen_;
  std::unique_ptr<Ops> ops_;
  std::unique_ptr<PiRun> run_;
  TapRecorder taps_;
};

class PiFast : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Golden, PiFast,
                         testing::Values("openpi-pi0-a", "openpi-pi0-b", "openpi-pi05-a",
                                         "openpi-pi05-b"),
                         [](const auto& param) {
                           std::string name = param.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST_P(PiFast, the_first_logits_are_those_of_the_recorded_last_row) {
  OUTRIDER_NEED_SHARED(folder, std::string("golden/") + GetParam());
  struct Bound {
    Precision precision;
    double most;
  };
  for (const auto& [precision, most] :
       {Bound{Precision::kF32, 2e-4}, Bound{Precision::kBf16, 0.1}, Bound{Precision::kInt8, 0.5}}) {
    Runner runner(folder, precision, 1);
    runner.encode();
    const int32_t id = runner.run().next_token(-1);
    const auto rows = array<float>(runner.made().io, "out.prefix_out");
    const auto width = static_cast<size_t>(runner.made().config.backbone.width);
    const float* row = rows.data() + runner.last_row() * width;
    const SafeTensor* embed = runner.made().weights.tensor(pi_safetensors_names().embed);
    if (embed == nullptr)
      embed = runner.made().weights.tensor("paligemma_with_expert.paligemma.lm_head.weight");
    ASSERT_NE(embed, nullptr);
    std::vector<float> table(static_cast<size_t>(embed->n_values()));
    dequantize_row(embed->dtype, embed->data, table.data(), embed->n_values());
    const auto& logits = runner.logits(0);
    ASSERT_EQ(logits.size(), table.size() / width);
    size_t best = 0;
    for (size_t i = 0; i < logits.size(); ++i) {
      double wanted = 0;
      for (size_t k = 0; k < width; ++k)
        wanted += static_cast<double>(table[i * width + k]) * static_cast<double>(row[k]);
      ASSERT_NEAR(logits[i], wanted, most) << i;
      if (logits[i] > logits[best]) best = i;
    }
    EXPECT_EQ(id, static_cast<int32_t>(best));
  }
}

// In the first layer a key depends on its token and its position alone: the first token of the
// answer, stored right behind the prefix, has the key that the same token has as the second one
// behind it, and not the key of the first.
TEST_P(PiFast, the_position_behind_the_prefix_is_skipped) {
  OUTRIDER_NEED_SHARED(folder, std::string("golden/") + GetParam());
  Runner answered(folder, Precision::kF32, 1), prompted(folder, Precision::kF32, 1);
  answered.encode();
  int32_t id = answered.run().next_token(-1);
  for (int k = 0; k < 3; ++k) {
    const int32_t before = id;
    id = answered.run().next_token(before);
    const std::vector<int32_t> more(static_cast<size_t>(k) + 2, before);
    prompted.encode(more);
    const auto& key = answered.tap("answer_k_" + std::to_string(k));
    const auto& keys = prompted.tap("prefix_k_0");
    ASSERT_FALSE(key.empty());
    const float *last = keys.data() + keys.size() - key.size(), *earlier = last - key.size();
    float away = 0;
    for (size_t i = 0; i < key.size(); ++i) {
      ASSERT_NEAR(key[i], last[i], 2e-6f) << "token " << k << " value " << i;
      away = std::max(away, std::abs(key[i] - earlier[i]));
    }
    EXPECT_GT(away, 1e-3f) << "keys of neighbouring positions differ, or this test sees nothing";
  }
}

TEST_P(PiFast, threads_and_a_second_answer_change_no_bit) {
  OUTRIDER_NEED_SHARED(folder, std::string("golden/") + GetParam());
  std::vector<std::vector<float>> first;
  for (const int threads : {1, 2, 3}) {
    Runner runner(folder, Precision::kF32, threads);
    for (int round = 0; round < 2; ++round) {
      if (round == 0) runner.encode();
      int32_t id = -1;
      for (int k = 0; k < 8; ++k) {
        id = runner.run().next_token(id);
        ASSERT_GE(id, 0);
        if (static_cast<int>(first.size()) == k) first.push_back(runner.logits(k));
        ASSERT_EQ(runner.logits(k), first[static_cast<size_t>(k)]) << threads << round << k;
      }
    }
  }
}

}  // namespace
}  // namespace outrider
