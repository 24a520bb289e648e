// What a tick may cost: no heap, and time that grows with the text and not with its square.
#include <gtest/gtest.h>
#include <time.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <random>

#include "alloc_counter.h"
#include "fixtures.h"
#include "spm_oracle.h"
#include "text/pi_prompt.h"

namespace outrider::text_test {
namespace {

double cpu_seconds() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
}

// The least of three runs: a busy machine only adds.
template <class F>
double seconds(F&& call) {
  double best = 1e9;
  for (int i = 0; i < 3; ++i) {
    const double start = cpu_seconds();
    call();
    best = std::min(best, cpu_seconds() - start);
  }
  return best;
}

// As many pieces as PaliGemma: random words of 1 to 12 letters, most of them reachable.
SpmVocab large_vocab() {
  SpmVocab vocab = policy_vocab();
  std::mt19937_64 random(3);
  const size_t n_pieces = 257152;
  vocab.pieces.reserve(n_pieces);
  for (size_t i = vocab.pieces.size(); i < n_pieces; ++i) {
    // Digits of i in base 26 make the text unique; the front is random.
    std::string text = random() % 2 == 0 ? "▁" : "";
    for (size_t k = random() % 4; k > 0; --k) text += static_cast<char>('a' + random() % 26);
    text += 'Z';
    for (size_t rest = i; rest > 0; rest /= 26) text += static_cast<char>('a' + rest % 26);
    vocab.pieces.push_back({text, -static_cast<float>(i), PieceType::kNormal});
  }
  return vocab;
}

TEST(AllocCounter, sees_heap_calls) {
  if (!can_count_allocations()) GTEST_SKIP() << "a sanitizer has its own allocator";
  const size_t before = n_heap_calls();
  auto value = std::make_unique<std::vector<int>>(1000);
  EXPECT_GT(n_heap_calls(), before);
  const size_t with_value = n_heap_calls();
  value.reset();
  EXPECT_GT(n_heap_calls(), with_value);
}

TEST(HotPath, encoding_makes_no_heap_call) {
  if (!can_count_allocations()) GTEST_SKIP() << "a sanitizer has its own allocator";
  const SpmTokenizer tokenizer = policy_tokenizer();
  const std::string text =
      "<bos>Task: pick up the cup 🤖\n\n<end_of_turn> of tea" + random_text(5, 2000);
  const float state[] = {-2, -1, 0, 0.5f, 1, 2, 0.1f, -0.1f};
  SpmTokenizer::Scratch scratch(16384);
  std::vector<int32_t> ids(16384);
  std::vector<char> prompt(16384);

  const size_t before = n_heap_calls();
  const auto plain = tokenizer.encode(text, {}, scratch, ids);
  const auto special =
      tokenizer.encode(text, {.add_special = true, .parse_special = false}, scratch, ids);
  const auto refused = tokenizer.encode("\xFF", {}, scratch, ids);
  const auto too_small = tokenizer.encode(text, {}, scratch, std::span(ids).first(3));
  const size_t n = write_pi05_text(text, state, StateBins::kReference, prompt);
  const auto first = encode_pi0(tokenizer, text, scratch, ids);
  const auto second = encode_pi05(tokenizer, {prompt.data(), n}, scratch, ids);
  EXPECT_EQ(n_heap_calls() - before, 0u);

  EXPECT_EQ(plain.code, Code::kOk);
  EXPECT_EQ(special.code, Code::kOk);
  EXPECT_EQ(refused.code, Code::kInvalid);
  EXPECT_EQ(too_small.n_ids, plain.n_ids);
  EXPECT_EQ(first.n_ids, plain.n_ids + 2);
  EXPECT_EQ(second.code, Code::kOk);
}

TEST(HotPath, encoding_time_grows_with_the_text_and_not_with_its_square) {
  // Doubling runs keep the merge queue full to the end; prose is the usual case.
  SpmVocab vocab = policy_vocab();
  for (size_t n = 2; n <= 2048; n *= 2)
    vocab.pieces.push_back({std::string(n, 'a'), 1000 - static_cast<float>(n), PieceType::kNormal});
  const auto made = SpmTokenizer::from_vocab(vocab);
  ASSERT_TRUE(made) << made.error().message();
  std::string prose;
  while (prose.size() < 65536) prose += "pick up the cup, State: the pick of the cups\nAction ";
  for (const std::string& text : {std::string(65536, 'a'), prose.substr(0, 65536)}) {
    SpmTokenizer::Scratch scratch(text.size());
    std::vector<int32_t> ids(text.size());
    const auto time = [&](size_t n_bytes) {
      return seconds([&] {
        made.value().encode(std::string_view(text).substr(0, n_bytes), {}, scratch, ids);
      });
    };
    const double small = time(4096), large = time(65536);
    std::printf("4 KiB %.3f ms, 64 KiB %.3f ms\n", 1e3 * small, 1e3 * large);
    // 16 times the text: 16 x (16 / 12) for n log n, 256 for a square. Caches and noise get a
    // factor 3.
    EXPECT_LT(large, 64 * std::max(small, 20e-6));
  }
}

TEST(HotPath, a_vocabulary_of_257152_pieces_loads_in_well_under_a_second_and_finds_all_its_pieces) {
  SpmVocab vocab = large_vocab();
  const double start = cpu_seconds();
  const auto made = SpmTokenizer::from_vocab(std::move(vocab));
  const double load = cpu_seconds() - start;
  ASSERT_TRUE(made) << made.error().message();
  std::printf("257152 pieces loaded in %.1f ms\n", 1e3 * load);
  EXPECT_LT(load, can_count_allocations() ? 0.8 : 5.0);

  const SpmTokenizer& tokenizer = made.value();
  std::string text;
  std::mt19937_64 random(4);
  while (text.size() < 65536)
    text += static_cast<char>(random() % 5 == 0 ? ' ' : 'a' + random() % 26);
  text.resize(65536);
  SpmTokenizer::Scratch scratch(text.size());
  std::vector<int32_t> ids(text.size());
  SpmTokenizer::Encoded encoded;
  const double t = seconds([&] { encoded = tokenizer.encode(text, {}, scratch, ids); });
  std::printf("64 KiB of letters: %zu ids in %.2f ms\n", encoded.n_ids, 1e3 * t);
  ids.resize(encoded.n_ids);
  EXPECT_EQ(tokenizer.decode(ids), text);
}

}  // namespace
}  // namespace outrider::text_test
