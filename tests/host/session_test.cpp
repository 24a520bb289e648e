#include "host/session.h"

#include <cmath>
#include <limits>

#include "fake_provider.h"

namespace outrider::test {
namespace {

using host::Session;

Session open_or_die(std::initializer_list<std::pair<const char*, std::string>> keys = {}) {
  auto s = Session::open(fake_path(), fake_config(keys));
  EXPECT_TRUE(s) << s.error().text;
  return std::move(s.value());
}

void stage(Session& s, const Inputs& in) {
  const frt_image_view view = in.view();
  ASSERT_TRUE(s.set_image(0, {&view, 1}));
  ASSERT_TRUE(s.set_text(1, in.prompt));
  ASSERT_TRUE(s.set_state(2, in.state));
}

TEST(Session, goes_from_named_inputs_to_owned_outputs) {
  Session s = open_or_die({{"plan", "split"}});
  stage(s, Inputs());
  ASSERT_TRUE(s.tick());
  auto actions = s.get_actions(s.port_by_name("actions").value());
  ASSERT_TRUE(actions) << actions.error().text;
  EXPECT_EQ(actions.value().size(), 12u);
  EXPECT_EQ(s.get_text(s.port_by_name("echo").value()).value(), "pick up the fork");
  EXPECT_EQ(s.get_raw(s.port_by_name("pixels").value()).value().size(), 72u);
  EXPECT_EQ(s.n_stages(), 2u);
  EXPECT_STREQ(s.stage_name(1), "action");
  EXPECT_EQ(s.stage_by_name("action").value(), 1u);
  EXPECT_TRUE(s.has_step());
  EXPECT_HAS(s.identity(), "provider=fake");
  EXPECT_NE(s.fingerprint(), 0u);
}

TEST(Session, names_that_do_not_exist_are_answered_with_those_that_do) {
  Session s = open_or_die();
  auto port = s.port_by_name("noise");
  EXPECT_EQ(port.code(), Code::kNotFound);
  EXPECT_HAS(port.error().text, "noise");
  EXPECT_HAS(port.error().text, "images, prompt, state, actions");
  EXPECT_EQ(s.port_by_name(nullptr).code(), Code::kNotFound);
  EXPECT_EQ(s.stage_by_name("decode").code(), Code::kNotFound);
  EXPECT_EQ(s.port_by_kind(FRT_PORT_OUT, FRT_MODALITY_ACTION), 3u);
  EXPECT_EQ(s.port_by_kind(FRT_PORT_IN, FRT_MODALITY_TEXT), 1u);
  EXPECT_EQ(s.port_by_kind(FRT_PORT_IN, FRT_MODALITY_AUDIO), std::nullopt);
}

TEST(Session, a_value_of_the_wrong_kind_is_refused_with_both_kinds_named) {
  Session s = open_or_die();
  auto r = s.set_text(2, "1,2,3");
  EXPECT_EQ(r.code(), Code::kInvalid);
  EXPECT_HAS(r.error().text, "port state: takes state, text given");
  EXPECT_EQ(s.set_state(1, std::vector<float>{1}).code(), Code::kInvalid);
  EXPECT_EQ(s.set_image(1, {}).code(), Code::kInvalid);
  EXPECT_EQ(s.set_text(9, "x").code(), Code::kInvalid);
}

TEST(Session, a_variable_output_is_fetched_whatever_its_size) {
  Session s = open_or_die();
  for (size_t n : {size_t{1}, size_t{2}, size_t{255}, size_t{4096}}) {
    Inputs in;
    in.prompt = std::string(n, 'p');
    stage(s, in);
    ASSERT_TRUE(s.tick());
    EXPECT_EQ(s.get_text(4).value(), in.prompt);
  }
}

TEST(Session, an_output_that_does_not_fit_says_what_it_takes) {
  Session s = open_or_die({{"require_inputs", "0"}});
  ASSERT_TRUE(s.tick());
  std::byte small[47];
  uint64_t needed = 0;
  EXPECT_EQ(s.get_into(3, small, &needed).code(), Code::kNoMemory);
  EXPECT_EQ(needed, 48u);
  std::byte enough[48];
  EXPECT_EQ(s.get_into(3, enough).value(), 48u);
}

TEST(Session, nothing_ready_is_its_own_code) {
  Session s = open_or_die();
  EXPECT_EQ(s.get_actions(3).code(), Code::kNotReady);
  EXPECT_EQ(s.get_text(4).code(), Code::kNotReady);
}

TEST(FC22, a_chunk_with_a_nan_is_not_delivered_and_its_index_is_named) {
  Session s = open_or_die({{"nan_at", "2"}, {"nan_index", "7"}});
  stage(s, Inputs());
  ASSERT_TRUE(s.tick());
  EXPECT_TRUE(s.get_actions(3));
  ASSERT_TRUE(s.tick());
  auto bad = s.get_actions(3);
  EXPECT_EQ(bad.code(), Code::kFailed);
  EXPECT_HAS(bad.error().text, "value 7 of 12 is nan");
  ASSERT_TRUE(s.tick());
  EXPECT_TRUE(s.get_actions(3)) << "the next chunk is good again";
}

TEST(FC22, every_kind_of_non_finite_value_is_found_wherever_it_stands) {
  const float inf = std::numeric_limits<float>::infinity();
  for (size_t n : {size_t{1}, size_t{7}, size_t{64}}) {
    for (size_t at = 0; at < n; ++at) {
      for (float bad : {NAN, inf, -inf}) {
        std::vector<float> values(n, std::numeric_limits<float>::denorm_min());
        EXPECT_EQ(host::first_non_finite(values), -1);
        values[at] = bad;
        EXPECT_EQ(host::first_non_finite(values), static_cast<int64_t>(at));
      }
    }
  }
  EXPECT_EQ(host::first_non_finite({}), -1);
}

TEST(FC26, fifty_equal_requests_give_equal_bits_between_other_ones_and_after_reopening) {
  Inputs other;
  other.prompt = "something else";
  other.state = {9.0f};
  std::vector<float> first;
  for (int round = 0; round < 2; ++round) {
    Session s = open_or_die({{"plan", "split"}});
    for (int i = 0; i < 50; ++i) {
      if (i % 3 == 1) {
        stage(s, other);
        ASSERT_TRUE(s.tick());
      }
      stage(s, Inputs());
      ASSERT_TRUE(s.tick());
      auto actions = s.get_actions(3);
      ASSERT_TRUE(actions);
      if (first.empty()) first = actions.value();
      ASSERT_EQ(0, memcmp(first.data(), actions.value().data(), first.size() * sizeof(float)));
    }
  }
}

TEST(Session, extension_tables_are_typed) {
  Session s = open_or_die();
  stage(s, Inputs());
  ASSERT_TRUE(s.tick());
  ASSERT_NE(s.status(), nullptr);
  outrider_counter_v1 counters[4];
  EXPECT_EQ(s.status()->read(s.status()->self, counters, 4), 4u);
  EXPECT_STREQ(counters[0].name, "runs");
  EXPECT_EQ(counters[0].value, 1);
  ASSERT_NE(s.taps(), nullptr);
  EXPECT_STREQ(s.taps()->name(s.taps()->self, 0), "state");
  auto bare = Session::open(fake_path(), fake_config({{"fault", "size_128"}}));
  ASSERT_TRUE(bare);
  EXPECT_EQ(bare.value().taps(), nullptr);
  EXPECT_EQ(bare.value().status(), nullptr);
}

TEST(Session, open_hands_on_code_and_reason) {
  auto s = Session::open(fake_path(), fake_config({{"n_views", "17"}}));
  EXPECT_EQ(s.code(), Code::kInvalid);
  EXPECT_HAS(s.error().text, "n_views");
  EXPECT_HAS(s.error().text, "17");
  EXPECT_EQ(Session::open("/nowhere/provider.so", "{}").code(), Code::kNotFound);
}

TEST(Session, adopts_what_another_session_holds_and_outlives_its_owner) {
  auto owner = std::make_unique<Session>(open_or_die({{"require_inputs", "0"}}));
  // Within one process the library must outlive the runtime: a second reference keeps it.
  void* pin = dlopen(fake_path().c_str(), RTLD_NOW | RTLD_NOLOAD);
  auto adopted = Session::adopt(&owner->runtime());
  ASSERT_TRUE(adopted) << adopted.error().text;
  owner.reset();
  EXPECT_TRUE(adopted.value().tick());
  { Session last = std::move(adopted.value()); }
  dlclose(pin);
  EXPECT_FALSE(is_loaded(fake_path()));
}

}  // namespace
}  // namespace outrider::test
