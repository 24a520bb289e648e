// provider_link.so in front of every provider: the contract suite with the checks of what is
// served, and the outputs beside those of the same configuration in this process, byte for byte.
#include <filesystem>
#include <fstream>
#include <map>

#include "camera/fixture.h"
#include "host/conform_bench.h"
#include "link/host_here.h"
#include "onnx/driving_support.h"
#include "providers/mllm_fixture.h"
#include "providers/policy_fixture.h"
#include "support/fast_folder.h"

namespace outrider::link {
namespace {

using here::provider;
namespace bench = host::conformance;

struct Served {
  std::string provider, config;
};

std::string fake(const std::string& more = "") {
  return "{\"model_family\":\"fake\"" + more + "}";
}

Served policy(PiFamily family) {
  return {provider("gguf"),
          outrider::test::config_json({.pair = outrider::test::tiny_pair(family),
                                       .extra = R"("precision":"f32","n_threads":1)"})};
}

Served robot(PiFamily family) {
  static const outrider::test::RobotFolder pi0, pi05({.family = PiFamily::kPi05});
  return {provider("gguf"), (family == PiFamily::kPi0 ? pi0 : pi05).config()};
}

Served fast() {
  static const outrider::test::TempDir dir;
  const auto& pair = outrider::test::tiny_pair(PiFamily::kPi05);
  if (!std::filesystem::exists(dir.file("policy.json")))
    outrider::test::write_fast_folder(dir.path(), pair.policy, pair.vision);
  return {provider("gguf"), R"({"model_family":"pi0","policy_dir":")" + dir.path() +
                                R"(","backend":"cpu","n_threads":1,"precision":"f32"})"};
}

Served graph(bool with_state) {
  static const onnx::test::OnDisk plain(onnx::test::policy()), stateful(onnx::test::stateful());
  return {provider("onnx"), with_state ? stateful.config(R"("dims":"n1=1",)"
                                                         R"("state_pairs":"memory:next_memory")")
                                       : plain.config()};
}

Served driving_graph(driving::Layout layout, const char* more) {
  static std::map<driving::Layout, onnx::test::DrivingOnDisk> disks;
  const auto& disk = disks.try_emplace(layout, layout).first->second;
  return {provider("onnx"), disk.config(std::string(R"("n_threads":1)") + more)};
}

Served cameras() {
  static const camera::test::Cameras made("", R"("state_pairs":"seen:next_seen")");
  return {provider("camera"), made.config};
}

Served language_with_pictures(VlmKind kind) {
  auto spec = outrider::test::tiny_mllm(kind, R"("plan":"staged","tokens_port":"off")");
  spec.n_ctx = 96, spec.max_tokens = 4;
  return {provider("gguf"), outrider::test::config_json(spec)};
}

Served tandem() {
  static const outrider::test::TempDir dir;
  const std::string side = dir.file("side.json");
  std::ofstream(side) << fake();
  return {provider("tandem"), R"({"model_family":"tandem","standby":")" + side + R"(","lead":")" +
                                  side + R"(","standby_provider":")" + provider("fake") +
                                  R"(","lead_provider":")" + provider("fake") + R"("})"};
}

struct Kind {
  const char* name;
  Served (*make)();
  int least_checks;  // that a suite over the link must have made; 0: it is not run here
};
const Kind kKinds[] = {
    {"fake",
     [] {
       return Served{provider("fake"), fake()};
     },
     45},
    {"pi0", [] { return policy(PiFamily::kPi0); }, 0},
    {"pi05", [] { return policy(PiFamily::kPi05); }, 0},
    {"robot_pi0", [] { return robot(PiFamily::kPi0); }, 50},
    {"robot_pi05", [] { return robot(PiFamily::kPi05); }, 50},
    {"pi0_fast", fast, 50},
    {"llm",
     [] {
       outrider::test::LlmSpec spec;
       spec.model = outrider::test::tiny_llm();
       return Served{provider("gguf"), outrider::test::config_json(spec)};
     },
     48},
    {"mllm_gemma3", [] { return language_with_pictures(VlmKind::kGemma3); }, 48},
    {"mllm_qwen", [] { return language_with_pictures(VlmKind::kQwen25Vl); }, 48},
    {"mllm_idefics3", [] { return language_with_pictures(VlmKind::kIdefics3); }, 48},
    {"onnx", [] { return graph(false); }, 45},
    {"onnx_with_state", [] { return graph(true); }, 40},
    {"driving_queued", [] { return driving_graph(driving::Layout::kQueued, ""); }, 40},
    {"driving_stateful", [] { return driving_graph(driving::Layout::kStateful, ""); }, 40},
    {"camera", cameras, 40},
    {"tandem", tandem, 42},
};

// ./check runs the suite of the plain faces of PI0 and PI0.5 over the link, with the program.
std::vector<Kind> kinds(bool for_suite) {
  std::vector<Kind> all(std::begin(kKinds), std::end(kKinds));
  if (for_suite) std::erase_if(all, [](const Kind& kind) { return kind.least_checks == 0; });
  return all;
}

class InFrontOf : public ::testing::TestWithParam<Kind> {};
class SuiteInFrontOf : public InFrontOf {};
std::string name_of(const ::testing::TestParamInfo<Kind>& kind) {
  return kind.param.name;
}
INSTANTIATE_TEST_SUITE_P(Providers, InFrontOf, ::testing::ValuesIn(kinds(false)), name_of);
INSTANTIATE_TEST_SUITE_P(Providers, SuiteInFrontOf, ::testing::ValuesIn(kinds(true)), name_of);

TEST_P(SuiteInFrontOf, the_contract_suite_finds_nothing) {
  const Served served = GetParam().make();
  const here::Host host(served.config, "tcp://127.0.0.1:0", {}, served.provider);
  host::ConformOptions options;
  options.served = served.config;
  const auto report =
      host::conform(provider("link"), host.remote(",\"deadline_ms\":10000"), options);
  EXPECT_EQ(report.failed, 0) << host::to_text(report);
  EXPECT_GE(report.passed, GetParam().least_checks) << host::to_text(report);
}

// One runtime of the suite's bench.
struct End {
  End(const std::string& path, const std::string& config, const std::string& served)
      : options(with(served)), made(path, config, options), runtime(made.open(verdict)) {}
  static host::ConformOptions with(const std::string& served) {
    host::ConformOptions made;
    made.served = served;
    return made;
  }
  host::ConformOptions options;
  bench::Bench made;
  bench::Verdict verdict;
  std::optional<bench::Instance> runtime;
};

void expect_same_outputs(End& here, End& there, const std::string& when) {
  const auto &ports = here.runtime->ports(), &mirrored = there.runtime->ports();
  ASSERT_EQ(ports.size(), mirrored.size());
  for (uint32_t i = 0; i < ports.size(); ++i) {
    if (!here.made.judges(ports[i])) continue;
    const auto want = here.runtime->read(i), got = there.runtime->read(i);
    EXPECT_EQ(got.code, want.code) << ports[i].name << " " << when;
    EXPECT_TRUE(got.bytes == want.bytes) << ports[i].name << " " << when;
  }
}

TEST_P(InFrontOf, every_output_is_the_local_one_byte_for_byte) {
  const Served served = GetParam().make();
  const here::Host host(served.config, "tcp://127.0.0.1:0", {}, served.provider);
  End here(served.provider, served.config, ""),
      there(provider("link"), host.remote(",\"deadline_ms\":10000"), served.config);
  ASSERT_TRUE(here.runtime && there.runtime);
  EXPECT_STREQ(here.runtime->get()->exp->identity, there.runtime->get()->exp->identity);
  int n_outputs = 0;
  for (const auto& port : here.runtime->ports()) n_outputs += here.made.judges(port) ? 1 : 0;
  ASSERT_GE(n_outputs, 1);
  for (int i = 0; i < 6; ++i) {
    const std::string when = "of tick " + std::to_string(i);
    for (End* end : {&here, &there}) {
      ASSERT_TRUE(end->made.stage_all(*end->runtime, end->verdict, i % 3 == 2 ? 1 : 0))
          << end->verdict.check("", false).detail;
      // Stage by stage and as one.
      ASSERT_EQ(i % 2 == 0 ? end->runtime->tick() : end->runtime->step(), 0)
          << when << ": " << end->runtime->error();
    }
    expect_same_outputs(here, there, when);
  }
}

}  // namespace
}  // namespace outrider::link
