// Every way an open can fail: code, one line, nothing left behind.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "base/cpu_budget.h"
#include "outrider/ext/status.h"
#include "outrider/host.h"
#include "providers/pi_fixture.h"
#include "support/shared_data.h"

namespace outrider::test {
namespace {

// Opens through the host, which is how a reason is heard.
struct Opened {
  int code = 0;
  std::string reason;
};
Opened try_open(const std::string& config) {
  outrider_session* session = nullptr;
  char reason[512] = {};
  Opened result;
  result.code =
      outrider_open(provider_path().c_str(), config.c_str(), &session, reason, sizeof reason);
  result.reason = reason;
  EXPECT_EQ(session != nullptr, result.code == 0);
  outrider_close(session);
  return result;
}

void expect_refused(const std::string& config, int code, const std::string& word) {
  const Opened opened = try_open(config);
  EXPECT_EQ(opened.code, code) << config << "\n" << opened.reason;
  EXPECT_NE(opened.reason.find(word), std::string::npos)
      << "wanted \"" << word << "\" in: " << opened.reason;
  EXPECT_EQ(opened.reason.find('\n'), std::string::npos);
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

class Open : public testing::Test {
 protected:
  Open() : pair_(tiny_pair(PiFamily::kPi05)), good_(config_json({.pair = pair_})) {}
  const PiPair& pair_;
  std::string good_;
};

TEST_F(Open, a_good_configuration_opens_in_any_key_order_and_spacing) {
  EXPECT_EQ(try_open(good_).code, 0);
  std::string spaced = replaced(good_, R"("backend":"cpu",)", "");
  spaced = replaced(spaced, "{", "\n\t{ \"backend\" : \"cpu\" ,\r\n");
  EXPECT_EQ(try_open(spaced + " \n").code, 0);
}

TEST_F(Open, every_required_key_is_missed_by_name) {
  for (const char* key : {"model_path", "mmproj_path", "backend", "n_views", "image_height",
                          "image_width", "image_channels", "action_steps", "action_dim"}) {
    const std::string quoted = std::string(",\"") + key + "\":";
    const size_t from = good_.find(quoted), to = good_.find_first_of(",}", from + quoted.size());
    ASSERT_NE(from, std::string::npos) << key;
    expect_refused(good_.substr(0, from) + good_.substr(to), FRT_ERR_INVALID, key);
  }
}

TEST_F(Open, FC48_typing_mistakes_are_refused_with_the_nearest_key) {
  expect_refused(replaced(good_, "n_views", "n_view"), FRT_ERR_INVALID, "n_views");
  expect_refused(replaced(good_, "}", R"(,"noise_sed":41})"), FRT_ERR_INVALID, "noise_seed");
  expect_refused(replaced(good_, R"("n_views":2)", R"("n_views":"2")"), FRT_ERR_INVALID,
                 "integer 1..3");
  expect_refused(replaced(good_, R"("n_views":2)", R"("n_views":2,"n_views":2)"), FRT_ERR_INVALID,
                 "n_views");
}

TEST_F(Open, strict_json_rules_hold) {
  expect_refused("", FRT_ERR_INVALID, "");
  expect_refused("{}", FRT_ERR_INVALID, "");
  expect_refused("[]", FRT_ERR_INVALID, "");
  expect_refused(good_ + "x", FRT_ERR_INVALID, "");
  expect_refused(replaced(good_, "}", ",}"), FRT_ERR_INVALID, "");
  expect_refused(replaced(good_, R"("backend":"cpu")", R"("backend":true)"), FRT_ERR_INVALID, "");
  expect_refused(replaced(good_, R"("backend":"cpu")", R"("backend":{"a":1})"), FRT_ERR_INVALID,
                 "");
  expect_refused(replaced(good_, R"("backend":"cpu")", R"("backend":"\u0063pu")"), FRT_ERR_INVALID,
                 "");
  expect_refused(replaced(good_, R"("n_views":2)", R"("n_views":02)"), FRT_ERR_INVALID, "");
  expect_refused(replaced(good_, R"("n_views":2)", R"("n_views":2.0)"), FRT_ERR_INVALID, "n_views");
}

TEST_F(Open, values_out_of_range_are_refused) {
  for (const char* views : {"0", "4", "-1", "99999999999999999999"}) {
    expect_refused(replaced(good_, R"("n_views":2)", std::string(R"("n_views":)") + views),
                   FRT_ERR_INVALID, "");
  }
  expect_refused(replaced(good_, R"("backend":"cpu")", R"("backend":"")"), FRT_ERR_INVALID,
                 "backend");
  expect_refused(replaced(good_, "}", R"(,"numerics":"exact"})"), FRT_ERR_INVALID,
                 "\"reference\", \"jetson-pi\"");
  expect_refused(replaced(good_, "}", R"(,"precision":"fp8"})"), FRT_ERR_INVALID, "\"bf16\"");
  expect_refused(replaced(good_, "}", R"(,"num_steps":1001})"), FRT_ERR_INVALID, "num_steps");
}

TEST_F(Open, unsupported_things_answer_minus_three_in_words) {
  for (const char* backend : {"cuda", "vulkan", "opencl", "sycl", "CPU"}) {
    expect_refused(
        replaced(good_, R"("backend":"cpu")", std::string(R"("backend":")") + backend + "\""),
        FRT_ERR_UNSUPPORTED, backend);
  }
  for (const char* family : {"onnx", "pi1"}) {
    expect_refused(replaced(good_, R"("model_family":"pi0")",
                            std::string(R"("model_family":")") + family + "\""),
                   FRT_ERR_UNSUPPORTED, family);
  }
  expect_refused(replaced(good_, R"("model_family":"pi0",)", ""), FRT_ERR_INVALID, "model_family");
}

TEST_F(Open, a_chunk_shape_other_than_the_files_is_refused_with_both) {
  const std::string key = "\"action_dim\":" + std::to_string(pair_.action_dim);
  expect_refused(replaced(good_, key, "\"action_dim\":77"), FRT_ERR_SHAPE, "77");
  expect_refused(replaced(good_, "\"image_channels\":3", "\"image_channels\":4"), FRT_ERR_SHAPE,
                 "image_channels");
}

TEST_F(Open, FC31_missing_and_damaged_files_are_refused_and_the_next_open_works) {
  const TempDir dir;
  expect_refused(replaced(good_, pair_.policy, dir.file("absent.gguf")), FRT_ERR_NOT_FOUND,
                 "absent.gguf");
  expect_refused(replaced(good_, pair_.vision, dir.path()), FRT_ERR_NOT_FOUND, dir.path());
  std::ofstream(dir.file("empty.gguf")).close();
  expect_refused(replaced(good_, pair_.policy, dir.file("empty.gguf")), FRT_ERR_NOT_FOUND,
                 "empty.gguf");
  const auto size = std::filesystem::file_size(pair_.policy);
  for (const uintmax_t keep :
       {uintmax_t{3}, uintmax_t{24}, uintmax_t{1000}, size / 2, size - 4096}) {
    const std::string cut = dir.file("cut.gguf");
    std::filesystem::copy_file(pair_.policy, cut,
                               std::filesystem::copy_options::overwrite_existing);
    std::filesystem::resize_file(cut, keep);
    expect_refused(replaced(good_, pair_.policy, cut), FRT_ERR_NOT_FOUND, "cut.gguf");
  }
  expect_refused(replaced(replaced(good_, pair_.policy, "@"), pair_.vision, pair_.policy),
                 FRT_ERR_NOT_FOUND, "@");
  EXPECT_EQ(try_open(good_).code, 0);
}

TEST_F(Open, FC03_exchanged_and_foreign_files_are_refused) {
  std::string exchanged = replaced(good_, pair_.policy, "@policy");
  exchanged = replaced(exchanged, pair_.vision, pair_.policy);
  exchanged = replaced(exchanged, "@policy", pair_.vision);
  expect_refused(exchanged, FRT_ERR_NOT_FOUND, "clip");
  expect_refused(replaced(good_, pair_.vision, tiny_pair(PiFamily::kPi0).vision), FRT_ERR_NOT_FOUND,
                 "belong together");
}

TEST_F(Open, FC30_more_threads_than_cpus_are_cut_and_the_status_says_so) {
  const PiProvider provider(config_json({.pair = pair_, .extra = R"("n_threads":999)"}));
  ASSERT_TRUE(provider.ok());
  const void* table = nullptr;
  ASSERT_EQ(provider->query_extension(provider.get(), OUTRIDER_EXT_STATUS, 1, &table), 0);
  const auto* status = static_cast<const outrider_status_v1*>(table);
  const std::string text = status->describe(status->self);
  EXPECT_NE(text.find("999 threads wanted"), std::string::npos) << text;
  EXPECT_EQ(text.find("\"threads\":999"), std::string::npos) << text;
}

TEST_F(Open, null_arguments_are_refused_and_out_is_cleared) {
  void* library = dlopen(provider_path().c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr);
  const auto open =
      reinterpret_cast<frt_model_runtime_open_v1_fn>(dlsym(library, FRT_MODEL_RUNTIME_OPEN_SYMBOL));
  auto* sentinel = reinterpret_cast<frt_model_runtime_v1*>(0x1);
  frt_model_runtime_v1* out = sentinel;
  EXPECT_EQ(open(nullptr, &out), FRT_ERR_INVALID);
  EXPECT_EQ(out, nullptr);
  out = sentinel;
  EXPECT_LT(open("{", &out), 0);
  EXPECT_EQ(out, nullptr);
  EXPECT_EQ(open(good_.c_str(), nullptr), FRT_ERR_INVALID);
  dlclose(library);
}

TEST_F(Open, a_changed_byte_changes_the_identity) {
  const TempDir dir;
  const std::string copy = dir.file("copy.gguf");
  std::filesystem::copy_file(pair_.policy, copy);
  const PiProvider first(replaced(good_, pair_.policy, copy));
  ASSERT_TRUE(first.ok());
  const uint64_t before = first->exp->fingerprint;
  std::fstream file(copy, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(-64, std::ios::end);
  file.put('\x11');
  file.close();
  const PiProvider second(replaced(good_, pair_.policy, copy));
  ASSERT_TRUE(second.ok());
  EXPECT_NE(second->exp->fingerprint, before);
}

double cosine(const std::vector<float>& a, const std::vector<float>& b) {
  double dot = 0, aa = 0, bb = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    dot += double(a[i]) * b[i];
    aa += double(a[i]) * a[i];
    bb += double(b[i]) * b[i];
  }
  return dot / std::sqrt(aa * bb);
}

// A tick reads no file: whoever overwrites or cuts a model in use changes nothing of a running one.
TEST_F(Open, FC31_a_model_file_overwritten_or_cut_while_open_changes_no_action) {
  for (const char* extra : {R"("precision":"f32")", R"("precision":"bf16")"}) {
    const TempDir dir;
    const std::string copy = dir.file("copy.gguf");
    std::filesystem::copy_file(pair_.policy, copy);
    std::string config = replaced(config_json({.pair = pair_, .extra = extra}), pair_.policy, copy);
    const PiProvider provider(config);
    ASSERT_TRUE(provider.ok());
    const Request request = make_request(pair_);
    const auto before = run_request(provider, request);
    const auto size = std::filesystem::file_size(copy);
    std::fstream file(copy, std::ios::in | std::ios::out | std::ios::binary);
    file << std::string(static_cast<size_t>(size), '\x7f');
    file.close();
    EXPECT_EQ(run_request(provider, request), before);
    std::filesystem::resize_file(copy, 100);
    EXPECT_EQ(run_request(provider, request), before);
  }
}

// What the rounding of activations to 8 bits in blocks of 32 costs: docs/precision.md.
TEST_F(Open, stored_blocks_stay_near_f32_on_the_same_file) {
  for (PiFamily family : {PiFamily::kPi0, PiFamily::kPi05}) {
    for (DType dtype : {DType::kQ8_0, DType::kQ4_0}) {
      const PiPair& pair = tiny_pair(family, dtype);
      double worst_cosine = 1, worst_distance = 0;
      for (uint64_t seed : {1, 2, 3}) {
        const Request request = make_request(pair, 2, seed);
        const auto run = [&](const std::string& precision) {
          const PiProvider provider(
              config_json({.pair = pair, .extra = R"("precision":")" + precision + "\""}));
          return run_request(provider, request);
        };
        const auto f32 = run("f32"), stored = run("stored");
        ASSERT_EQ(f32.size(), stored.size());
        EXPECT_NE(f32, stored);
        worst_cosine = std::min(worst_cosine, cosine(f32, stored));
        for (size_t i = 0; i < f32.size(); ++i)
          worst_distance = std::max(worst_distance, std::fabs(double{f32[i]} - stored[i]));
      }
      EXPECT_GE(worst_cosine, 0.999) << dtype_info(dtype).name;
      EXPECT_LE(worst_distance, 0.15) << dtype_info(dtype).name;
      const std::string name = std::string(family == PiFamily::kPi0 ? "pi0_" : "pi05_") +
                               std::string(dtype_info(dtype).name);
      RecordProperty(name + "_cosine", std::to_string(worst_cosine));
      RecordProperty(name + "_distance", std::to_string(worst_distance));
    }
  }
}

TEST_F(Open, precision_names_choose_different_maths) {
  for (PiFamily family : {PiFamily::kPi0, PiFamily::kPi05}) {
    const PiPair& pair = tiny_pair(family);
    const auto run = [&](const std::string& precision, uint64_t seed) {
      const PiProvider provider(
          config_json({.pair = pair, .extra = R"("precision":")" + precision + "\""}));
      const void* table = nullptr;
      EXPECT_EQ(provider->query_extension(provider.get(), OUTRIDER_EXT_STATUS, 1, &table), 0);
      const auto* status = static_cast<const outrider_status_v1*>(table);
      const std::string text = status->describe(status->self);
      EXPECT_NE(text.find("\"precision\":\"" + precision + "\""), std::string::npos) << text;
      return run_request(provider, make_request(pair, 2, seed));
    };
    for (uint64_t seed : {1, 2, 3}) {
      const auto f32 = run("f32", seed), bf16 = run("bf16", seed), int8 = run("int8", seed);
      EXPECT_NE(f32, bf16);
      EXPECT_NE(f32, int8);
      EXPECT_NE(bf16, int8);
      EXPECT_GE(cosine(f32, bf16), 0.9999) << seed;
      EXPECT_GE(cosine(f32, int8), 0.999) << seed;
    }
  }
}

// Thread ids of this process with that name.
std::vector<pid_t> threads_named(const std::string& name) {
  std::vector<pid_t> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream in(entry.path() / "comm");
    std::string line;
    if (std::getline(in, line) && line == name)
      found.push_back(static_cast<pid_t>(std::stol(entry.path().filename())));
  }
  return found;
}

TEST(PiOpen, pins_compute_threads_when_asked_and_says_so) {
  if (cpu_budget().n_allowed_cpus < 2) GTEST_SKIP() << "this process may use one CPU only";
  const PiPair& pair = tiny_pair(PiFamily::kPi05);
  const auto n_cpus = [] {
    const std::vector<pid_t> threads = threads_named("outrider-k1");
    cpu_set_t set;
    CPU_ZERO(&set);
    if (threads.size() != 1 || sched_getaffinity(threads[0], sizeof set, &set) != 0) return -1;
    return CPU_COUNT(&set);
  };
  {
    const PiProvider plain(config_json({.pair = pair, .extra = R"("n_threads":2)"}));
    ASSERT_TRUE(plain.ok());
    EXPECT_GE(n_cpus(), 2);
  }
  const PiProvider pinned(
      config_json({.pair = pair, .extra = R"("n_threads":2,"pin_threads":"on")"}));
  ASSERT_TRUE(pinned.ok());
  EXPECT_EQ(n_cpus(), 1);
  const void* table = nullptr;
  ASSERT_EQ(pinned->query_extension(pinned.get(), OUTRIDER_EXT_STATUS, 1, &table), 0);
  const auto* status = static_cast<const outrider_status_v1*>(table);
  const std::string text = status->describe(status->self);
  EXPECT_NE(text.find(R"("pin_threads":"on","rt_priority":0)"), std::string::npos) << text;
}

TEST(PiOpen, takes_a_real_time_priority_or_refuses_it_in_words) {
  if (cpu_budget().n_allowed_cpus < 2) GTEST_SKIP() << "this process may use one CPU only";
  const std::string config = config_json(
      {.pair = tiny_pair(PiFamily::kPi05), .extra = R"("n_threads":2,"rt_priority":1)"});
  const PiProvider provider(config);
  if (!provider.ok()) {
    const Opened refused = try_open(config);
    EXPECT_EQ(refused.code, -6);
    EXPECT_NE(refused.reason.find("rt_priority 1 was refused (EPERM)"), std::string::npos)
        << refused.reason;
    return;
  }
  const std::vector<pid_t> threads = threads_named("outrider-k1");
  ASSERT_EQ(threads.size(), 1u);
  EXPECT_EQ(sched_getscheduler(threads[0]), SCHED_FIFO);
  EXPECT_EQ(sched_getscheduler(0), SCHED_OTHER) << "the caller's thread was raised too";
  EXPECT_EQ(run_request(provider, make_request(tiny_pair(PiFamily::kPi05))).size(),
            provider.action_values());
}

}  // namespace
}  // namespace outrider::test
