// The stock rule, row by row of driving.md a.3, and every combination of its inputs. R33.
#include <gtest/gtest.h>

#include <array>

#include "adapter/support.h"

namespace outrider::adapter::test {
namespace {

using Field = uint8_t outrider_engagement_v1::*;
using E = outrider_engagement_v1;

int with(std::initializer_list<std::pair<Field, uint8_t>> changes) {
  E now = idle_car();
  for (const auto& [field, value] : changes) now.*field = value;
  return outrider_stock_in_control(&now);
}

TEST(Engagement, R33_row_1_late_invalid_or_unseen_input_is_control) {
  EXPECT_EQ(outrider_stock_in_control(nullptr), 1);  // before the first answer
  for (int value = 0; value < 256; ++value)
    EXPECT_EQ(with({{&E::fresh, uint8_t(value)}}), value == OUTRIDER_YES ? 0 : 1) << value;
  E now = idle_car();
  now.struct_size = sizeof now - 1;
  EXPECT_EQ(outrider_stock_in_control(&now), 1);
  const E never{};
  EXPECT_EQ(outrider_stock_in_control(&never), 1);
}

TEST(Engagement, R33_row_2_enabled_or_active_is_control) {
  EXPECT_EQ(with({{&E::enabled, 1}}), 1);
  EXPECT_EQ(with({{&E::active, 1}}), 1);
}

TEST(Engagement, R33_row_3_either_actuation_is_control_although_cruise_is_off) {
  EXPECT_EQ(with({{&E::lateral_active, 1}}), 1);
  EXPECT_EQ(with({{&E::longitudinal_active, 1}}), 1);
}

TEST(Engagement, R33_row_4_always_on_lateral_is_control) {
  EXPECT_EQ(with({{&E::aol_enabled, 1}}), 1);
  EXPECT_EQ(with({{&E::aol_enabled, 1}, {&E::aol_capable, 0}}), 1);
}

TEST(Engagement, R33_row_5_armed_and_paused_is_control_where_the_car_can_run_it) {
  EXPECT_EQ(with({{&E::aol_armed, 1}, {&E::aol_capable, OUTRIDER_YES}}), 1);
  EXPECT_EQ(with({{&E::aol_armed, 1}, {&E::aol_capable, OUTRIDER_UNKNOWN}}), 1);
  EXPECT_EQ(with({{&E::aol_armed, 1}, {&E::aol_capable, 77}}), 1);
  EXPECT_EQ(with({{&E::aol_armed, 1}, {&E::aol_capable, OUTRIDER_NO}}), 0);
  EXPECT_EQ(with({{&E::aol_armed, 0}, {&E::aol_capable, OUTRIDER_YES}}), 0);
}

TEST(Engagement, R33_row_6_turn_signal_or_lane_change_is_control) {
  EXPECT_EQ(with({{&E::turn_signal, 1}}), 1);
  EXPECT_EQ(with({{&E::lane_change, 1}}), 1);
}

TEST(Engagement, R33_row_7_standstill_changes_nothing) {
  EXPECT_EQ(with({{&E::standstill, 1}}), 0);
  EXPECT_EQ(with({{&E::standstill, 1}, {&E::longitudinal_active, 1}}), 1);
}

TEST(Engagement, R33_row_8_none_of_these_is_nobody) {
  EXPECT_EQ(with({}), 0);
}

// Three values for each of the eleven inputs, against the rows written as sentences.
TEST(Engagement, R33_every_combination_follows_the_rows) {
  constexpr std::array<Field, 11> kFields = {
      &E::fresh,       &E::enabled,   &E::active,      &E::lateral_active, &E::longitudinal_active,
      &E::aol_enabled, &E::aol_armed, &E::aol_capable, &E::turn_signal,    &E::lane_change,
      &E::standstill};
  size_t n = 1, n_free = 0;
  for (size_t i = 0; i < kFields.size(); ++i) n *= 3;
  for (size_t code = 0; code < n; ++code) {
    E now = idle_car();
    size_t rest = code;
    for (const Field field : kFields) {
      now.*field = static_cast<uint8_t>(rest % 3);
      rest /= 3;
    }
    bool control = now.fresh != OUTRIDER_YES;                                // row 1
    for (const uint8_t sign : {now.enabled, now.active,                      // row 2
                               now.lateral_active, now.longitudinal_active,  // row 3
                               now.aol_enabled,                              // row 4
                               now.turn_signal, now.lane_change})            // row 6
      control = control || sign == OUTRIDER_YES || sign == OUTRIDER_UNKNOWN;
    const bool armed = now.aol_armed == OUTRIDER_YES || now.aol_armed == OUTRIDER_UNKNOWN;
    const bool can = now.aol_capable == OUTRIDER_YES || now.aol_capable == OUTRIDER_UNKNOWN;
    control = control || (armed && can);  // row 5
    ASSERT_EQ(outrider_stock_in_control(&now), control ? 1 : 0) << "combination " << code;
    n_free += control ? 0 : 1;
  }
  // Nobody in control: 3 standstills x (not armed, any capability: 3; armed or unknown, cannot: 2).
  EXPECT_EQ(n_free, 3u * (3 + 2));
}

}  // namespace
}  // namespace outrider::adapter::test
