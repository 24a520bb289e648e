// Chunks carried out row by row: outrider/chunks.h against recorded traces of other projects' own
// classes, and under a policy that is late, jitters, starves and fails. FC-19, FC-22.
#include "outrider/chunks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "base/json.h"
#include "base/mapped_file.h"
#include "support/hot_counter.h"
#include "support/shared_data.h"

namespace outrider {
namespace {

class Chunks {
 public:
  explicit Chunks(uint32_t capacity, uint32_t width = 1) : memory_(capacity * width) {
    EXPECT_EQ(outrider_chunks_init(&c, memory_.data(), capacity, width), 0);
  }
  // The next row's only value; NaN when there is none.
  float next() {
    float row = 0;
    return outrider_chunks_next(&c, &row) != 0 ? row : std::numeric_limits<float>::quiet_NaN();
  }
  std::vector<float> left() const { return {c.rows, c.rows + c.left * c.width}; }
  outrider_chunks c;

 private:
  std::vector<float> memory_;
};

// The stub of the recordings: row j of the observation of tick k is 100 k + j.
std::vector<float> stub(int64_t tick, int64_t rows) {
  std::vector<float> out;
  for (int64_t j = 0; j < rows; ++j) out.push_back(static_cast<float>(100 * tick + j));
  return out;
}

std::vector<float> floats(const Json* list) {
  std::vector<float> out;
  for (const Json& value : list->items()) out.push_back(static_cast<float>(value.number()));
  return out;
}
int64_t integer(const Json& json, const char* key) {
  return json.find(key)->integer();
}

// The recorded cases of one kind.
Result<Json> recorded(const std::string& folder) {
  auto file = MappedFile::open((folder + "/meta.json").c_str());
  if (!file) return file.error();
  const auto bytes = file.value().bytes();
  return Json::parse(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}
#define RECORDED(json, kind, cases)                          \
  OUTRIDER_NEED_SHARED(folder, "golden/openpi-async-logic"); \
  const auto json = recorded(folder);                        \
  ASSERT_TRUE(json) << json.error().text;                    \
  const auto& cases = json.value().find("cases")->find(kind)->items()

TEST(Chunks, one_after_the_other_as_openpis_broker) {
  RECORDED(json, "chunk_broker", cases);
  ASSERT_EQ(cases.size(), 3u);
  for (const Json& sample : cases) {
    const int64_t rows = integer(sample, "H"), horizon = integer(sample, "action_horizon");
    Chunks chunks(static_cast<uint32_t>(rows));
    std::vector<float> emitted, calls;
    const auto tick = [&](int64_t now) {
      if (outrider_chunks_left(&chunks.c) == 0) {
        const auto ticket = outrider_chunks_request(&chunks.c);
        calls.push_back(static_cast<float>(now));
        EXPECT_EQ(outrider_chunks_take(&chunks.c, &ticket, stub(now, rows).data(),
                                       static_cast<uint32_t>(horizon)),
                  OUTRIDER_CHUNKS_TAKEN);
      }
      emitted.push_back(chunks.next());
    };
    const auto wanted = floats(sample.find("emitted"));
    for (size_t now = 0; now < wanted.size(); ++now) tick(static_cast<int64_t>(now));
    EXPECT_EQ(emitted, wanted);
    EXPECT_EQ(calls, floats(sample.find("policy_calls")));
    outrider_chunks_reset(&chunks.c);
    tick(50);
    EXPECT_EQ(emitted.back(), static_cast<float>(integer(sample, "after_reset_tick50")));
  }
}

// Jetson-PI's: the answer's first rows are dropped, the rest stands behind what is left.
TEST(Chunks, behind_each_other_as_the_buffer_broker) {
  RECORDED(json, "buffer_broker", cases);
  ASSERT_EQ(cases.size(), 7u);
  for (const Json& sample : cases) {
    const int64_t rows = integer(sample, "H"), trigger = integer(sample, "trigger"),
                  overlap = integer(sample, "overlap"), latency = integer(sample, "latency_ticks");
    Chunks chunks(static_cast<uint32_t>(2 * rows));
    std::vector<float> emitted;
    int64_t pending = -1, waits = 0;
    const auto append = [&](int64_t observed, int64_t skip) {
      ASSERT_EQ(outrider_chunks_append(&chunks.c, stub(observed, rows).data(),
                                       static_cast<uint32_t>(rows), static_cast<uint32_t>(skip)),
                OUTRIDER_CHUNKS_TAKEN);
      pending = -1;
    };
    const auto wanted = floats(sample.find("emitted"));
    for (int64_t now = 0; now < static_cast<int64_t>(wanted.size()); ++now) {
      if (pending >= 0 && now >= pending + latency) append(pending, overlap);
      if (outrider_chunks_left(&chunks.c) == 0) {
        waits += pending >= 0;
        pending < 0 ? append(now, now == 0 ? 0 : overlap) : append(pending, overlap);
      }
      if (pending < 0 && outrider_chunks_left(&chunks.c) == rows - trigger) pending = now;
      emitted.push_back(chunks.next());
    }
    EXPECT_EQ(emitted, wanted) << "trigger " << trigger << " latency " << latency;
    EXPECT_EQ(waits > 0, integer(sample, "forced_waits") > 0);
  }
}

// A chunk for the state at which the running one ends: it begins at its row 0.
TEST(Chunks, at_the_switch_as_vlash) {
  RECORDED(json, "vlash", cases);
  ASSERT_EQ(cases.size(), 4u);
  for (const Json& sample : cases) {
    const int64_t n = integer(sample, "n"), overlap = integer(sample, "overlap");
    Chunks chunks(static_cast<uint32_t>(2 * n));
    const auto wanted = floats(sample.find("emitted"));
    std::vector<float> emitted, states;
    int64_t index = 0;
    const auto launch = [&](int64_t now, float state) {
      states.push_back(state);
      ASSERT_EQ(outrider_chunks_append(&chunks.c, stub(now, n).data(), static_cast<uint32_t>(n), 0),
                OUTRIDER_CHUNKS_TAKEN);
    };
    for (int64_t now = 0; now < static_cast<int64_t>(wanted.size()); ++now) {
      if (outrider_chunks_left(&chunks.c) == 0) launch(now, 1000 + static_cast<float>(now));
      if (index == n - overlap) launch(now, chunks.left().back());  // the running chunk's last row
      emitted.push_back(chunks.next());
      index = (index + 1) % n;
    }
    EXPECT_EQ(emitted, wanted) << n << " " << overlap;
    std::vector<float> given;
    for (const Json& call : sample.find("policy_calls_tick_and_state")->items())
      given.push_back(static_cast<float>(call.items()[1].number()));
    states.resize(std::min(states.size(), given.size()));
    given.resize(states.size());
    EXPECT_EQ(states, given);
  }
}

TEST(Chunks, in_place_of_what_is_left_as_lerobots_queue) {
  RECORDED(json, "rtc_action_queue", cases);
  ASSERT_EQ(cases.size(), 2u);
  for (const Json& sample : cases) {
    const bool replace = sample.find("rtc_enabled")->boolean();
    Chunks chunks(32);
    for (const Json& event : sample.find("events")->items()) {
      const std::string op = event.find("op")->text();
      if (op == "merge") {
        const auto rows = static_cast<uint32_t>(integer(event, "rows")),
                   delay = static_cast<uint32_t>(integer(event, "delay"));
        const auto chunk = stub(integer(event, "tick"), rows);
        const int got = replace ? outrider_chunks_replace(&chunks.c, chunk.data(), rows, delay, 0)
                                : outrider_chunks_append(&chunks.c, chunk.data(), rows, 0);
        // All of it overtaken: their queue is empty then, ours goes on with what it has.
        if (replace && delay >= rows) {
          EXPECT_EQ(got, OUTRIDER_CHUNKS_OVERTAKEN);
          outrider_chunks_reset(&chunks.c);
        } else {
          EXPECT_EQ(got, OUTRIDER_CHUNKS_TAKEN);
        }
      } else if (op == "get") {
        for (const Json& row : event.find("got")->items()) {
          const float got = chunks.next();
          if (row.is_null()) {
            EXPECT_TRUE(std::isnan(got));
          } else {
            EXPECT_EQ(got, static_cast<float>(row.number()));
          }
        }
      } else {
        outrider_chunks_reset(&chunks.c);
      }
      EXPECT_EQ(outrider_chunks_left(&chunks.c), static_cast<uint32_t>(integer(event, "qsize")));
      if (event.find("left")->is_array()) {
        EXPECT_EQ(chunks.left(), floats(event.find("left")));
      }
    }
  }
}

TEST(Chunks, merged_where_both_have_a_row_as_lerobots_client) {
  RECORDED(json, "client_aggregation", cases);
  ASSERT_EQ(cases.size(), 4u);
  const std::map<std::string, float> shares = {
      {"weighted_average", 0.3f}, {"latest_only", 0}, {"average", 0.5f}, {"conservative", 0.7f}};
  for (const Json& sample : cases) {
    Chunks chunks(16);
    for (const Json& event : sample.find("events")->items()) {
      const auto incoming = floats(event.find("incoming"));
      // The answer's rows are numbered from the observation's step.
      outrider_chunks_ticket ticket = outrider_chunks_request(&chunks.c);
      ticket.carried = static_cast<uint64_t>(integer(event, "first_timestep"));
      ASSERT_EQ(outrider_chunks_take_blended(&chunks.c, &ticket, incoming.data(),
                                             static_cast<uint32_t>(incoming.size()),
                                             shares.at(sample.find("function")->text())),
                OUTRIDER_CHUNKS_TAKEN);
      const auto& wanted = event.find("queue_after")->items();
      ASSERT_EQ(outrider_chunks_left(&chunks.c), wanted.size());
      for (size_t i = 0; i < wanted.size(); ++i) {
        EXPECT_EQ(static_cast<int64_t>(chunks.c.carried + i), wanted[i].items()[0].integer());
        EXPECT_NEAR(chunks.c.rows[i], wanted[i].items()[1].number(), 1e-6);
      }
      for (const Json& step : event.find("then_executed")->items()) {
        EXPECT_EQ(static_cast<int64_t>(chunks.c.carried), step.integer());
        chunks.next();
      }
    }
  }
}

TEST(Chunks, averaged_every_tick_as_act) {
  RECORDED(json, "temporal_ensembling", cases);
  ASSERT_EQ(cases.size(), 4u);
  for (const Json& sample : cases) {
    const double m = sample.find("m")->number();
    const auto rows = static_cast<uint32_t>(integer(sample, "H"));
    std::vector<uint32_t> counts(rows, 0);
    std::vector<float> average(rows * 2), row(2);
    const auto& outs = sample.find("out")->items();
    size_t k = 0;
    for (const Json& chunk : sample.find("chunks")->items()) {
      std::vector<float> values;
      for (const Json& line : chunk.items())
        for (const Json& value : line.items()) values.push_back(static_cast<float>(value.number()));
      outrider_chunks_ensemble(average.data(), counts.data(), values.data(), rows, 2, m,
                               row.data());
      for (size_t i = 0; i < 2; ++i)
        EXPECT_NEAR(row[i], outs[k].items()[i].number(), 1e-6) << k << " " << i;
      ++k;
    }
    EXPECT_EQ(k, outs.size());
  }
}

TEST(Chunks, weights_are_the_recorded_ones) {
  OUTRIDER_NEED_SHARED(folder, "golden/openpi-rtc-toy");
  const auto json = recorded(folder);
  ASSERT_TRUE(json);
  const std::map<std::string, int> names = {{"ZEROS", OUTRIDER_CHUNKS_ZEROS},
                                            {"ONES", OUTRIDER_CHUNKS_ONES},
                                            {"LINEAR", OUTRIDER_CHUNKS_LINEAR},
                                            {"EXP", OUTRIDER_CHUNKS_EXP}};
  const auto& rows = json.value().find("schedules")->items();
  ASSERT_EQ(rows.size(), 32u);
  for (const Json& row : rows) {
    const auto wanted = floats(row.find("weights"));
    std::vector<float> got(wanted.size(), -1);
    outrider_chunks_row_weights(names.at(row.find("schedule")->text()),
                                static_cast<uint32_t>(wanted.size()),
                                static_cast<uint32_t>(integer(row, "start")),
                                static_cast<uint32_t>(integer(row, "end")), got.data());
    for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], wanted[i], 1e-6) << i;
  }
}

// Whatever start, end and schedule: in [0, 1], never rising, 1 in front of start, 0 from end on.
TEST(Chunks, weights_fall_from_one_to_zero) {
  std::vector<float> w(12);
  for (int schedule = 0; schedule < 4; ++schedule)
    for (uint32_t start = 0; start < 15; ++start)
      for (uint32_t end = 0; end < 15; ++end) {
        outrider_chunks_row_weights(schedule, 12, start, end, w.data());
        for (uint32_t i = 0; i < 12; ++i) {
          ASSERT_TRUE(w[i] >= 0 && w[i] <= 1);
          ASSERT_LE(w[i], w[i > 0 ? i - 1 : 0]);
          ASSERT_TRUE(i >= std::min(start, end) || w[i] == 1);
          ASSERT_TRUE(i < end || w[i] == 0);
        }
      }
  // None of a row that is not there, however many the schedule would keep.
  Chunks chunks(12);
  const auto chunk = stub(0, 12);
  const auto ticket = outrider_chunks_request(&chunks.c);
  ASSERT_EQ(outrider_chunks_take(&chunks.c, &ticket, chunk.data(), 12), OUTRIDER_CHUNKS_TAKEN);
  for (int i = 0; i < 8; ++i) chunks.next();
  outrider_chunks_weights(&chunks.c, OUTRIDER_CHUNKS_ONES, 12, 5, w.data());
  EXPECT_EQ(std::count(w.begin(), w.end(), 1.0f), 4);
  std::vector<float> previous(12, -1);
  EXPECT_EQ(outrider_chunks_previous(&chunks.c, previous.data(), 12), 4u);
  EXPECT_EQ(previous, (std::vector<float>{8, 9, 10, 11, 0, 0, 0, 0, 0, 0, 0, 0}));
}

// A consumer at 30 Hz over a policy whose answers take these ticks. Its chunk is a smooth curve of
// the rows that were carried out, so that a row too many or too few shows as a jump.
struct Consumer {
  static constexpr uint32_t kRows = 50;
  static double curve(double row) { return std::sin(0.11 * row) + 0.3 * std::sin(0.031 * row); }

  // `by_clock`: rows are dropped by the time that passed, as in the field case.
  void run(const std::vector<uint32_t>& latencies, bool by_clock) {
    bool pending = false;
    outrider_chunks_ticket ticket{};
    uint64_t ready = 0, asked = 0, carried_then = 0;
    for (size_t answer = 0; answer < latencies.size();) {
      if (pending && chunks.c.ticks >= ready) {
        std::vector<float> chunk;
        for (uint32_t j = 0; j < kRows; ++j)
          chunk.push_back(static_cast<float>(curve(static_cast<double>(carried_then + j))));
        const auto elapsed = static_cast<uint32_t>(chunks.c.ticks - asked);
        const int got = by_clock
                            ? outrider_chunks_replace(&chunks.c, chunk.data(), kRows, elapsed, 0)
                            : outrider_chunks_take(&chunks.c, &ticket, chunk.data(), kRows);
        EXPECT_TRUE(by_clock || got == OUTRIDER_CHUNKS_TAKEN);
        estimates.push_back(outrider_chunks_delay(&chunks.c));
        really_carried += chunks.c.carried - carried_then;
        if (answer == 0) skipped_first = chunks.c.skipped;
        pending = false;
        ++answer;
      }
      if (!pending && outrider_chunks_left(&chunks.c) <= 30 && answer < latencies.size()) {
        ticket = outrider_chunks_request(&chunks.c);
        asked = chunks.c.ticks;
        carried_then = chunks.c.carried;
        ready = asked + latencies[answer];
        pending = true;
      }
      const float row = chunks.next();
      if (std::isnan(row)) continue;
      if (any) step = std::max(step, std::abs(static_cast<double>(row) - last));
      last = static_cast<double>(row);
      any = true;
    }
  }
  static double largest_step() {
    double most = 0;
    for (int i = 0; i < 4000; ++i) most = std::max(most, std::abs(curve(i + 1) - curve(i)));
    return most;
  }
  Chunks chunks{kRows};
  std::vector<uint32_t> estimates;
  uint64_t really_carried = 0, skipped_first = 0;
  double step = 0, last = 0;
  bool any = false;
};

// First call 700 ms, then 300 ms, then jitter; the queue starves once, for two seconds.
std::vector<uint32_t> field_latencies() {
  std::vector<uint32_t> out = {21, 9, 9};
  uint32_t seed = 5;
  for (int i = 0; i < 40; ++i) out.push_back(7 + (seed = seed * 1664525u + 1013904223u) % 6);
  out.push_back(60);
  for (int i = 0; i < 40; ++i) out.push_back(7 + (seed = seed * 1664525u + 1013904223u) % 6);
  return out;
}

TEST(Chunks, FC19_rows_left_out_are_those_that_were_carried_out) {
  Consumer consumer;
  consumer.run(field_latencies(), false);
  EXPECT_EQ(consumer.skipped_first, 0u) << "nothing was carried out in front of the first chunk";
  EXPECT_EQ(consumer.chunks.c.skipped, consumer.really_carried);
  EXPECT_EQ(consumer.chunks.c.refused, 0u);
  EXPECT_GT(consumer.chunks.c.starved, 21u) << "the first wait and the long one";
  EXPECT_LE(consumer.step, Consumer::largest_step() + 1e-6);
  // The slow first call leaves the estimate within its window; so does the long one.
  EXPECT_EQ(consumer.estimates[0], 21u);
  EXPECT_LE(consumer.estimates[OUTRIDER_CHUNKS_WINDOW], 12u);
  EXPECT_GE(consumer.estimates[43], 60u);
  EXPECT_EQ(consumer.estimates[43], 61u) << "one more: its deadline was missed";
  EXPECT_EQ(consumer.estimates[44], 60u);
  EXPECT_LE(consumer.estimates[43 + OUTRIDER_CHUNKS_WINDOW], 12u);
}

TEST(Chunks, FC19_counting_by_the_clock_jumps) {
  Consumer consumer;
  consumer.run(field_latencies(), true);
  EXPECT_GT(consumer.step, 3 * Consumer::largest_step()) << "the trap that the other test is for";
}

TEST(Chunks, an_answer_from_before_a_reset_is_refused) {
  Chunks chunks(8);
  const auto chunk = stub(1, 8);
  const auto before = outrider_chunks_request(&chunks.c);
  outrider_chunks_reset(&chunks.c);
  EXPECT_EQ(outrider_chunks_take(&chunks.c, &before, chunk.data(), 8), OUTRIDER_CHUNKS_OLD);
  EXPECT_EQ(outrider_chunks_left(&chunks.c), 0u);
  auto now = outrider_chunks_request(&chunks.c);
  EXPECT_EQ(outrider_chunks_take(&chunks.c, &now, chunk.data(), 8), OUTRIDER_CHUNKS_TAKEN);
  now.carried += 3;
  EXPECT_EQ(outrider_chunks_take(&chunks.c, &now, chunk.data(), 8), OUTRIDER_CHUNKS_OLD)
      << "a ticket of rows to come is nobody's";
  EXPECT_EQ(chunks.c.refused, 2u);
}

TEST(Chunks, FC22_what_is_no_chunk_is_refused_and_the_rows_that_are_left_stay) {
  Chunks chunks(4, 2);
  const std::vector<float> good = {1, 2, 3, 4, 5, 6, 7, 8};
  auto ticket = outrider_chunks_request(&chunks.c);
  ASSERT_EQ(outrider_chunks_take(&chunks.c, &ticket, good.data(), 4), OUTRIDER_CHUNKS_TAKEN);
  std::vector<float> bad = good;
  for (const float value : {std::nanf(""), INFINITY, -INFINITY}) {
    for (const size_t at : {0, 7}) {
      bad = good;
      bad[at] = value;
      EXPECT_EQ(outrider_chunks_take(&chunks.c, &ticket, bad.data(), 4), OUTRIDER_CHUNKS_BAD);
      EXPECT_EQ(outrider_chunks_append(&chunks.c, bad.data(), 4, 3), OUTRIDER_CHUNKS_BAD);
    }
  }
  EXPECT_EQ(outrider_chunks_take(&chunks.c, &ticket, good.data(), 0), OUTRIDER_CHUNKS_BAD);
  EXPECT_EQ(outrider_chunks_take(&chunks.c, &ticket, nullptr, 4), OUTRIDER_CHUNKS_BAD);
  EXPECT_EQ(outrider_chunks_replace(&chunks.c, good.data(), 4, 0, NAN), OUTRIDER_CHUNKS_BAD);
  const std::vector<float> longer(10, 1.0f);
  EXPECT_EQ(outrider_chunks_take(&chunks.c, &ticket, longer.data(), 5), OUTRIDER_CHUNKS_BAD);
  EXPECT_EQ(outrider_chunks_append(&chunks.c, good.data(), 4, 0), OUTRIDER_CHUNKS_BAD) << "no room";
  EXPECT_EQ(chunks.left(), good);
  float row[2];
  for (int i = 0; i < 4; ++i) outrider_chunks_next(&chunks.c, row);
  EXPECT_EQ(outrider_chunks_take(&chunks.c, &ticket, good.data(), 4), OUTRIDER_CHUNKS_OVERTAKEN);
  EXPECT_EQ(outrider_chunks_next(&chunks.c, row), 0);
  EXPECT_EQ(chunks.c.starved_in_a_row, 1u);
  outrider_chunks c;
  EXPECT_EQ(outrider_chunks_init(&c, row, 0, 2), -1);
  EXPECT_EQ(outrider_chunks_init(&c, nullptr, 1, 2), -1);
}

// Trained prefixes: a chunk whose given rows are fewer than the overtaken ones is thrown away.
TEST(Chunks, a_prefix_that_did_not_cover_the_delay_is_refused) {
  Chunks chunks(8);
  const auto chunk = stub(1, 8);
  auto ticket = outrider_chunks_request(&chunks.c);
  ASSERT_EQ(outrider_chunks_take(&chunks.c, &ticket, chunk.data(), 8), OUTRIDER_CHUNKS_TAKEN);
  ticket = outrider_chunks_request(&chunks.c);
  ticket.prefix_rows = 2;
  chunks.next(), chunks.next();
  auto late = ticket;
  EXPECT_EQ(outrider_chunks_take(&chunks.c, &ticket, chunk.data(), 8), OUTRIDER_CHUNKS_TAKEN);
  chunks.next();
  EXPECT_EQ(outrider_chunks_take(&chunks.c, &late, chunk.data(), 8), OUTRIDER_CHUNKS_UNKEPT);
  EXPECT_EQ(outrider_chunks_delay(&chunks.c), 3u) << "the next one is asked with more";
}

TEST(Chunks, a_tick_takes_no_heap) {
  if (!test::hot_counter::available()) GTEST_SKIP() << "a sanitizer has its own allocator";
  Chunks chunks(16, 7);
  const std::vector<float> chunk(16 * 7, 0.5f);
  std::vector<float> previous(16 * 7), weights(16), row(7);
  test::hot_counter::arm();
  for (int i = 0; i < 200; ++i) {
    const auto ticket = outrider_chunks_request(&chunks.c);
    outrider_chunks_previous(&chunks.c, previous.data(), 16);
    outrider_chunks_weights(&chunks.c, OUTRIDER_CHUNKS_EXP, 16, 8, weights.data());
    for (int j = 0; j < i % 5; ++j) outrider_chunks_next(&chunks.c, row.data());
    outrider_chunks_take_blended(&chunks.c, &ticket, chunk.data(), 16, 0.3f);
  }
  const auto counts = test::hot_counter::disarm();
  EXPECT_EQ(counts.total(), 0u) << test::hot_counter::describe(counts);
}

}  // namespace
}  // namespace outrider
