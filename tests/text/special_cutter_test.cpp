#include "text/special_cutter.h"

#include <gtest/gtest.h>

#include <chrono>

#include "spm_oracle.h"

namespace outrider::text_test {
namespace {

struct Cut {
  std::string_view text;
  int32_t id;
  bool operator==(const Cut&) const = default;
};

std::vector<Cut> cut_with(const SpecialCutter& cutter, const std::vector<Piece>& pieces,
                          std::string_view text, SpecialCutter::Scratch& scratch) {
  cutter.cut(text, scratch);
  std::vector<Cut> cuts;
  for (size_t at = 0; at < text.size();) {
    if (scratch.mark[at] == SpecialCutter::Mark::kStart) {
      const int32_t id = scratch.node[at];
      cuts.push_back({text.substr(at, pieces[id].text.size()), id});
      at += pieces[id].text.size();
      continue;
    }
    size_t end = at;
    while (end < text.size() && scratch.mark[end] == SpecialCutter::Mark::kRaw) ++end;
    EXPECT_GT(end, at) << "a kInside without its kStart";
    if (end == at) break;
    cuts.push_back({text.substr(at, end - at), -1});
    at = end;
  }
  return cuts;
}

// All pieces user-defined.
std::vector<Piece> specials(std::initializer_list<const char*> texts) {
  std::vector<Piece> pieces;
  for (const char* text : texts) pieces.push_back({text, 0, PieceType::kUserDefined});
  return pieces;
}

std::vector<Cut> cut_once(const std::vector<Piece>& pieces, std::string_view text) {
  std::vector<int32_t> ids;
  for (size_t i = 0; i < pieces.size(); ++i) ids.push_back(static_cast<int32_t>(i));
  SpecialCutter cutter;
  cutter.build(pieces, ids);
  SpecialCutter::Scratch scratch(text.size());
  return cut_with(cutter, pieces, text, scratch);
}

using Cuts = std::vector<Cut>;

TEST(SpecialCutter, prefers_the_longest_text_wherever_it_stands) {
  EXPECT_EQ(cut_once(specials({"ab", "bcd"}), "abcd"), (Cuts{{"a", -1}, {"bcd", 1}}));
  EXPECT_EQ(cut_once(specials({"abc", "cdef", "ab"}), "abcdef"), (Cuts{{"ab", 2}, {"cdef", 1}}));
}

TEST(SpecialCutter, prefers_the_leftmost_occurrence_and_the_lower_id_at_equal_length) {
  EXPECT_EQ(cut_once(specials({"aa"}), "aaaaa"), (Cuts{{"aa", 0}, {"aa", 0}, {"a", -1}}));
  EXPECT_EQ(cut_once(specials({"bc", "ab"}), "abc"), (Cuts{{"a", -1}, {"bc", 0}}));
  EXPECT_EQ(cut_once(specials({"ab", "bc"}), "abc"), (Cuts{{"ab", 0}, {"c", -1}}));
}

TEST(SpecialCutter, leaves_a_text_alone_without_pieces_or_occurrences) {
  EXPECT_EQ(cut_once({}, "abc"), (Cuts{{"abc", -1}}));
  EXPECT_EQ(cut_once(specials({"xyz", ""}), "abc"), (Cuts{{"abc", -1}}));
  EXPECT_EQ(cut_once(specials({"abcd"}), "abc"), (Cuts{{"abc", -1}}));
  EXPECT_EQ(cut_once(specials({"abc"}), ""), Cuts{});
}

TEST(SpecialCutter, cuts_at_pieces_that_hold_nul) {
  std::vector<Piece> pieces = specials({"x"});
  pieces[0].text = std::string("\0b", 2);
  EXPECT_EQ(cut_once(pieces, std::string_view("a\0b", 3)),
            (Cuts{{"a", -1}, {std::string_view("\0b", 2), 0}}));
}

TEST(SpecialCutter, equals_the_naive_definition_on_random_pieces) {
  for (uint64_t seed = 1; seed <= 600; ++seed) {
    SpmVocab vocab = random_vocab(seed);
    std::vector<int32_t> ids;
    for (size_t i = 0; i < vocab.pieces.size(); ++i) {
      if (vocab.pieces[i].type == PieceType::kByte) continue;
      vocab.pieces[i].type = PieceType::kUserDefined;
      ids.push_back(static_cast<int32_t>(i));
    }
    SpecialCutter cutter;
    cutter.build(vocab.pieces, ids);
    SpecialCutter::Scratch scratch(1000);
    for (uint64_t k = 0; k < 20; ++k) {
      const std::string text = random_text(seed * 100 + k, k * 8);
      Cuts wanted;
      for (const OracleFragment& fragment : oracle_cut(vocab, text, true))
        wanted.push_back({fragment.text, fragment.id});
      ASSERT_EQ(cut_with(cutter, vocab.pieces, text, scratch), wanted) << "seed " << seed << "\n"
                                                                       << text;
    }
  }
}

// Thread time of one call, the least of five.
template <class F>
double seconds(F&& call) {
  double best = 1e9;
  for (int i = 0; i < 5; ++i) {
    timespec a, b;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &a);
    call();
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &b);
    best = std::min(best, double(b.tv_sec - a.tv_sec) + 1e-9 * double(b.tv_nsec - a.tv_nsec));
  }
  return best;
}

TEST(SpecialCutter, needs_linear_time_whatever_the_number_of_pieces) {
  constexpr size_t kTextBytes = 65536;
  std::string near_misses, hits, nested(kTextBytes, 'a');
  while (near_misses.size() < kTextBytes) near_misses += "<unused12";
  while (hits.size() < kTextBytes) hits += "<unused" + std::to_string(hits.size() % 2000) + ">";
  near_misses.resize(kTextBytes);
  hits.resize(kTextBytes);

  std::vector<Piece> names, runs;
  std::vector<int32_t> ids;
  for (int i = 0; i < 2000; ++i) {
    names.push_back({"<unused" + std::to_string(i) + ">", 0, PieceType::kUserDefined});
    runs.push_back({std::string(static_cast<size_t>(i) + 1, 'a'), 0, PieceType::kUserDefined});
    ids.push_back(i);
  }
  SpecialCutter by_name, by_run;
  by_name.build(names, ids);
  by_run.build(runs, ids);
  SpecialCutter::Scratch scratch(kTextBytes);
  const double t_near = seconds([&] { by_name.cut(near_misses, scratch); });
  const double t_hits = seconds([&] { by_name.cut(hits, scratch); });
  const double t_runs = seconds([&] { by_run.cut(nested, scratch); });
  std::printf(
      "64 KiB, 2000 special pieces: near misses %.2f ms, hits %.2f ms, nested runs %.2f ms\n",
      1e3 * t_near, 1e3 * t_hits, 1e3 * t_runs);
  // One pass per piece costs 2000 x 64 KiB = 131 M byte steps, some 100 ms even when optimised; the
  // bound leaves room for sanitizers and busy machines.
  EXPECT_LT(t_near, 0.05);
  EXPECT_LT(t_hits, 0.05);
  EXPECT_LT(t_runs, 0.2);
}

}  // namespace
}  // namespace outrider::text_test
