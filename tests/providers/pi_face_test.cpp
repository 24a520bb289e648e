// The pi0 face of the ABI: descriptors, plan, stale rules, refusals, life and death of the library.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstring>

#include "outrider/ext/status.h"
#include "outrider/ext/taps.h"
#include "providers/pi_fixture.h"

namespace outrider::test {
namespace {

class PiFace : public testing::TestWithParam<PiFamily> {
 protected:
  PiFace()
      : pair_(tiny_pair(GetParam())),
        provider_(config_json({.pair = pair_})),
        request_(make_request(pair_)) {}
  void SetUp() override { ASSERT_TRUE(provider_.ok()) << provider_.open_code(); }
  void expect_not_ready() {
    std::vector<float> actions;
    EXPECT_EQ(provider_.read(actions), FRT_ERR_NOT_READY);
    EXPECT_NE(provider_.error(), "");
  }

  const PiPair& pair_;
  PiProvider provider_;
  Request request_;
};

INSTANTIATE_TEST_SUITE_P(Families, PiFace, testing::Values(PiFamily::kPi0, PiFamily::kPi05),
                         [](const auto& param) {
                           return param.param == PiFamily::kPi0 ? "pi0" : "pi05";
                         });

TEST_P(PiFace, publishes_the_four_ports_of_section_13) {
  struct Row {
    const char* name;
    uint32_t modality, dtype, layout, direction, required;
    std::vector<int64_t> shape;
  };
  const Row rows[] = {
      {"images",
       FRT_MODALITY_IMAGE,
       FRT_DTYPE_U8,
       FRT_LAYOUT_NHWC,
       FRT_PORT_IN,
       1,
       {2, pair_.image_size, pair_.image_size, 3}},
      {"prompt", FRT_MODALITY_TEXT, FRT_DTYPE_U8, FRT_LAYOUT_FLAT, FRT_PORT_IN, 1, {-1}},
      {"state", FRT_MODALITY_STATE, FRT_DTYPE_F32, FRT_LAYOUT_FLAT, FRT_PORT_IN, 1, {-1}},
      {"actions",
       FRT_MODALITY_ACTION,
       FRT_DTYPE_F32,
       FRT_LAYOUT_FLAT,
       FRT_PORT_OUT,
       0,
       {pair_.action_steps, pair_.action_dim}},
  };
  ASSERT_EQ(provider_->n_ports, 4u);
  for (size_t i = 0; i < 4; ++i) {
    const frt_runtime_port_desc& port = provider_->ports[i];
    EXPECT_STREQ(port.name, rows[i].name);
    EXPECT_EQ(port.modality, rows[i].modality);
    EXPECT_EQ(port.dtype, rows[i].dtype);
    EXPECT_EQ(port.layout, rows[i].layout);
    EXPECT_EQ(port.direction, rows[i].direction);
    EXPECT_EQ(port.update, static_cast<uint32_t>(FRT_UPDATE_STAGED));
    EXPECT_EQ(port.required, rows[i].required);
    EXPECT_EQ(std::vector<int64_t>(port.shape, port.shape + port.rank), rows[i].shape);
    EXPECT_EQ(port.buffer, nullptr);
    EXPECT_EQ(port.offset + port.bytes, 0u);
  }
}

TEST_P(PiFace, publishes_a_real_split_and_no_graphs) {
  EXPECT_EQ(provider_->abi_version, 1u);
  EXPECT_EQ(provider_->struct_size, 136u);
  EXPECT_EQ(provider_->stages, nullptr);
  EXPECT_EQ(provider_->n_stages, 0u);
  EXPECT_EQ(provider_->exp->ctx, nullptr);
  EXPECT_EQ(provider_->exp->streams, nullptr);
  const auto* plan = provider_.plan();
  ASSERT_NE(plan, nullptr);
  ASSERT_EQ(plan->n_stages, 2u);
  EXPECT_STREQ(plan->stages[0].name, "context");
  EXPECT_EQ(plan->stages[0].executor_ref, 4u);
  EXPECT_STREQ(plan->stages[1].name, "action");
  EXPECT_EQ(plan->stages[1].executor_ref, 91u);
  ASSERT_EQ(plan->stages[1].n_after, 1u);
  EXPECT_EQ(plan->stages[1].after[0], 0u);
  EXPECT_EQ(provider_->verbs.prepare(provider_->self, 0, 0), FRT_ERR_UNSUPPORTED);
  EXPECT_NE(provider_.error().find("prepare"), std::string::npos)
      << "every refusal leaves its own reason";
  EXPECT_EQ(plan->run_opaque(plan->stage_self, 37), FRT_ERR_NOT_FOUND);
  EXPECT_NE(provider_.error().find("37"), std::string::npos);
}

TEST_P(PiFace, identity_names_files_digests_and_plan) {
  const std::string identity = provider_->exp->identity;
  for (const char* text : {"provider=outrider\n", "model_family=pi0\n",
                           "weights_sha256=", "mmproj_sha256=", "backend=cpu\n",
                           "stage_plan=context_action\n", "port:0:images:1:0:2:0:1:1:2,",
                           "gstage-v1:0:7:context:1:4:0:\n", "gstage-v1:1:6:action:1:91:1:0\n"}) {
    EXPECT_NE(identity.find(text), std::string::npos) << text << " in\n" << identity;
  }
  EXPECT_EQ(identity.find("n_threads"), std::string::npos);
  const PiProvider other(config_json({.pair = pair_, .extra = R"("n_threads":1,"cache_dir":"")"}));
  const PiProvider steps(config_json({.pair = pair_, .extra = R"("num_steps":3)"}));
  EXPECT_EQ(other->exp->fingerprint, provider_->exp->fingerprint)
      << "thread count is no part of the identity";
  EXPECT_NE(steps->exp->fingerprint, provider_->exp->fingerprint);
}

TEST_P(PiFace, the_image_view_array_may_lie_at_an_odd_address) {
  std::vector<std::byte> bytes(request_.views.size() * sizeof(frt_image_view) + 1);
  std::memcpy(bytes.data() + 1, request_.views.data(), bytes.size() - 1);
  EXPECT_EQ(provider_.set(0, bytes.data() + 1, bytes.size() - 1), 0) << provider_.error();
}

// ---- readiness ----------------------------------------------------------------------------------

TEST_P(PiFace, a_run_without_an_input_names_the_missing_port) {
  EXPECT_EQ(provider_.context(), FRT_ERR_INVALID);
  EXPECT_NE(provider_.error().find("images"), std::string::npos);
  ASSERT_EQ(provider_.set_images(request_.views), 0);
  EXPECT_EQ(provider_.step(), FRT_ERR_INVALID);
  EXPECT_NE(provider_.error().find("prompt"), std::string::npos);
  ASSERT_EQ(provider_.set_prompt(request_.prompt), 0);
  EXPECT_EQ(provider_.step(), FRT_ERR_INVALID);
  EXPECT_NE(provider_.error().find("state"), std::string::npos);
  ASSERT_EQ(provider_.set_state(request_.state), 0);
  EXPECT_EQ(provider_.step(), 0);
}

TEST_P(PiFace, a_context_serves_exactly_one_action) {
  stage_all(provider_, request_);
  EXPECT_EQ(provider_.action(), FRT_ERR_NOT_READY);
  ASSERT_EQ(provider_.context(), 0);
  expect_not_ready();
  ASSERT_EQ(provider_.action(), 0);
  std::vector<float> actions;
  EXPECT_EQ(provider_.read(actions), 0);
  EXPECT_EQ(provider_.error(), "") << "a success clears the error";
  EXPECT_EQ(provider_.action(), FRT_ERR_NOT_READY);
  expect_not_ready();
}

TEST_P(PiFace, any_set_input_good_or_bad_drops_context_and_chunk) {
  const auto expect_dropped_by = [&](auto&& call) {
    stage_all(provider_, request_);
    ASSERT_EQ(provider_.step(), 0);
    call();
    expect_not_ready();
    stage_all(provider_, request_);
    ASSERT_EQ(provider_.context(), 0);
    call();
    EXPECT_EQ(provider_.action(), FRT_ERR_NOT_READY);
  };
  expect_dropped_by([&] { EXPECT_EQ(provider_.set_prompt("other words"), 0); });
  expect_dropped_by([&] { EXPECT_EQ(provider_.set_state({}), FRT_ERR_INVALID); });
  expect_dropped_by([&] { EXPECT_LT(provider_.set(17, "x", 1), 0); });
  expect_dropped_by([&] { EXPECT_LT(provider_.set(3, "x", 1), 0); });
}

TEST_P(PiFace, a_refused_input_takes_the_old_value_with_it) {
  stage_all(provider_, request_);
  ASSERT_EQ(provider_.step(), 0);
  EXPECT_EQ(provider_.set_state({NAN}), FRT_ERR_INVALID);
  EXPECT_EQ(provider_.step(), FRT_ERR_INVALID);
  EXPECT_NE(provider_.error().find("state"), std::string::npos);
  ASSERT_EQ(provider_.set_state(request_.state), 0);
  EXPECT_EQ(provider_.step(), 0);
}

TEST_P(PiFace, a_new_context_clears_the_old_chunk) {
  stage_all(provider_, request_);
  ASSERT_EQ(provider_.step(), 0);
  ASSERT_EQ(provider_.context(), 0);
  expect_not_ready();
}

// ---- get_output ---------------------------------------------------------------------------------

TEST_P(PiFace, get_output_checks_arguments_then_size_then_readiness) {
  const auto get = [&](uint32_t port, void* out, uint64_t capacity, uint64_t* written) {
    return provider_->verbs.get_output(provider_->self, port, out, capacity, written, -1);
  };
  const uint64_t needed = provider_.action_values() * sizeof(float);
  std::vector<char> storage(needed + 8);
  uint64_t written = 99;
  EXPECT_EQ(get(3, storage.data(), needed, nullptr), FRT_ERR_INVALID);
  EXPECT_EQ(get(0, storage.data(), needed, &written), FRT_ERR_INVALID);
  EXPECT_EQ(get(9, storage.data(), needed, &written), FRT_ERR_INVALID);
  EXPECT_EQ(get(3, nullptr, 0, &written), FRT_ERR_INVALID);
  EXPECT_EQ(get(3, storage.data(), needed - 1, &written), FRT_ERR_STORAGE);
  EXPECT_EQ(written, needed);
  EXPECT_EQ(get(3, storage.data(), needed, &written), FRT_ERR_NOT_READY);
  stage_all(provider_, request_);
  ASSERT_EQ(provider_.step(), 0);
  EXPECT_EQ(get(3, storage.data(), needed + 8, &written), 0);
  EXPECT_EQ(written, needed);
}

TEST_P(PiFace, FC31_a_null_self_is_a_code_not_a_crash) {
  const auto& verbs = provider_->verbs;
  uint64_t written = 0;
  char byte = 0;
  EXPECT_EQ(verbs.set_input(nullptr, 0, &byte, 1, -1), FRT_ERR_INVALID);
  EXPECT_EQ(verbs.get_output(nullptr, 3, &byte, 1, &written, -1), FRT_ERR_INVALID);
  EXPECT_EQ(verbs.step(nullptr), FRT_ERR_INVALID);
  EXPECT_LT(verbs.prepare(nullptr, 0, 0), 0);
  EXPECT_NE(verbs.last_error(nullptr), nullptr);
  EXPECT_EQ(provider_.plan()->run_opaque(nullptr, 4), FRT_ERR_INVALID);
}

TEST_P(PiFace, refusals_are_counted_and_runs_too) {
  stage_all(provider_, request_);
  ASSERT_EQ(provider_.step(), 0);
  EXPECT_LT(provider_.set_state({INFINITY}), 0);
  EXPECT_LT(provider_.step(), 0);
  EXPECT_EQ(provider_.counter("runs"), 1);
  EXPECT_EQ(provider_.counter("refused_inputs"), 1);
  EXPECT_EQ(provider_.counter("failed_runs"), 1);
  EXPECT_EQ(provider_.counter("warm_ups"), 1);
  EXPECT_GT(provider_.counter("ns_context"), 0);
}

TEST_P(PiFace, taps_are_off_until_asked_for_and_change_no_bit) {
  const void* table = nullptr;
  ASSERT_EQ(provider_->query_extension(provider_.get(), OUTRIDER_EXT_TAPS, 1, &table), 0);
  const auto* taps = static_cast<const outrider_taps_v1*>(table);
  uint64_t n = 0;
  int64_t shape[4];
  uint32_t rank = 0;
  const std::vector<float> plain = run_request(provider_, request_);
  EXPECT_EQ(taps->count(taps->self), 0u);
  EXPECT_EQ(taps->read(taps->self, "tokens", nullptr, 0, &n, shape, &rank), FRT_ERR_NOT_READY);
  ASSERT_EQ(taps->enable(taps->self, 1), 0);
  EXPECT_EQ(run_request(provider_, request_), plain);
  EXPECT_GT(taps->count(taps->self), 10u);
  EXPECT_EQ(taps->name(taps->self, 1u << 20), nullptr);
  EXPECT_EQ(taps->read(taps->self, "nonsense", nullptr, 0, &n, shape, &rank), FRT_ERR_NOT_FOUND);
  EXPECT_EQ(taps->read(taps->self, "pixels_1", nullptr, 0, &n, shape, &rank), FRT_ERR_STORAGE);
  EXPECT_EQ(rank, 3u);
  EXPECT_EQ(shape[0] * shape[1] * shape[2], static_cast<int64_t>(n));
}

// ---- library ------------------------------------------------------------------------------------

TEST(PiLibrary, leaves_the_process_after_the_last_release) {
  {
    const PiPair& pair = tiny_pair(PiFamily::kPi05);
    PiProvider provider(config_json({.pair = pair, .extra = R"("n_threads":2)"}));
    ASSERT_TRUE(provider.ok());
    run_request(provider, make_request(pair));
  }
  EXPECT_EQ(dlopen(provider_path().c_str(), RTLD_NOW | RTLD_NOLOAD), nullptr);
}

TEST(PiLibrary, stays_usable_through_a_retained_reference) {
  const PiPair& pair = tiny_pair(PiFamily::kPi05);
  const PiProvider provider(config_json({.pair = pair}));
  provider->retain(provider->owner);
  provider->exp->retain(provider->exp->owner);
  provider->release(provider->owner);
  provider->exp->release(provider->exp->owner);
  EXPECT_FALSE(run_request(provider, make_request(pair)).empty());
}

// Python's multiprocessing forks: the child has none of the kernel threads.
TEST(PiLibrary, a_forked_child_uses_drops_and_opens_runtimes_without_hanging) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the thread sanitizer does not follow threads made after a fork";
#endif
  const PiPair& pair = tiny_pair(PiFamily::kPi05);
  const std::string config = config_json({.pair = pair, .extra = R"("n_threads":3)"});
  auto inherited = std::make_unique<PiProvider>(config);
  const Request request = make_request(pair);
  const auto wanted = run_request(*inherited, request);
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    const PiProvider own(config);
    bool same = run_request(own, request) == wanted && run_request(*inherited, request) == wanted;
    inherited.reset();
    same = same && run_request(own, request) == wanted;
    _exit(same ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(run_request(*inherited, request), wanted);
}

TEST(PiLibrary, two_runtimes_do_not_disturb_each_other) {
  const PiPair& pair = tiny_pair(PiFamily::kPi05);
  const PiProvider a(config_json({.pair = pair})), b(config_json({.pair = pair}));
  const Request one = make_request(pair, 2, 1), two = make_request(pair, 2, 2);
  const auto alone_one = run_request(a, one), alone_two = run_request(b, two);
  stage_all(a, one);
  stage_all(b, two);
  ASSERT_EQ(a.context(), 0);
  ASSERT_EQ(b.context(), 0);
  ASSERT_EQ(a.action(), 0);
  ASSERT_EQ(b.action(), 0);
  std::vector<float> got_one, got_two;
  ASSERT_EQ(a.read(got_one), 0);
  ASSERT_EQ(b.read(got_two), 0);
  EXPECT_EQ(got_one, alone_one);
  EXPECT_EQ(got_two, alone_two);
  EXPECT_NE(got_one, got_two);
}

}  // namespace
}  // namespace outrider::test
