#include <unistd.h>

#include <fstream>

#include "fake_provider.h"
#include "support/temp_dir.h"

namespace outrider::test {
namespace {

struct Refusal {
  const char* fault;
  int code;
  const char* words;  // part of the reason
};

// Every rule of the ABI that a host looks at, broken once.
constexpr Refusal kRefusals[] = {
    {"null_exp", -1, "export"},
    {"exp_abi", -1, "abi_version 2"},
    {"exp_size", -1, "struct_size 127"},
    {"null_identity", -1, "identity"},
    {"null_retain", -1, "retain"},
    {"null_ports", -1, "7 ports, array NULL"},
    {"many_ports", -1, "ports"},
    {"port_no_name", -1, "port 1"},
    {"port_null_name", -1, "port 1"},
    {"port_direction", -1, "direction 2"},
    {"port_update", -1, "update 3"},
    {"port_shape", -1, "shape"},
    {"port_rank", -1, "rank 17"},
    {"null_legacy", -1, "legacy stages"},
    {"verbs_size", -1, "last_error"},
    {"no_authority", -1, "nothing can run"},
    {"graph_plan", -3, "launches no graphs"},
    {"both_plans", -1, "exactly one"},
    {"query_code", -1, "-2"},
    {"query_no_table", -1, "NULL table"},
    {"query_both", -1, "table"},
    {"query_throws", -1, "query_extension"},
    {"plan_version", -1, "abi_version 0"},
    {"plan_size", -1, "struct_size 39"},
    {"plan_empty", -1, "0 stages"},
    {"plan_null_stages", -1, "NULL"},
    {"plan_many", -1, "stages"},
    {"plan_no_runner", -1, "run_opaque"},
    {"plan_no_last_error", -1, "last_error"},
    {"stage_null_name", -1, "stage 0"},
    {"stage_empty_name", -1, "stage 0"},
    {"stage_long_name", -1, "255"},
    {"stage_control_name", -1, "control"},
    {"stage_utf8_name", -1, "UTF-8"},
    {"stage_kind", -1, "kind 2"},
    {"stage_null_after", -1, "NULL array"},
    {"stage_graph_ref", -1, "graph 37"},
    {"stage_same_name", -1, "already used"},
    {"stage_after_itself", -1, "not earlier"},
    {"stage_after_twice", -1, "increase"},
    {"plan_graph_only", -1, "OPAQUE"},
    {"mixed_plan", -3, "launches no graphs"},
};

class HostContract : public ::testing::TestWithParam<Refusal> {};

TEST_P(HostContract, refuses_names_the_rule_releases_once_and_unloads) {
  const Refusal& r = GetParam();
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  {
    CSession s(fake_config({{"fault", r.fault}, {"release_fd", std::to_string(ends[1])}}));
    EXPECT_EQ(s.code, r.code) << s.reason;
    EXPECT_EQ(s.s, nullptr);
    EXPECT_HAS(s.reason, r.words);
    EXPECT_HAS(s.reason, "provider_fake.so");
  }
  close(ends[1]);
  char bytes[4];
  EXPECT_EQ(read(ends[0], bytes, sizeof bytes), 1) << "releases of the runtime";
  close(ends[0]);
  EXPECT_FALSE(is_loaded(fake_path()));
}

INSTANTIATE_TEST_SUITE_P(EveryRule, HostContract, ::testing::ValuesIn(kRefusals),
                         [](const auto& row) { return std::string(row.param.fault); });

// Copies the provider to a name of its own, so that what stays loaded disturbs no other test.
std::string private_copy(const char* name) {
  const std::string path = temp_file(std::string(name) + ".so");
  std::ofstream(path, std::ios::binary) << std::ifstream(fake_path(), std::ios::binary).rdbuf();
  return path;
}

TEST(HostContract, what_cannot_be_released_stays_loaded_and_the_reason_says_so) {
  for (const char* fault : {"abi_version", "size_127"}) {
    const std::string path = private_copy(fault);
    CSession s(fake_config({{"fault", fault}}), path);
    EXPECT_EQ(s.code, -1) << fault;
    EXPECT_HAS(s.reason, "stays loaded");
    EXPECT_TRUE(is_loaded(path));
  }
}

TEST(HostContract, a_runtime_without_release_is_refused) {
  CSession s(fake_config({{"fault", "null_release"}}));
  EXPECT_EQ(s.code, -1);
  EXPECT_HAS(s.reason, "release");
}

TEST(HostContract, lenient_producers_are_welcome) {
  for (const char* fault : {"size_200", "empty_arrays"}) {
    CSession s(fake_config({{"fault", fault}}));
    ASSERT_EQ(s.code, 0) << fault << ": " << s.reason;
    EXPECT_STREQ(outrider_stage_name(s, 0), "infer") << fault;
    Inputs().stage(s);
    EXPECT_EQ(outrider_tick(s), 0) << s.error();
  }
}

TEST(HostContract, a_128_byte_runtime_has_no_plan_and_is_driven_by_step) {
  for (const char* fault : {"size_128", "no_query"}) {
    CSession s(fake_config({{"fault", fault}}));
    ASSERT_EQ(s.code, 0) << fault << ": " << s.reason;
    EXPECT_EQ(outrider_n_stages(s), 1u);
    EXPECT_STREQ(outrider_stage_name(s, 0), "step");
    EXPECT_EQ(outrider_extension(s, FRT_EXT_GENERIC_STAGE_PLAN_V1, 1), nullptr);
    Inputs().stage(s);
    EXPECT_EQ(outrider_tick(s), 0) << s.error();
  }
}

TEST(HostContract, graphs_with_a_step_verb_are_ticked_through_step) {
  for (const char* fault : {"graph_plan_with_step", "mixed_plan_with_step"}) {
    CSession s(fake_config({{"fault", fault}, {"require_inputs", "0"}}));
    ASSERT_EQ(s.code, 0) << fault << ": " << s.reason;
    ASSERT_EQ(outrider_n_stages(s), 1u);
    EXPECT_STREQ(outrider_stage_name(s, 0), "step");
    EXPECT_EQ(outrider_tick(s), 0) << s.error();
    EXPECT_EQ(read_text(s, 6), "37 ");
  }
}

TEST(HostContract, a_swap_port_is_refused_in_words_and_the_others_work) {
  CSession s(fake_config({{"fault", "graph_plan_with_step"}, {"require_inputs", "0"}}));
  ASSERT_EQ(s.code, 0) << s.reason;
  const frt_image_view view = Inputs().view();
  EXPECT_EQ(outrider_set_input(s, 0, &view, sizeof view), -3);
  EXPECT_HAS(s.error(), "port images");
  EXPECT_HAS(s.error(), "SWAP");
  EXPECT_EQ(outrider_set_input(s, 1, "go", 2), 0) << s.error();
}

TEST(HostContract, adopting_a_bad_runtime_retains_nothing) {
  outrider_session* s = nullptr;
  char reason[256];
  EXPECT_EQ(outrider_adopt(nullptr, &s, reason, sizeof reason), -1);
  EXPECT_HAS(reason, "NULL");
  frt_model_runtime_v1 rt{};
  static int n_retained;
  n_retained = 0;
  rt.abi_version = 1;
  rt.struct_size = 128;
  rt.retain = [](void*) { ++n_retained; };
  rt.release = [](void*) { --n_retained; };
  EXPECT_EQ(outrider_adopt(&rt, &s, reason, sizeof reason), -1);
  EXPECT_EQ(n_retained, 0);
  frt_runtime_export_v1 exp{};
  exp.abi_version = 1;
  exp.struct_size = sizeof exp;
  exp.identity = "frt-runtime-identity-v1\n";
  rt.exp = &exp;
  rt.verbs.struct_size = sizeof rt.verbs;
  rt.verbs.step = [](void*) { return 0; };
  ASSERT_EQ(outrider_adopt(&rt, &s, reason, sizeof reason), 0) << reason;
  EXPECT_EQ(n_retained, 1);
  EXPECT_EQ(outrider_tick(s), 0);
  outrider_close(s);
  EXPECT_EQ(n_retained, 0);
}

}  // namespace
}  // namespace outrider::test
