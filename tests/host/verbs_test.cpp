#include <cmath>
#include <cstring>

#include "fake_provider.h"
#include "outrider/ext/status.h"
#include "outrider/ext/taps.h"

namespace outrider::test {
namespace {

TEST(HostVerbs, a_tick_moves_inputs_to_outputs) {
  CSession s(fake_config());
  ASSERT_EQ(s.code, 0) << s.reason;
  const Inputs in;
  in.stage(s);
  ASSERT_EQ(outrider_tick(s), 0) << s.error();
  EXPECT_STREQ(outrider_session_error(s), "");
  float actions[12];
  uint64_t written = 0;
  ASSERT_EQ(outrider_get_output(s, 3, actions, sizeof actions, &written), 0) << s.error();
  EXPECT_EQ(written, sizeof actions);
  for (int i = 1; i < 12; ++i)
    EXPECT_EQ(actions[i] - actions[0], in.state[i % 3] - in.state[0] + static_cast<float>(i));
  EXPECT_EQ(read_text(s, 4), in.prompt);
  std::vector<uint8_t> pixels(in.pixels.size());
  ASSERT_EQ(outrider_get_output(s, 5, pixels.data(), pixels.size(), &written), 0);
  EXPECT_EQ(pixels, in.pixels);
}

TEST(HostVerbs, wrong_calls_are_answered_by_the_host_and_name_the_port) {
  CSession s(fake_config());
  ASSERT_EQ(s.code, 0) << s.reason;
  uint64_t written = 5;
  EXPECT_EQ(outrider_set_input(s, 7, "x", 1), -1);
  EXPECT_HAS(s.error(), "port 7 unknown, this runtime has 7 ports");
  EXPECT_EQ(outrider_set_input(s, UINT32_MAX, "x", 1), -1);
  EXPECT_EQ(outrider_set_input(s, 3, "x", 1), -1);
  EXPECT_HAS(s.error(), "port actions is an output");
  EXPECT_EQ(outrider_set_input(s, 1, nullptr, 1), -1);
  EXPECT_HAS(s.error(), "port prompt: NULL");
  EXPECT_EQ(outrider_get_output(s, 1, nullptr, 0, &written), -1);
  EXPECT_EQ(written, 0u);
  EXPECT_HAS(s.error(), "port prompt is an input");
  EXPECT_EQ(outrider_get_output(s, 3, nullptr, 0, nullptr), -1);
  EXPECT_HAS(s.error(), "written is NULL");
  EXPECT_EQ(outrider_get_output(s, 4, nullptr, 8, &written), -1);
  EXPECT_EQ(outrider_run_stage(s, 1), -1);
  EXPECT_HAS(s.error(), "stage 1 unknown, this runtime has 1 stages");
  EXPECT_EQ(outrider_run_stage(s, UINT64_MAX), -1);
}

TEST(HostVerbs, a_runtimes_refusal_keeps_its_code_and_words) {
  CSession s(fake_config());
  ASSERT_EQ(s.code, 0) << s.reason;
  EXPECT_EQ(outrider_set_input(s, 2, "abc", 3), -4);
  EXPECT_EQ(s.error(), "set_input state: code -4: state: 3 bytes, allowed are 1 to 256 f32 values");
  EXPECT_EQ(outrider_tick(s), -1);
  EXPECT_EQ(s.error(), "stage infer: code -1: an input is not staged");
  Inputs().stage(s);
  EXPECT_EQ(s.error(), "") << "a success clears the reason";
  float action = 0;
  uint64_t written = 0;
  EXPECT_EQ(outrider_get_output(s, 3, &action, sizeof action, &written), -5);
  EXPECT_EQ(written, 48u);
  EXPECT_EQ(outrider_tick(s), 0);
  EXPECT_EQ(outrider_get_output(s, 4, nullptr, 0, &written), -5);
  EXPECT_EQ(written, Inputs().prompt.size());
}

TEST(HostVerbs, the_reason_may_be_read_twice) {
  CSession s(fake_config());
  EXPECT_EQ(outrider_tick(s), -1);
  const std::string first = s.error();
  EXPECT_EQ(s.error(), first);
}

TEST(HostVerbs, null_verbs_answer_unsupported) {
  CSession s(fake_config({{"plan", "step"},
                          {"null_verbs", "set_input,get_output,prepare,last_error"},
                          {"require_inputs", "0"}}));
  ASSERT_EQ(s.code, 0) << s.reason;
  uint64_t written = 1;
  EXPECT_EQ(outrider_set_input(s, 1, "x", 1), -3);
  EXPECT_HAS(s.error(), "prompt");
  EXPECT_HAS(s.error(), "no such verb");
  EXPECT_EQ(outrider_get_output(s, 3, nullptr, 0, &written), -3);
  EXPECT_EQ(written, 0u);
  EXPECT_EQ(outrider_tick(s), 0);
  CSession planned(fake_config({{"null_verbs", "step"}}));
  ASSERT_EQ(planned.code, 0) << planned.reason;
  EXPECT_EQ(outrider_step(planned), -3);
  EXPECT_HAS(planned.error(), "step");
}

TEST(HostVerbs, a_missing_or_silent_last_error_still_gives_a_line) {
  CSession no_verb(fake_config({{"plan", "step"}, {"null_verbs", "last_error"}}));
  ASSERT_EQ(no_verb.code, 0) << no_verb.reason;
  EXPECT_EQ(outrider_tick(no_verb), -1);
  EXPECT_EQ(no_verb.error(), "stage step: code -1: the runtime gave no reason");
  CSession null_text(fake_config({{"last_error", "null"}}));
  EXPECT_EQ(outrider_tick(null_text), -1);
  EXPECT_EQ(null_text.error(), "stage infer: code -1: the runtime gave no reason");
}

TEST(HostVerbs, hostile_error_texts_become_one_clean_line) {
  CSession garbage(fake_config({{"last_error", "garbage"}}));
  EXPECT_EQ(outrider_tick(garbage), -1);
  EXPECT_EQ(garbage.error(), "stage infer: code -1: ? torn line ??? end");
  CSession longer(fake_config({{"last_error", "long"}}));
  EXPECT_EQ(outrider_tick(longer), -1);
  EXPECT_EQ(longer.error().size(), 511u);
}

TEST(HostVerbs, any_negative_code_of_a_stage_passes_and_a_positive_one_becomes_a_failure) {
  for (int code : {-1, -8, -9, -127, INT32_MIN}) {
    CSession s(fake_config(
        {{"require_inputs", "0"}, {"fail_at", "2"}, {"fail_code", std::to_string(code)}}));
    EXPECT_EQ(outrider_tick(s), 0);
    EXPECT_EQ(outrider_tick(s), code);
    EXPECT_HAS(s.error(), "scripted failure in tick 2");
    EXPECT_EQ(outrider_tick(s), 0) << "a failed tick harms the next one";
  }
  CSession s(fake_config({{"require_inputs", "0"}, {"fail_at", "1"}, {"fail_code", "5"}}));
  EXPECT_EQ(outrider_tick(s), -8);
  EXPECT_HAS(s.error(), "returned 5");
}

TEST(HostVerbs, a_runtime_that_claims_more_than_the_storage_holds_is_not_believed) {
  CSession s(fake_config({{"require_inputs", "0"}, {"overrun_bytes", "1"}}));
  ASSERT_EQ(outrider_tick(s), 0);
  float actions[12];
  uint64_t written = 7;
  EXPECT_EQ(outrider_get_output(s, 3, actions, sizeof actions, &written), -8);
  EXPECT_EQ(written, 0u);
  EXPECT_HAS(s.error(), "49 bytes");
}

TEST(HostVerbs, exceptions_end_at_the_border) {
  CSession guarded(fake_config({{"require_inputs", "0"}, {"throw_at", "1"}}));
  EXPECT_EQ(outrider_tick(guarded), -8);
  EXPECT_EQ(outrider_tick(guarded), 0);
  for (const char* plan : {"infer", "step"}) {
    CSession raw(fake_config({{"plan", plan}, {"require_inputs", "0"}, {"raw_throw_at", "1"}}));
    EXPECT_EQ(outrider_tick(raw), -8);
    EXPECT_HAS(raw.error(), "threw");
    EXPECT_EQ(outrider_tick(raw), 0);
  }
}

TEST(FC22, a_scripted_nan_passes_the_c_face_and_is_refused_by_the_session) {
  CSession s(fake_config({{"require_inputs", "0"}, {"nan_at", "1"}, {"nan_index", "5"}}));
  ASSERT_EQ(outrider_tick(s), 0);
  float actions[12];
  uint64_t written = 0;
  ASSERT_EQ(outrider_get_output(s, 3, actions, sizeof actions, &written), 0);
  EXPECT_TRUE(std::isnan(actions[5]));
  const float nan_state[] = {0.0f, NAN};
  EXPECT_EQ(outrider_set_input(s, 2, nan_state, sizeof nan_state), -1);
  EXPECT_HAS(s.error(), "state[1]");
}

TEST(HostExtension, known_ids_are_found_and_unknown_ones_are_null) {
  CSession s(fake_config());
  ASSERT_EQ(s.code, 0) << s.reason;
  const auto* status =
      static_cast<const outrider_status_v1*>(outrider_extension(s, OUTRIDER_EXT_STATUS, 1));
  ASSERT_NE(status, nullptr);
  EXPECT_EQ(status, outrider_extension(s, OUTRIDER_EXT_STATUS, 1)) << "the address is stable";
  EXPECT_EQ(status->read(status->self, nullptr, 0), 4u);
  EXPECT_EQ(outrider_extension(s, OUTRIDER_EXT_STATUS, 2), nullptr);
  EXPECT_EQ(outrider_extension(s, OUTRIDER_EXT_STATUS, 0), nullptr);
  EXPECT_EQ(outrider_extension(s, UINT64_C(0x4F55000000000777), 1), nullptr);
  EXPECT_NE(outrider_extension(s, FRT_EXT_GENERIC_STAGE_PLAN_V1, 1), nullptr);
}

}  // namespace
}  // namespace outrider::test
