// Checkpoint folders as people ship them: every layout opens as the same policy, what is not
// understood is refused in words. FC-16, FC-18, FC-24.
#include "policy/checkpoint.h"

#include <cstring>
#include <filesystem>

#include "models/pi_gguf.h"
#include "models/synthetic_pi.h"
#include "policy/support.h"
#include "support/checkpoint_writer.h"

namespace outrider::policy_test {
namespace {

namespace fs = std::filesystem;
using test::CheckpointSpec;
using test::LerobotSpec;
using test::TempDir;

struct Pair {
  std::string policy, vision;
  PiConfig config;
};

// Written once a family.
const Pair& pair_of(PiFamily family) {
  static const TempDir dir;
  static std::map<PiFamily, Pair> pairs;
  Pair& pair = pairs[family];
  if (!pair.policy.empty()) return pair;
  const std::string stem = family == PiFamily::kPi0 ? "pi0" : "pi05";
  pair.policy = dir.file(stem + ".gguf");
  pair.vision = dir.file(stem + "-mmproj.gguf");
  const SyntheticPi what = {family, false, DType::kF32, 3};
  EXPECT_TRUE(write_synthetic_pi(what, pair.policy.c_str(), pair.vision.c_str()));
  pair.config = synthetic_pi_config(what);
  return pair;
}

std::string sizes_text(const PiConfig& c) {
  return R"("model":{"head_dim":)" + std::to_string(c.backbone.head_dim) + R"(,"vision_heads":)" +
         std::to_string(c.vision.n_heads) + "}";
}

// An openpi folder with a policy.json for a small robot.
class Folder {
 public:
  explicit Folder(PiFamily family, const CheckpointSpec& spec = {}) : pair_(pair_of(family)) {
    test::write_weights(path(), pair_.policy, pair_.vision, spec);
    write_file(path() + "/tokenizer.model", small_model_file().bytes());
    fs::create_directories(path() + "/assets/mine");
    write_file(path() + "/assets/mine/norm_stats.json",
               R"({"norm_stats":{"state":)" + test::statistics_text(6) + R"(,"actions":)" +
                   test::statistics_text(6) + "}}");
    write_file(path() + "/config.json", R"({"action_dim":)" +
                                            std::to_string(pair_.config.action_dim) +
                                            R"(,"action_horizon":7,"precision":"bfloat16"})");
    describe();
  }
  void describe(const std::string& more = "") {
    write_file(path() + "/policy.json",
               R"({"cameras":[{"name":"top","slot":"base_0_rgb"}],)"
               R"("state":{"fields":[{"name":"joints","size":6,"unit":"rad"}]},)"
               R"("actions":{"size":6},)" +
                   sizes_text(pair_.config) + more + "}");
  }
  const std::string& path() const { return dir_.path(); }
  const PiConfig& config() const { return pair_.config; }

 private:
  TempDir dir_;
  const Pair& pair_;
};

void expect_refused(const std::string& path, Code code, const char* says) {
  const auto opened = open_policy_checkpoint(path);
  ASSERT_FALSE(opened) << says;
  EXPECT_EQ(opened.code(), code) << opened.error().text;
  EXPECT_NE(opened.error().message().find(says), std::string_view::npos) << opened.error().text;
}

// Every weight of both, value by value.
void expect_same_weights(const PolicyCheckpoint& checkpoint, const Pair& pair) {
  const auto policy = GgufFile::open(pair.policy.c_str()),
             vision = GgufFile::open(pair.vision.c_str());
  ASSERT_TRUE(policy && vision);
  auto a = read_pi_checkpoint(checkpoint.source, checkpoint.config);
  auto b = read_pi_gguf(policy.value(), vision.value());
  ASSERT_TRUE(a) << a.error().text;
  ASSERT_TRUE(b);
  EXPECT_EQ(a.value().position, b.value().position);
  EXPECT_EQ(a.value().expert_norm.scale, b.value().expert_norm.scale);
  EXPECT_EQ(a.value().projector.bias, b.value().projector.bias);
  EXPECT_EQ(a.value().vision.size(), b.value().vision.size());
  EXPECT_EQ(a.value().backbone.size(), b.value().backbone.size());
  EXPECT_EQ(a.value().embed.n_out, b.value().embed.n_out);
  const auto same = [](const Matrix& x, const Matrix& y) {
    return x.n_in == y.n_in && x.n_out == y.n_out && x.dtype == y.dtype &&
           std::memcmp(x.data, y.data, row_bytes(x.dtype, x.n_in) * static_cast<size_t>(x.n_out)) ==
               0;
  };
  EXPECT_TRUE(same(a.value().embed, b.value().embed));
  EXPECT_TRUE(same(a.value().expert[0].down, b.value().expert[0].down));
  EXPECT_TRUE(same(a.value().vision[0].fc1.w, b.value().vision[0].fc1.w));
  EXPECT_TRUE(same(a.value().vision[0].fc2.w, b.value().vision[0].fc2.w));
}

TEST(Checkpoint, FC24_every_layout_gives_the_weights_of_the_pair) {
  for (const PiFamily family : {PiFamily::kPi0, PiFamily::kPi05}) {
    CheckpointSpec lm_head, shards, lerobot, renamed;
    lm_head.as_lm_head = true;
    shards.n_shards = 3;
    lerobot.prefix = "model.";
    renamed.renamed_time = family == PiFamily::kPi05;
    for (const CheckpointSpec& spec : {CheckpointSpec{}, lm_head, shards, lerobot, renamed}) {
      const Folder folder(family, spec);
      auto opened = open_policy_checkpoint(folder.path());
      ASSERT_TRUE(opened) << opened.error().text;
      const PiConfig &got = opened.value().config, &wanted = folder.config();
      EXPECT_EQ(opened.value().source.family(), family);
      EXPECT_EQ(got.backbone.n_layers, wanted.backbone.n_layers);
      EXPECT_EQ(got.backbone.n_kv_heads, wanted.backbone.n_kv_heads);
      EXPECT_EQ(got.expert.mlp, wanted.expert.mlp);
      EXPECT_EQ(got.vision.image_size, wanted.vision.image_size);
      EXPECT_EQ(got.vision.patch_size, wanted.vision.patch_size);
      EXPECT_EQ(got.vocab, wanted.vocab);
      EXPECT_EQ(got.action_dim, wanted.action_dim);
      EXPECT_EQ(got.action_steps, 7) << "from config.json";
      EXPECT_STREQ(opened.value().source.layout(), spec.prefix.empty() ? "openpi" : "lerobot");
      expect_same_weights(opened.value(), pair_of(family));
      EXPECT_GE(opened.value().notes.size(), 4u);
    }
  }
}

TEST(Checkpoint, statistics_and_description_are_found) {
  const Folder folder(PiFamily::kPi05);
  auto opened = open_policy_checkpoint(folder.path());
  ASSERT_TRUE(opened) << opened.error().text;
  EXPECT_EQ(opened.value().policy.asset_id, "mine");
  EXPECT_EQ(opened.value().policy.statistics.state.width(), 6);
  EXPECT_NE(opened.value().policy.statistics.origin.find("assets/mine"), std::string::npos);
  // The description may be given instead of its folder.
  auto by_file = open_policy_checkpoint(folder.path() + "/policy.json");
  ASSERT_TRUE(by_file) << by_file.error().text;
  EXPECT_EQ(policy_json(by_file.value().policy), policy_json(opened.value().policy));
}

TEST(Checkpoint, a_description_may_lie_elsewhere) {
  const Folder folder(PiFamily::kPi0);
  const TempDir other;
  std::string text = read_file(folder.path() + "/policy.json");
  text.insert(1, R"("checkpoint":")" + folder.path() + "\",");
  fs::remove(folder.path() + "/policy.json");
  write_file(other.file("mine.json"), text);
  auto opened = open_policy_checkpoint(other.file("mine.json"));
  ASSERT_TRUE(opened) << opened.error().text;
  EXPECT_EQ(opened.value().folder, folder.path());
}

TEST(Checkpoint, known_asset_ids_tell_the_robot) {
  const auto with_asset = [](const std::string& id, int64_t n) {
    auto folder = std::make_unique<Folder>(PiFamily::kPi05);
    fs::remove(folder->path() + "/policy.json");
    fs::remove_all(folder->path() + "/assets");
    fs::create_directories(folder->path() + "/assets/" + id);
    write_file(folder->path() + "/assets/" + id + "/norm_stats.json",
               R"({"norm_stats":{"state":)" + test::statistics_text(n) + R"(,"actions":)" +
                   test::statistics_text(n) + "}}");
    return folder;
  };
  // The base head sizes do not fit these tiny matrices: that is the last thing to be said.
  for (const char* id : {"droid", "physical-intelligence/libero"}) {
    const auto folder = with_asset(id, 8);
    expect_refused(folder->path(), Code::kShape, "model.");
  }
  const auto folder = with_asset("somebody/arm", 8);
  expect_refused(folder->path(), Code::kNotFound, "\"somebody/arm\" is none");
}

TEST(Checkpoint, FC18_refuses_missing_and_contradicting_statistics) {
  Folder folder(PiFamily::kPi05);
  fs::create_directories(folder.path() + "/assets/other");
  fs::copy_file(folder.path() + "/assets/mine/norm_stats.json",
                folder.path() + "/assets/other/norm_stats.json");
  expect_refused(folder.path(), Code::kNotFound, "say which in policy.json: asset_id");
  folder.describe(R"(,"asset_id":"other")");
  EXPECT_TRUE(open_policy_checkpoint(folder.path()));
  folder.describe(R"(,"asset_id":"none")");
  expect_refused(folder.path(), Code::kNotFound, "assets/none");
  folder.describe(R"(,"asset_id":"../../etc")");
  expect_refused(folder.path(), Code::kInvalid, "asset_id");
  folder.describe(R"(,"asset_id":"mine","statistics":{"state":)" + test::statistics_text(6) + "}");
  EXPECT_TRUE(open_policy_checkpoint(folder.path()).code() != Code::kOk);  // no actions inside
  folder.describe(R"(,"asset_id":"mine","statistics":{"state":{"q01":[0,0,0,0,0,0],)"
                  R"("q99":[1,1,1,1,1,1]}})");
  expect_refused(folder.path(), Code::kNotFound, "disagree");
  fs::remove_all(folder.path() + "/assets");
  folder.describe();
  expect_refused(folder.path(), Code::kNotFound, "looked for");
  folder.describe(R"(,"normalisation":{"state":"none","actions":"none"})");
  auto opened = open_policy_checkpoint(folder.path());
  EXPECT_TRUE(opened) << opened.error().text;
}

TEST(Checkpoint, refuses_a_robot_that_does_not_fit_before_a_weight_is_read) {
  // The weights are cut to nothing behind the header: reading one would be seen as a crash.
  Folder folder(PiFamily::kPi05);
  const auto fresh = [&](const std::string& more) { folder.describe(more); };
  fresh(R"(,"family":"pi0")");
  expect_refused(folder.path(), Code::kNotFound, "family is PI0");
  write_file(folder.path() + "/config.json", R"({"action_dim":31})");
  fresh("");
  expect_refused(folder.path(), Code::kShape, "states an action width of 31");
  write_file(folder.path() + "/config.json", R"({"action_horizon":"7"})");
  expect_refused(folder.path(), Code::kNotFound, "action_horizon");
  write_file(folder.path() + "/config.json", "{");
  expect_refused(folder.path(), Code::kNotFound, "config.json");
}

TEST(Checkpoint, FC21_a_robot_wider_than_the_model_is_refused) {
  Folder folder(PiFamily::kPi05);
  write_file(folder.path() + "/policy.json",
             R"({"cameras":[{"name":"top","slot":"base_0_rgb"}],)"
             R"("state":{"fields":[{"name":"j","size":6}]},"actions":{"size":33},)"
             R"("normalisation":{"state":"none","actions":"none"},)" +
                 sizes_text(folder.config()) + "}");
  expect_refused(folder.path(), Code::kShape, "the robot has 33 actions");
}

TEST(Checkpoint, refuses_a_missing_or_unfit_tokenizer) {
  Folder folder(PiFamily::kPi0);
  fs::rename(folder.path() + "/tokenizer.model", folder.path() + "/other.model");
  expect_refused(folder.path(), Code::kNotFound, "paligemma_tokenizer.model");
  write_file(folder.path() + "/tokenizer.json", "{}");
  expect_refused(folder.path(), Code::kNotFound, "tokenizer.json is another format");
  folder.describe(R"(,"tokenizer":"other.model")");
  EXPECT_TRUE(open_policy_checkpoint(folder.path()));
  // The vocabulary inside a GGUF file does as well.
  folder.describe(R"(,"tokenizer":")" + pair_of(PiFamily::kPi0).policy + "\"");
  auto opened = open_policy_checkpoint(folder.path());
  ASSERT_TRUE(opened) << opened.error().text;
  ModelFile large = small_model_file();
  for (int i = 0; i < 2000; ++i)
    large.pieces.push_back({"w" + std::to_string(i), -1000, PieceType::kNormal});
  write_file(folder.path() + "/other.model", large.bytes());
  folder.describe(R"(,"tokenizer":"other.model")");
  expect_refused(folder.path(), Code::kNotFound, "pieces, the embedding has");
}

TEST(Checkpoint, FC01_incomplete_weights_are_refused_with_the_tensors_name) {
  const auto without = [](const std::string& name) {
    CheckpointSpec spec;
    spec.change = [name](auto& tensors) { tensors.erase(name); };
    return spec;
  };
  const Folder no_embed(PiFamily::kPi05,
                        without("paligemma_with_expert.paligemma.model.language_model."
                                "embed_tokens.weight"));
  expect_refused(no_embed.path(), Code::kNotFound, "embed_tokens");
  const Folder no_action(PiFamily::kPi05, without("action_in_proj.weight"));
  expect_refused(no_action.path(), Code::kNotFound, "action_in_proj");
  CheckpointSpec nothing;
  nothing.change = [](auto& tensors) {
    std::erase_if(tensors, [](const auto& entry) {
      return entry.first.find("dense") != std::string::npos ||
             entry.first.find("time_mlp") != std::string::npos;
    });
  };
  const Folder unknown(PiFamily::kPi05, nothing);
  expect_refused(unknown.path(), Code::kNotFound, "tells PI0 from PI0.5");
}

TEST(Checkpoint, shards_must_be_what_the_index_says) {
  CheckpointSpec spec;
  spec.n_shards = 2;
  Folder folder(PiFamily::kPi0, spec);
  const std::string index = folder.path() + "/model.safetensors.index.json";
  const std::string good = read_file(index);
  const auto replace = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    write_file(index, text);
  };
  replace("model-0.safetensors", "../model-0.safetensors");
  expect_refused(folder.path(), Code::kNotFound, "no plain file name");
  replace("model-0.safetensors", "model-9.safetensors");
  expect_refused(folder.path(), Code::kNotFound, "model-9");
  replace("model-0.safetensors", "model-1.safetensors");
  expect_refused(folder.path(), Code::kNotFound, "promises");
  write_file(index, R"({"weight_map":{}})");
  expect_refused(folder.path(), Code::kNotFound, "weight_map");
  write_file(index, "nonsense");
  expect_refused(folder.path(), Code::kNotFound, "index.json");
  fs::remove(index);
  expect_refused(folder.path(), Code::kNotFound, "holds neither");
  fs::create_directory(folder.path() + "/params");
  expect_refused(folder.path(), Code::kNotFound, "JAX");
}

TEST(Checkpoint, a_path_that_is_not_there_is_refused) {
  expect_refused("/nonexistent/policy", Code::kNotFound, "/nonexistent/policy");
}

// ---- LeRobot ------------------------------------------------------------------------------------

class Lerobot {
 public:
  explicit Lerobot(LerobotSpec spec = {}, const CheckpointSpec& weights = {.prefix = "model."}) {
    const Pair& pair = pair_of(spec.family);
    spec.width = pair.config.action_dim;
    test::write_weights(path(), pair.policy, pair.vision, weights);
    test::write_lerobot_files(path(), spec);
    write_file(path() + "/tokenizer.model", small_model_file().bytes());
    write_file(path() + "/policy.json", "{" + sizes_text(pair.config) + "}");
  }
  const std::string& path() const { return dir_.path(); }

 private:
  TempDir dir_;
};

TEST(Lerobot, FC16_the_contract_is_read_from_its_own_files) {
  for (const PiFamily family : {PiFamily::kPi0, PiFamily::kPi05}) {
    LerobotSpec spec;
    spec.family = family;
    const Lerobot folder(spec);
    auto opened = open_policy_checkpoint(folder.path());
    ASSERT_TRUE(opened) << opened.error().text;
    const PolicyDescription& p = opened.value().policy;
    ASSERT_EQ(p.cameras.size(), 2u);
    EXPECT_EQ(p.cameras[0].name, "observation.images.top");
    EXPECT_EQ(p.cameras[0].slot, 0);
    EXPECT_EQ(p.cameras[1].slot, 1);
    EXPECT_EQ(p.cameras[1].height, 48);
    EXPECT_EQ(p.cameras[1].width, 64);
    EXPECT_EQ(p.state_width(), 6);
    EXPECT_EQ(p.action_width, 6);
    EXPECT_EQ(opened.value().config.action_steps, 10);
    EXPECT_EQ(p.prompt_rule, PromptRule::kLerobot);
    EXPECT_EQ(p.norm_rule, NormRule::kLerobot);
    EXPECT_EQ(p.epsilon, 1e-8);
    EXPECT_EQ(p.resize, ResizeChoice::kTorch);
    EXPECT_EQ(state_form(p, family),
              family == PiFamily::kPi0 ? NormForm::kZScore : NormForm::kQuantile);
    EXPECT_EQ(p.statistics.actions.width(), 6);
    EXPECT_EQ(max_tokens(p, family), family == PiFamily::kPi0 ? 48 : 200);
    EXPECT_TRUE(p.delta_mask.empty());
  }
}

TEST(Lerobot, FC23_relative_actions_keep_the_excluded_joints_absolute) {
  LerobotSpec spec;
  spec.relative = "true";
  const Lerobot folder(spec);
  auto opened = open_policy_checkpoint(folder.path());
  ASSERT_TRUE(opened) << opened.error().text;
  EXPECT_EQ(opened.value().policy.delta_mask,
            (std::vector<bool>{true, true, false, true, true, true}));
}

TEST(Lerobot, FC16_renames_are_followed_and_a_typing_mistake_is_refused) {
  LerobotSpec spec;
  spec.first_steps = R"({"registry_name":"rename_observations_processor","config":{"rename_map":)"
                     R"({"camera_7":"observation.images.wrist"}}},)";
  const Lerobot folder(spec);
  auto opened = open_policy_checkpoint(folder.path());
  ASSERT_TRUE(opened) << opened.error().text;
  EXPECT_EQ(opened.value().policy.cameras[1].name, "camera_7");
  EXPECT_EQ(opened.value().policy.cameras[1].slot, 1);
  // Two cameras that change places.
  spec.first_steps = R"({"registry_name":"rename_observations_processor","config":{"rename_map":)"
                     R"({"observation.images.top":"observation.images.wrist",)"
                     R"("observation.images.wrist":"observation.images.top"}}},)";
  const Lerobot swapped(spec);
  auto exchanged = open_policy_checkpoint(swapped.path());
  ASSERT_TRUE(exchanged) << exchanged.error().text;
  EXPECT_EQ(exchanged.value().policy.cameras[0].name, "observation.images.wrist");
  EXPECT_EQ(exchanged.value().policy.cameras[0].slot, 0);
  EXPECT_EQ(exchanged.value().policy.cameras[1].name, "observation.images.top");
  // Two incoming names for one camera: the later word holds in LeRobot; here nobody guesses.
  spec.first_steps = R"({"registry_name":"rename_observations_processor","config":{"rename_map":)"
                     R"({"a":"observation.images.wrist","b":"observation.images.wrist"}}},)";
  const Lerobot twice(spec);
  expect_refused(twice.path(), Code::kNotFound, "observation.images.wrist");
  spec.first_steps = R"({"registry_name":"rename_observations_processor","config":{"rename_map":)"
                     R"({"camera_7":"observation.images.wirst"}}},)";
  const Lerobot wrong(spec);
  expect_refused(wrong.path(), Code::kNotFound, "observation.images.wirst");
}

TEST(Lerobot, what_it_does_not_understand_is_refused_by_name) {
  const auto with_config = [](const std::string& extra) {
    LerobotSpec spec;
    spec.config_extra = extra;
    return std::make_unique<Lerobot>(spec);
  };
  expect_refused(with_config(R"(,"use_visual_memory":true)")->path(), Code::kUnsupported,
                 "use_visual_memory");
  LerobotSpec steps;
  steps.first_steps = R"({"registry_name":"image_crop_resize_processor","config":{}},)";
  expect_refused(Lerobot(steps).path(), Code::kUnsupported, "\"image_crop_resize_processor\"");
  steps.first_steps = R"({"class":"my.module.Step","config":{}},)";
  expect_refused(Lerobot(steps).path(), Code::kUnsupported, "\"my.module.Step\"");
  LerobotSpec differ;
  differ.same_statistics = false;
  expect_refused(Lerobot(differ).path(), Code::kNotFound, "disagree");

  const auto edited = [](const std::string& file, const std::string& from, const std::string& to,
                         Code code, const char* says) {
    const Lerobot folder;
    std::string text = read_file(folder.path() + "/" + file);
    const size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    write_file(folder.path() + "/" + file, text.replace(at, from.size(), to));
    expect_refused(folder.path(), code, says);
  };
  edited("config.json", "\"pi05\"", "\"smolvla\"", Code::kUnsupported, "\"smolvla\"");
  edited("config.json", "\"pi05\"", "\"pi0\"", Code::kNotFound, "type is \"pi0\"");
  edited("config.json", R"("n_obs_steps":1)", R"("n_obs_steps":2)", Code::kUnsupported,
         "n_obs_steps");
  edited("config.json", "0.004", "0.005", Code::kUnsupported, "min_period");
  edited("config.json", "QUANTILES", "QUANTILE10", Code::kUnsupported, "QUANTILE10");
  edited("config.json", "IDENTITY", "MEAN_STD", Code::kUnsupported, "VISUAL");
  edited("config.json", "\"observation.state\"", "\"observation.other\"", Code::kUnsupported,
         "observation.other");
  edited("config.json", "[3,48,64]", "[1,48,64]", Code::kNotFound, "1 channels");
  edited("policy_preprocessor.json", "paligemma-3b", "t5", Code::kUnsupported, "t5");
  edited("policy_preprocessor.json", "normalizer_processor", "normaliser", Code::kUnsupported,
         "normaliser");
  edited("policy_preprocessor.json", "policy_preprocessor_step_3", "../x", Code::kNotFound,
         "plain file name");
  const Lerobot folder;
  fs::remove(folder.path() + "/policy_postprocessor.json");
  expect_refused(folder.path(), Code::kNotFound, "migrate");
}

TEST(Lerobot, a_cut_document_is_refused) {
  const Lerobot folder;
  for (const char* name :
       {"config.json", "policy_preprocessor.json", "policy_postprocessor.json"}) {
    const std::string path = folder.path() + "/" + name, good = read_file(path);
    for (size_t n = 0; n < good.size(); n += 13) {
      write_file(path, good.substr(0, n));
      EXPECT_FALSE(open_policy_checkpoint(folder.path())) << name << " " << n;
    }
    write_file(path, good);
  }
  EXPECT_TRUE(open_policy_checkpoint(folder.path()));
}

}  // namespace
}  // namespace outrider::policy_test
