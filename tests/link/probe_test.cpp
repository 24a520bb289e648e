// What `outrider link check` says in words: each verdict by the numbers that bring it, and beside
// its limit.
#include "link/client/probe.h"

#include <gtest/gtest.h>

namespace outrider::link {
namespace {

// 200 round trips of 0.1 ms, 1 GB/s.
LinkMeasurement good_link() {
  LinkMeasurement m;
  m.trip_us.assign(200, 100.0);
  m.sent = 200;
  m.forth_mb_s = m.back_mb_s = 1000;
  return m;
}

struct Judged {
  std::vector<std::string> words;
  bool good = false;
  bool says(const char* text) const {
    for (const std::string& line : words)
      if (line.find(text) != std::string::npos) return true;
    return false;
  }
};

Judged judge(const LinkMeasurement& m) {
  Judged judged;
  judged.words = judge_link(m, judged.good);
  return judged;
}

// The verdict is the last line and agrees with `good`; one complaint stands before it.
void expect_one_complaint(const LinkMeasurement& m, const char* says) {
  const Judged judged = judge(m);
  EXPECT_FALSE(judged.good) << says;
  ASSERT_EQ(judged.words.size(), 2u) << judged.words.front();
  EXPECT_NE(judged.words[0].find(says), std::string::npos) << judged.words[0];
  EXPECT_EQ(judged.words[1], "not good: see above");
}

void expect_good(const LinkMeasurement& m) {
  const Judged judged = judge(m);
  EXPECT_TRUE(judged.good) << judged.words.front();
  EXPECT_EQ(judged.words, std::vector<std::string>{"good: nothing is wrong with this link"});
}

TEST(JudgeLink, says_good_and_nothing_else_of_a_good_one) {
  expect_good(good_link());
}

TEST(JudgeLink, damage_is_told_however_it_was_found) {
  LinkMeasurement m = good_link();
  m.corrupted = 2;
  expect_one_complaint(m, "2 messages were damaged: cable, plug, hub or memory is faulty");
  m.corrupted = 0, m.resyncs = 1;
  expect_one_complaint(m, "1 messages were damaged");
  m.corrupted = 3;
  expect_one_complaint(m, "4 messages were damaged");
}

TEST(JudgeLink, one_answer_that_did_not_come_is_told) {
  LinkMeasurement m = good_link();
  m.lost = 1;
  m.trip_us.pop_back();
  expect_one_complaint(m, "1 of 200 answers did not come in time");
}

TEST(JudgeLink, no_answer_at_all_is_told_even_though_nothing_was_measured) {
  LinkMeasurement m;
  m.sent = 50, m.lost = 50;
  const Judged judged = judge(m);
  EXPECT_FALSE(judged.good);
  EXPECT_TRUE(judged.says("50 of 50 answers did not come in time"));
  EXPECT_TRUE(judged.says("no answer came at all"));
  EXPECT_EQ(judged.words.back(), "not good: see above");
  const Judged empty = judge({});
  EXPECT_FALSE(empty.good) << "nothing measured is not good";
}

TEST(JudgeLink, a_tail_beyond_20_ms_is_not_fit_for_20_hz) {
  LinkMeasurement m = good_link();
  std::fill(m.trip_us.end() - 3, m.trip_us.end(), 20'001.0);
  expect_one_complaint(m,
                       "one answer in a hundred takes 20.0 ms or more: not fit for a 20 Hz loop");
  // One in two hundred is not one in a hundred.
  m = good_link();
  m.trip_us.back() = 50'000;
  expect_good(m);
}

TEST(JudgeLink, a_long_tail_is_told_only_where_it_is_long_and_matters) {
  LinkMeasurement m = good_link();
  std::fill(m.trip_us.end() - 3, m.trip_us.end(), 2'001.0);
  expect_one_complaint(m,
                       "the tail is long: half of the answers take 0.10 ms, one in a hundred 2.00");
  std::fill(m.trip_us.end() - 3, m.trip_us.end(), 1'999.0);
  expect_good(m);  // twenty times the median, and still short
  m.trip_us.assign(200, 300.0);
  std::fill(m.trip_us.end() - 3, m.trip_us.end(), 2'900.0);
  expect_good(m);  // long, and less than ten times the median
}

TEST(JudgeLink, a_throughput_that_a_frame_cannot_live_with_is_told) {
  LinkMeasurement m = good_link();
  m.forth_mb_s = 30.0;
  expect_one_complaint(m, "a frame of two 224x224 pictures takes 10.0 ms to the host at 30.0 MB/s");
  m.forth_mb_s = 30.2;
  expect_good(m);
  m.forth_mb_s = 0;  // a host that does not answer PROBE: not measured is not slow
  expect_good(m);
}

TEST(JudgeLink, the_most_serious_comes_first_and_all_are_told) {
  LinkMeasurement m = good_link();
  m.corrupted = 1, m.lost = 3, m.forth_mb_s = 1;
  m.trip_us.assign(197, 30'000.0);
  const Judged judged = judge(m);
  ASSERT_EQ(judged.words.size(), 5u);
  EXPECT_NE(judged.words[0].find("damaged"), std::string::npos);
  EXPECT_NE(judged.words[1].find("did not come"), std::string::npos);
  EXPECT_NE(judged.words[2].find("not fit"), std::string::npos);
  EXPECT_NE(judged.words[3].find("too slow"), std::string::npos);
  EXPECT_EQ(judged.words[4], "not good: see above");
}

}  // namespace
}  // namespace outrider::link
