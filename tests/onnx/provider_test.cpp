// provider_onnx.so: configuration, ports, state, history, statistics, codes.
#include <cmath>

#include "host/conform.h"
#include "onnx/provider_fixture.h"
#include "support/hot_counter.h"

namespace outrider::onnx::test {
namespace {

namespace hot_counter = ::outrider::test::hot_counter;
using ::outrider::test::HotCounts;

void expect_conforming(const std::string& config) {
  host::ConformOptions options;
  options.strict = true;
  const auto report = host::conform(provider_path(), config, options);
  EXPECT_GT(report.passed, 35);
  EXPECT_EQ(report.failed, 0) << host::to_text(report);
}

TEST(OnnxConform, a_plain_policy_passes_the_contract_suite) {
  expect_conforming(OnDisk(policy()).config());
}
TEST(OnnxConform, a_stateful_graph_passes_the_contract_suite) {
  expect_conforming(OnDisk(stateful()).config(R"("dims":"n1=1")"));
}
TEST(OnnxConform, a_real_stateful_model_passes_the_contract_suite) {
  OUTRIDER_NEED_SHARED(path, "data/silero_vad_16k_op15.onnx");
  expect_conforming(R"({"model_family":"onnx","model_path":")" + path +
                    R"(","backend":"cpu","dims":"batch=1,sequence=512"})");
}

TEST(OnnxFace, ports_are_those_of_the_graph) {
  const OnDisk disk(policy());
  const Provider p(disk.config());
  ASSERT_TRUE(p.ok());
  ASSERT_EQ(p.get()->n_ports, 2u);
  const auto &obs = p.get()->ports[0], &actions = p.get()->ports[1];
  EXPECT_STREQ(obs.name, "obs");
  EXPECT_EQ(obs.direction, uint32_t{FRT_PORT_IN});
  EXPECT_EQ(obs.dtype, uint32_t{FRT_DTYPE_F32});
  ASSERT_EQ(obs.rank, 2u);
  EXPECT_EQ(obs.shape[1], 6);
  EXPECT_STREQ(actions.name, "actions");
  EXPECT_EQ(actions.modality, uint32_t{FRT_MODALITY_ACTION});
  ASSERT_EQ(p.plan()->n_stages, 1u);
  EXPECT_STREQ(p.plan()->stages[0].name, "infer");
}

TEST(OnnxFace, two_threads_give_the_bits_of_one) {
  const OnDisk disk(policy());
  std::vector<float> first;
  for (const char* threads : {R"("n_threads":1)", R"("n_threads":2)"}) {
    const Provider p(disk.config(threads));
    ASSERT_EQ(p.set("obs", {1, -2, 3, -4, 5, -6}), 0);
    ASSERT_EQ(p.step(), 0) << p.error();
    const auto now = p.read("actions");
    ASSERT_EQ(now.size(), 3u);
    if (first.empty()) first = now;
    EXPECT_EQ(now, first);
  }
}

TEST(OnnxFace, inputs_and_outputs_follow_the_stale_rules) {
  const OnDisk disk(policy());
  const Provider p(disk.config());
  EXPECT_EQ(p.step(), FRT_ERR_INVALID) << "nothing is staged";
  EXPECT_NE(p.error().find("obs"), std::string::npos) << p.error();
  ASSERT_EQ(p.set("obs", {1, 2, 3, 4, 5, 6}), 0);
  p.read("actions");
  EXPECT_EQ(p.last(), FRT_ERR_NOT_READY);
  ASSERT_EQ(p.step(), 0);
  EXPECT_EQ(p.read("actions").size(), 3u);
  EXPECT_EQ(p.set("obs", {1, 2, 3}), FRT_ERR_INVALID);
  EXPECT_NE(p.error().find("wanted 24"), std::string::npos) << p.error();
  EXPECT_EQ(p.step(), FRT_ERR_INVALID) << "the old value is gone";
}

TEST(OnnxFace, FC22_neither_takes_nor_gives_values_that_are_no_numbers) {
  const OnDisk disk(policy());
  const Provider p(disk.config());
  for (const float bad : {NAN, INFINITY, -INFINITY})
    EXPECT_EQ(p.set("obs", {0, 0, bad, 0, 0, 0}), FRT_ERR_INVALID);
  // Finite inputs whose product is not.
  ModelMaker m;
  m.input("x", {1}).output("action", {1});
  m.node("Mul", {"x", "x"}, {"action"});
  const OnDisk square(m);
  const Provider s(square.config());
  ASSERT_EQ(s.set("x", {1e30f}), 0);
  EXPECT_EQ(s.step(), FRT_ERR_FAILED);
  EXPECT_NE(s.error().find("action"), std::string::npos);
  s.read("action");
  EXPECT_EQ(s.last(), FRT_ERR_NOT_READY);
  EXPECT_EQ(s.counter("nonfinite_outputs"), 1);
}

// ---- state
// ---------------------------------------------------------------------------------------

TEST(OnnxState, stays_inside_is_read_and_is_reset) {
  const OnDisk disk(stateful());
  const Provider p(disk.config(R"("dims":"n1=1")"));
  ASSERT_TRUE(p.ok());
  ASSERT_EQ(p.get()->n_ports, 3u) << "x, y, next_memory";
  ASSERT_EQ(p.plan()->n_stages, 2u);
  EXPECT_STREQ(p.plan()->stages[0].name, "reset");
  EXPECT_STREQ(p.plan()->stages[1].name, "infer");
  for (int round = 0; round < 2; ++round) {
    ASSERT_EQ(p.stage("reset"), 0);
    float memory = 0;
    for (int tick = 0; tick < 5; ++tick) {
      const float x = static_cast<float>(tick + 1);
      ASSERT_EQ(p.set("x", {x, x, x, x}), 0);
      ASSERT_EQ(p.stage("infer"), 0) << p.error();
      EXPECT_EQ(p.read("y")[0], x + memory) << tick;
      memory = memory / 2 + x;
      EXPECT_EQ(p.read("next_memory")[3], memory);
    }
  }
  EXPECT_EQ(p.counter("resets"), 2);
}

TEST(OnnxState, FC22_a_failed_run_leaves_it_as_it_was) {
  const OnDisk disk(stateful());
  const Provider p(disk.config(R"("dims":"n1=1")"));
  ASSERT_EQ(p.set("x", {3e38f, 1, 1, 1}), 0);
  ASSERT_EQ(p.stage("infer"), 0);
  EXPECT_EQ(p.stage("infer"), FRT_ERR_FAILED) << "3e38 + 3e38";
  ASSERT_EQ(p.set("x", {1, 1, 1, 1}), 0);
  ASSERT_EQ(p.stage("infer"), 0) << p.error();
  EXPECT_EQ(p.read("y")[1], 2) << "one tick's memory, not two";
}

TEST(OnnxState, pairs_may_be_given_or_taken_away) {
  const OnDisk disk(stateful());
  const Provider none(disk.config(R"("dims":"n1=1","state_pairs":"none")"));
  EXPECT_EQ(none.get()->n_ports, 4u);
  EXPECT_EQ(none.plan()->n_stages, 1u);
  const Provider other(disk.config(R"("dims":"n1=1","state_pairs":"memory:y")"));
  ASSERT_TRUE(other.ok());
  ASSERT_EQ(other.set("x", {1, 1, 1, 1}), 0);
  for (int tick = 1; tick <= 3; ++tick) {
    ASSERT_EQ(other.stage("infer"), 0);
    EXPECT_EQ(other.read("y")[0], static_cast<float>(tick)) << "y itself is the memory";
  }
  for (const char* bad :
       {"memory:nobody", "nobody:y", "memory:y,memory:next_memory", "memory", ":y", "memory:"})
    EXPECT_EQ(
        Provider(disk.config(R"("dims":"n1=1","state_pairs":")" + std::string(bad) + "\"")).code(),
        FRT_ERR_INVALID)
        << bad;
}

// ---- history, statistics
// ------------------------------------------------------------------------------

TEST(OnnxHistory, stacks_frames_oldest_first_and_begins_with_the_first) {
  ModelMaker m;
  m.input("obs", {1, 6}).output("seen", {1, 6});
  m.node("Identity", {"obs"}, {"seen"});
  const OnDisk disk(m);
  const Provider p(disk.config(R"("history":3)"));
  ASSERT_TRUE(p.ok());
  EXPECT_EQ(p.get()->ports[0].shape[1], 2);
  ASSERT_EQ(p.set("obs", {1, 2}), 0);
  ASSERT_EQ(p.stage("infer"), 0);
  EXPECT_EQ(p.read("seen"), (std::vector<float>{1, 2, 1, 2, 1, 2}));
  ASSERT_EQ(p.set("obs", {3, 4}), 0);
  ASSERT_EQ(p.stage("infer"), 0);
  EXPECT_EQ(p.read("seen"), (std::vector<float>{1, 2, 1, 2, 3, 4}));
  ASSERT_EQ(p.set("obs", {5, 6}), 0);
  ASSERT_EQ(p.stage("infer"), 0);
  EXPECT_EQ(p.read("seen"), (std::vector<float>{1, 2, 3, 4, 5, 6}));
  ASSERT_EQ(p.stage("reset"), 0);
  ASSERT_EQ(p.stage("infer"), 0);
  EXPECT_EQ(p.read("seen"), (std::vector<float>{5, 6, 5, 6, 5, 6}));
  EXPECT_EQ(Provider(disk.config(R"("history":4)")).code(), FRT_ERR_SHAPE);
  for (const char* bad : {"0", "1025", "-1"})
    EXPECT_EQ(Provider(disk.config(R"("history":)" + std::string(bad))).code(), FRT_ERR_INVALID);
}

TEST(OnnxStats, FC25_normalise_and_clip_as_the_file_says) {
  ModelMaker m;
  m.input("obs", {1, 2}).output("action", {1, 2});
  m.node("Identity", {"obs"}, {"action"});
  const OnDisk disk(m);
  std::ofstream(disk.file("stats.json"))
      << R"({"inputs":{"obs":{"mean":[1,10],"scale":[2,0.5],"clip":3}},"outputs":{"action":{"mean":[100],"scale":[10],"clip":2}}})";
  const Provider p(disk.config(R"("stats_path":")" + disk.file("stats.json") + "\""));
  ASSERT_TRUE(p.ok());
  ASSERT_EQ(p.set("obs", {3, 20}), 0);  // (3 - 1) / 2 = 1; (20 - 10) / 0.5 = 20 -> 3
  ASSERT_EQ(p.step(), 0);
  EXPECT_EQ(p.read("action"), (std::vector<float>{110, 120}));  // 1 * 10 + 100; 3 -> 2
  EXPECT_EQ(p.counter("clipped_values"), 1);
}

TEST(OnnxStats, FC18_FC20_refuses_files_that_are_absent_wrong_or_divide_by_zero) {
  const OnDisk disk(policy());
  const auto code = [&](const std::string& text) {
    std::ofstream(disk.file("s.json")) << text;
    return Provider(disk.config(R"("stats_path":")" + disk.file("s.json") + "\"")).code();
  };
  EXPECT_EQ(Provider(disk.config(R"("stats_path":"/nowhere/s.json")")).code(), FRT_ERR_NOT_FOUND);
  EXPECT_EQ(code(R"({"inputs":{"obs":{"mean":[0],"scale":[1]}}})"), 0);
  EXPECT_EQ(code(R"({"inputs":{"obs":{"mean":[0],"scale":[0]}}})"), FRT_ERR_NOT_FOUND);
  EXPECT_EQ(code(R"({"inputs":{"obs":{"mean":[0,0]}}})"), FRT_ERR_SHAPE);
  EXPECT_EQ(code(R"({"inputs":{"other":{"mean":[0]}}})"), FRT_ERR_SHAPE);
  EXPECT_EQ(code(R"({"inputs":{"obs":{"std":[1]}}})"), FRT_ERR_NOT_FOUND);
  EXPECT_EQ(code(R"({"input":{}})"), FRT_ERR_NOT_FOUND);
  EXPECT_EQ(code(R"({"inputs":{"obs":{"clip":-1}}})"), FRT_ERR_NOT_FOUND);
  EXPECT_EQ(code(R"([])"), FRT_ERR_NOT_FOUND);
  EXPECT_EQ(code(R"({"inputs":)"), FRT_ERR_NOT_FOUND);
}

// ---- codes of a failed open
// -----------------------------------------------------------------------

TEST(OnnxOpen, FC48_every_fault_has_its_code) {
  const OnDisk disk(policy());
  const auto code = [&](const std::string& extra) { return Provider(disk.config(extra)).code(); };
  EXPECT_EQ(code(""), 0);
  EXPECT_EQ(code(R"("precison":"f32")"), FRT_ERR_INVALID);
  EXPECT_EQ(code(R"("precision":"fp8")"), FRT_ERR_INVALID);
  EXPECT_EQ(code(R"("n_threads":"two")"), FRT_ERR_INVALID);
  EXPECT_EQ(code(R"("dims":"batch")"), FRT_ERR_INVALID);
  EXPECT_EQ(code(R"("dims":"batch=0")"), FRT_ERR_INVALID);
  EXPECT_EQ(code(R"("dims":"batch=1")"), FRT_ERR_INVALID) << "the model has no such dimension";
  EXPECT_EQ(Provider(R"({"model_family":"onnx","model_path":"/nowhere","backend":"cpu"})").code(),
            FRT_ERR_NOT_FOUND);
  EXPECT_EQ(Provider(R"({"model_family":"pi0"})").code(), FRT_ERR_UNSUPPORTED);
  EXPECT_EQ(Provider(R"({"model_family":"onnx","model_path":"x","backend":"cuda"})").code(),
            FRT_ERR_UNSUPPORTED);
  EXPECT_EQ(Provider(R"({"model_family":"onnx","backend":"cpu"})").code(), FRT_ERR_INVALID);
  const OnDisk open(stateful());
  EXPECT_EQ(Provider(open.config()).code(), FRT_ERR_INVALID) << "n1 has no size";
  ModelMaker unknown = policy();
  unknown.output("z");
  unknown.node("Frobnicate", {"obs"}, {"z"});
  EXPECT_EQ(Provider(OnDisk(unknown).config()).code(), FRT_ERR_UNSUPPORTED);
}

TEST(OnnxOpen, precision_changes_products_within_bounds) {
  const OnDisk disk(policy());
  const auto run = [&](const char* precision) {
    const Provider p(disk.config(R"("precision":")" + std::string(precision) + "\""));
    EXPECT_EQ(p.set("obs", {0.1f, -0.2f, 0.3f, -0.4f, 0.5f, -0.6f}), 0);
    EXPECT_EQ(p.step(), 0);
    return p.read("actions");
  };
  const auto exact = run("f32"), bf16 = run("bf16"), int8 = run("int8");
  EXPECT_EQ(exact, run("stored"));
  for (size_t i = 0; i < exact.size(); ++i) {
    EXPECT_NEAR(bf16[i], exact[i], 0.02);
    EXPECT_NEAR(int8[i], exact[i], 0.05);
  }
}

// ---- inside a tick
// ------------------------------------------------------------------------------------

TEST(OnnxHotPath, a_tick_takes_no_heap_no_lock_and_writes_nothing) {
  if (!hot_counter::available()) GTEST_SKIP() << "sanitizers stand in the place of the counter";
  const OnDisk plain(policy()), kept(stateful());
  std::vector<std::string> configs = {plain.config(R"("n_threads":2)"), plain.config(),
                                      kept.config(R"("dims":"n1=1")")};
  for (const char* name : {"silero_vad_16k_op15", "mnist"}) {
    const std::string path = ::outrider::test::shared_path("data/" + std::string(name) + ".onnx");
    const bool open = std::string(name) != "mnist";
    if (!path.empty())
      configs.push_back(R"({"model_family":"onnx","n_threads":2,"model_path":")" + path +
                        R"(","backend":"cpu")" +
                        (open ? R"(,"dims":"batch=1,sequence=512"})" : "}"));
  }
  for (const std::string& config : configs) {
    const Provider p(config);
    ASSERT_TRUE(p.ok()) << config;
    const auto& verbs = p.get()->verbs;
    void* self = p.get()->self;
    std::vector<std::vector<std::byte>> arrays(p.get()->n_ports);
    for (uint64_t i = 0; i < p.get()->n_ports; ++i) {
      const auto& port = p.get()->ports[i];
      size_t n = port.dtype == FRT_DTYPE_I64 ? 8 : 4;
      for (uint32_t d = 0; d < port.rank; ++d) n *= static_cast<size_t>(port.shape[d]);
      arrays[i].resize(n);
    }
    int worst = 0;
    uint64_t written = 0;
    hot_counter::arm();
    for (int tick = 0; tick < 20; ++tick) {
      for (uint32_t i = 0; i < p.get()->n_ports; ++i)
        if (p.get()->ports[i].direction == FRT_PORT_IN)
          worst = std::min(worst, verbs.set_input(self, i, arrays[i].data(), arrays[i].size(), -1));
      worst = std::min(worst, verbs.step(self));
      for (uint32_t i = 0; i < p.get()->n_ports; ++i)
        if (p.get()->ports[i].direction == FRT_PORT_OUT)
          worst = std::min(
              worst, verbs.get_output(self, i, arrays[i].data(), arrays[i].size(), &written, -1));
      verbs.set_input(self, 0, nullptr, 0, -1);
      verbs.step(self);
    }
    const HotCounts counts = hot_counter::disarm();
    EXPECT_EQ(worst, 0) << p.error();
    EXPECT_EQ(counts.total(), 0u) << config << hot_counter::describe(counts);
  }
}

TEST(OnnxLifecycle, FC33_the_warm_up_is_done_at_open_and_reported) {
  const OnDisk disk(policy());
  const Provider p(disk.config());
  EXPECT_EQ(p.counter("warm_ups"), 1);
  EXPECT_EQ(p.counter("runs"), 0);
}

TEST(OnnxLifecycle, FC32_the_library_leaves_the_process) {
  const OnDisk disk(policy());
  { const Provider p(disk.config()); }
  EXPECT_EQ(dlopen(provider_path().c_str(), RTLD_NOW | RTLD_NOLOAD), nullptr);
}

}  // namespace
}  // namespace outrider::onnx::test
