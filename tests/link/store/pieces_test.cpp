// info.json, journal slots and the estimate of the time left.
#include <gtest/gtest.h>

#include "link/store/journal.h"
#include "link/store/memory_files.h"
#include "link/store/store_fixture.h"

namespace outrider::store {
namespace {

const std::string kSha(64, 'a'), kOther(64, 'b');

EntryInfo good_info() {
  EntryInfo info;
  info.sha256 = kSha;
  info.n_bytes = 12;
  info.name = "pi0 \"best\" \\ \xC3\xA9";
  info.companions = {kOther};
  info.checked = "1:2:3:4:5";
  return info;
}

TEST(StoreInfo, comes_back_as_it_was_written) {
  const EntryInfo info = good_info();
  auto back = read_info(info_text(info));
  ASSERT_GOOD(back);
  EXPECT_EQ(info_text(back.value()), info_text(info));
  EXPECT_EQ(back.value().name, info.name);
  EXPECT_EQ(back.value().companions, info.companions);
}

TEST(StoreInfo, the_longest_one_fits_its_limit) {
  EntryInfo info = good_info();
  info.name.assign(kMaxNameBytes, '"');
  info.n_bytes = INT64_MAX;
  info.companions.clear();
  for (size_t i = 0; i < kMaxCompanions; ++i)
    info.companions.push_back(std::string(63, 'c') + static_cast<char>('0' + i));
  EXPECT_LE(info_text(info).size(), kMaxInfoBytes);
  EXPECT_GOOD(read_info(info_text(info)));
}

TEST(StoreInfo, every_cut_of_it_is_refused) {
  const std::string text = info_text(good_info());
  for (size_t n = 0; n + 2 < text.size(); ++n)
    EXPECT_EQ(read_info(text.substr(0, n)).code(), Code::kInvalid) << n;
}

TEST(StoreInfo, every_changed_byte_is_refused_or_read_as_something_well_formed) {
  const std::string text = info_text(good_info());
  for (size_t i = 0; i < text.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string changed = text;
      changed[i] = static_cast<char>(changed[i] ^ (1 << bit));
      const auto info = read_info(changed);
      EXPECT_TRUE(!info || check_info(info.value())) << i;
    }
  }
}

TEST(StoreInfo, refuses_each_field_out_of_its_range_by_name) {
  const auto refused = [](auto&& change, const char* word) {
    EntryInfo info = good_info();
    change(info);
    const auto result = check_info(info);
    EXPECT_EQ(result.code(), Code::kInvalid) << word;
    EXPECT_NE(text_of(result).find(word), std::string::npos) << text_of(result);
    EXPECT_EQ(read_info(info_text(info)).code(), Code::kInvalid) << word;
  };
  refused([](EntryInfo& i) { i.sha256 = ""; }, "sha256");
  refused([](EntryInfo& i) { i.sha256.pop_back(); }, "sha256");
  refused([](EntryInfo& i) { i.sha256 += 'a'; }, "sha256");
  refused([](EntryInfo& i) { i.sha256[5] = 'A'; }, "lower-case");
  refused([](EntryInfo& i) { i.sha256[5] = '/'; }, "sha256");
  refused([](EntryInfo& i) { i.n_bytes = 0; }, "0 bytes");
  refused([](EntryInfo& i) { i.name = ""; }, "name");
  refused([](EntryInfo& i) { i.name = std::string(kMaxNameBytes + 1, 'n'); }, "name");
  refused([](EntryInfo& i) { i.name = "two\nlines"; }, "name");
  refused([](EntryInfo& i) { i.name = std::string("a\0b", 3); }, "name");
  refused([](EntryInfo& i) { i.name = "\xFF"; }, "UTF-8");
  refused([](EntryInfo& i) { i.companions = {kSha}; }, "companion");
  refused([](EntryInfo& i) { i.companions = {kOther, kOther}; }, "companion");
  refused([](EntryInfo& i) { i.companions = {"../../etc/passwd"}; }, "companion");
  refused([](EntryInfo& i) { i.role = Role::kProjector; }, "companions");
}

TEST(StoreInfo, refuses_unknown_formats_keys_and_roles) {
  std::string text = info_text(good_info());
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    changed.replace(changed.find(from), from.size(), to);
    return read_info(changed).code();
  };
  EXPECT_EQ(with("\"format\":1", "\"format\":2"), Code::kInvalid);
  EXPECT_EQ(with("\"format\":1", "\"format\":1,\"more\":1"), Code::kInvalid);
  EXPECT_EQ(with("\"format\":1", "\"format\":1.0"), Code::kInvalid);
  EXPECT_EQ(with("\"role\":\"model\"", "\"role\":\"king\""), Code::kInvalid);
  EXPECT_EQ(with("\"bytes\":12", "\"bytes\":-12"), Code::kInvalid);
  EXPECT_EQ(with("\"bytes\":12", "\"bytes\":\"12\""), Code::kInvalid);
  EXPECT_EQ(with("\"bytes\":12", "\"bytes\":9223372036854775808"), Code::kInvalid);
}

TEST(StoreJournal, a_slot_comes_back_and_for_nobody_else) {
  const JournalKey key{kSha, 5000, 1024};
  const auto slot = encode_slot(key, 4, {4500, kOther});
  const auto back = decode_slot(key, 4, slot);
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(back->end, 4500u);
  EXPECT_EQ(back->sha256, kOther);
  EXPECT_FALSE(decode_slot(key, 3, slot));
  EXPECT_FALSE(decode_slot(key, 5, slot));
  EXPECT_FALSE(decode_slot({kOther, 5000, 1024}, 4, slot));
  EXPECT_FALSE(decode_slot({kSha, 5001, 1024}, 4, slot));
  EXPECT_FALSE(decode_slot({kSha, 5000, 2048}, 4, slot));
}

TEST(StoreJournal, every_changed_bit_and_every_cut_is_unknown) {
  const JournalKey key{kSha, 5000, 1024};
  const auto slot = encode_slot(key, 4, {4500, kOther});
  for (size_t bit = 0; bit < 8 * kSlotBytes; ++bit) {
    auto changed = slot;
    changed[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    EXPECT_FALSE(decode_slot(key, 4, changed)) << bit;
  }
  for (size_t n = 0; n < kSlotBytes; ++n)
    EXPECT_FALSE(decode_slot(key, 4, std::span(slot).first(n))) << n;
  EXPECT_FALSE(decode_slot(key, 4, std::array<std::byte, kSlotBytes>{}));
}

TEST(StoreJournal, an_end_outside_its_chunk_is_unknown) {
  const JournalKey key{kSha, 5000, 1024};
  for (const uint64_t end :
       {uint64_t{0}, uint64_t{4095}, uint64_t{4096}, uint64_t{5001}, uint64_t{5121}, UINT64_MAX})
    EXPECT_FALSE(decode_slot(key, 4, encode_slot(key, 4, {end, kOther}))) << end;
  for (const uint64_t end : {uint64_t{4097}, uint64_t{5000}})
    EXPECT_TRUE(decode_slot(key, 4, encode_slot(key, 4, {end, kOther}))) << end;
  for (const uint64_t end : {uint64_t{1}, uint64_t{1024}})
    EXPECT_TRUE(decode_slot(key, 0, encode_slot(key, 0, {end, kOther}))) << end;
}

constexpr int64_t kSecondNs = 1'000'000'000;

TEST(StoreEstimate, tells_the_time_left_of_a_steady_stream) {
  Estimate estimate;
  EXPECT_LT(estimate.left_s(), 0);
  for (int i = 0; i <= 10; ++i)
    estimate.add({Stage::kReceive, static_cast<uint64_t>(i) * 1000, 100'000}, i * kSecondNs);
  EXPECT_NEAR(estimate.bytes_per_s(), 1000, 1e-6);
  EXPECT_NEAR(estimate.left_s(), 90, 1e-6);
  estimate.add({Stage::kReceive, 100'000, 100'000}, 11 * kSecondNs);
  EXPECT_EQ(estimate.left_s(), 0);
}

TEST(StoreEstimate, forgets_a_fast_start_and_says_when_nothing_moves) {
  Estimate estimate;
  for (int i = 0; i <= 10; ++i)
    estimate.add({Stage::kReceive, static_cast<uint64_t>(i) * 1'000'000, 1 << 30}, i * kSecondNs);
  for (int i = 11; i <= 40; ++i)
    estimate.add(
        {Stage::kReceive, uint64_t(10'000'000) + static_cast<uint64_t>(i - 10) * 1000, 1 << 30},
        i * kSecondNs);
  EXPECT_NEAR(estimate.bytes_per_s(), 1000, 1'000'000 * 0.003);
  for (int i = 41; i <= 140; ++i)
    estimate.add({Stage::kReceive, 10'030'000, 1 << 30}, i * kSecondNs);
  EXPECT_LT(estimate.left_s(), 0);
}

TEST(StoreEstimate, starts_anew_with_another_stage_and_bears_a_clock_that_stands) {
  Estimate estimate;
  estimate.add({Stage::kReceive, 0, 1000}, 0);
  estimate.add({Stage::kReceive, 500, 1000}, 0);
  EXPECT_EQ(estimate.bytes_per_s(), 0);
  estimate.add({Stage::kReceive, 500, 1000}, kSecondNs);
  EXPECT_NEAR(estimate.bytes_per_s(), 500, 1e-9);
  estimate.add({Stage::kVerify, 600, 1000}, 2 * kSecondNs);
  EXPECT_EQ(estimate.bytes_per_s(), 0);
  estimate.add({Stage::kVerify, 100, 1000}, 3 * kSecondNs);
  EXPECT_EQ(estimate.bytes_per_s(), 0);
  EXPECT_LT(estimate.left_s(), 0);
}

}  // namespace
}  // namespace outrider::store
