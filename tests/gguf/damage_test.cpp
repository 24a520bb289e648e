// Hostile and damaged files: FC-01 (cut off) and FC-02 (crafted headers).
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <random>

#include "gguf_bytes.h"
#include "support/cpu_time.h"

namespace outrider {
namespace {

using test::GgufBytes;
using test::good_file;
using test::parse;

bool says(const Error& error, std::string_view words) {
  return error.message().find(words) != std::string_view::npos;
}

TEST(FC01, a_file_cut_at_any_byte_is_refused) {
  auto b = good_file();
  const std::string whole = b.build();
  ASSERT_TRUE(parse(whole));
  for (size_t n = 0; n < whole.size(); ++n) {
    auto file = parse(std::string_view(whole).substr(0, n));
    ASSERT_EQ(file.code(), Code::kNotFound) << n << " of " << whole.size();
    ASSERT_TRUE(says(file.error(), "test.gguf")) << file.error().text;
  }
}

TEST(FC01, the_message_names_the_section_and_the_bytes_needed_and_present) {
  auto b = good_file();
  const std::string whole = b.build();
  const auto message = [&](size_t n) {
    return std::string(parse(std::string_view(whole).substr(0, n)).error().message());
  };
  EXPECT_NE(message(0).find("magic needs 4 bytes"), std::string::npos) << message(0);
  EXPECT_NE(message(3).find("has 3 left"), std::string::npos) << message(3);
  // Inside the second metadata entry's value, inside the second tensor entry, inside the gap.
  const std::string in_keys = message(b.entry_begin[2] - 2);
  EXPECT_NE(in_keys.find("impossible in"), std::string::npos) << in_keys;  // counts no longer fit
  const std::string in_table = message(b.entry_begin[6] + 20);
  EXPECT_NE(in_table.find("tensor table entry 3 of 3"), std::string::npos) << in_table;
  ASSERT_LT(b.table_end, b.data_begin);
  const std::string in_gap = message(b.table_end);
  EXPECT_NE(in_gap.find("tensor norm.weight needs bytes"), std::string::npos) << in_gap;
  const std::string in_first = message(b.data_begin + 12);
  EXPECT_NE(in_first.find("tensor norm.weight needs bytes " + std::to_string(b.data_begin) + ".." +
                          std::to_string(b.data_begin + 24) + ", the file has " +
                          std::to_string(b.data_begin + 12)),
            std::string::npos)
      << in_first;
  const std::string last_byte = message(whole.size() - 1);
  EXPECT_NE(last_byte.find("tensor head.weight"), std::string::npos) << last_byte;
}

TEST(FC01, a_cut_inside_the_metadata_names_entry_and_key) {
  GgufBytes b;
  b.text("general.architecture", "pi0").text("general.name", std::string(300, 'x'));
  const std::string whole = b.build();
  auto file = parse(std::string_view(whole).substr(0, b.entry_begin[1] + 150));
  ASSERT_FALSE(file);
  EXPECT_TRUE(says(file.error(), "metadata entry 2 of 2 (general.name)")) << file.error().text;
  EXPECT_TRUE(says(file.error(), "string needs 300 bytes")) << file.error().text;
}

TEST(FC01, only_filler_behind_the_last_tensor_may_be_missing) {
  GgufBytes b;
  b.tensor("a", {3}, 0, 0).tensor("b", {5}, 0, 32);
  b.data_bytes = 64;  // b ends at 52, twelve bytes of filler
  const std::string whole = b.build();
  for (size_t cut = 0; cut <= 12; ++cut)
    EXPECT_TRUE(parse(std::string_view(whole).substr(0, whole.size() - cut))) << cut;
  EXPECT_FALSE(parse(std::string_view(whole).substr(0, whole.size() - 13)));
}

struct Crafted {
  const char* what;
  std::function<std::string()> build;
  const char* words;
};

std::string with_tensor(std::vector<uint64_t> ne, uint32_t type, uint64_t offset) {
  GgufBytes b;
  b.tensor("w", std::move(ne), type, offset);
  b.data_bytes = 4096;
  return b.build();
}

std::string with_alignment(uint32_t type, uint64_t value) {
  auto b = good_file();
  if (type == 4 || type == 5) {
    b.scalar("general.alignment", type, uint32_t(value));
  } else {
    b.scalar("general.alignment", type, value);
  }
  return b.build();
}

std::string with_counts(int64_t tensors, int64_t keys) {
  auto b = good_file();
  b.claimed_tensors = tensors, b.claimed_keys = keys;
  return b.build();
}

// One entry of an array of `element` claiming n elements, followed by 64 bytes.
std::string with_array(uint32_t element, uint64_t n) {
  std::string raw;
  GgufBytes::put(raw, element);
  GgufBytes::put(raw, n);
  raw.resize(raw.size() + 64);
  return GgufBytes().key("k", 9, raw).build();
}

std::string with_string_length(uint64_t n) {
  std::string raw;
  GgufBytes::put(raw, n);
  return GgufBytes().key("k", 8, raw + std::string(64, 'x')).build();
}

TEST(FC02, every_crafted_header_is_refused_by_field) {
  constexpr uint64_t kMax = UINT64_MAX;
  const Crafted cases[] = {
      {"2^62 tensors", [] { return with_counts(int64_t{1} << 62, -1); }, "4611686018427387904"},
      {"2^62 keys", [] { return with_counts(-1, int64_t{1} << 62); }, "4611686018427387904"},
      {"one tensor too many", [] { return with_counts(1000, -1); }, "1000 tensors"},
      {"size_max/4", [] { return with_tensor({kMax / 4}, 0, 0); }, "tensor w"},
      {"size_max/4 padded", [] { return with_tensor({kMax / 4 - 7}, 0, 0); }, "tensor w"},
      {"2^63-1 x 2",
       [] {
         return with_tensor({INT64_MAX, 2}, 0, 0);
       },
       "dimension 1 is 2"},
      {"product wraps to 0",
       [] {
         return with_tensor({1ull << 32, 1ull << 32}, 0, 0);
       },
       "dimension 1"},
      {"product wraps to 4",
       [] {
         return with_tensor({(1ull << 62) + 1, 4}, 0, 0);
       },
       "dimension 1"},
      {"dimension 0",
       [] {
         return with_tensor({4, 0}, 0, 0);
       },
       "dimension 1 is 0"},
      {"dimension negative", [] { return with_tensor({kMax}, 0, 0); }, "dimension 0"},
      {"bytes wrap", [] { return with_tensor({INT64_MAX / 2 + 1}, 0, 0); }, "tensor w"},
      {"offset near 2^64", [] { return with_tensor({4}, 0, kMax - 31); }, "wraps"},
      {"offset 2^63", [] { return with_tensor({4}, 0, 1ull << 63); }, "needs bytes"},
      {"offset unaligned", [] { return with_tensor({4}, 0, 16); }, "alignment 32"},
      {"no dimensions", [] { return with_tensor({}, 0, 0); }, "0 dimensions"},
      {"five dimensions",
       [] {
         return with_tensor({1, 1, 1, 1, 1}, 0, 0);
       },
       "5 dimensions"},
      {"q8_0 row of 33", [] { return with_tensor({33}, 8, 0); }, "multiple of 32"},
      {"q4_k row of 128",
       [] {
         return with_tensor({128, 2}, 12, 0);
       },
       "multiple of 256"},
      {"alignment 0", [] { return with_alignment(4, 0); }, "general.alignment is 0"},
      {"alignment 3", [] { return with_alignment(4, 3); }, "general.alignment is 3"},
      {"alignment 4", [] { return with_alignment(4, 4); }, "general.alignment is 4"},
      {"alignment 2^21", [] { return with_alignment(4, 1u << 21); }, "general.alignment"},
      {"alignment 2^31", [] { return with_alignment(4, 1u << 31); }, "general.alignment"},
      {"alignment signed", [] { return with_alignment(5, 32); }, "stored as i32"},
      {"alignment u64", [] { return with_alignment(10, 32); }, "stored as u64"},
      {"alignment text", [] { return good_file().text("general.alignment", "32").build(); },
       "stored as string"},
      {"string of 2^63", [] { return with_string_length(1ull << 63); }, "9223372036854775808"},
      {"string of 2^64-1", [] { return with_string_length(kMax); }, "string needs"},
      {"2^40 strings", [] { return with_array(8, 1ull << 40); }, "1099511627776 elements"},
      {"2^40 floats", [] { return with_array(6, 1ull << 40); }, "1099511627776 elements"},
      {"2^61+1 f64", [] { return with_array(12, (1ull << 61) + 1); }, "elements of type f64"},
      {"array in array", [] { return with_array(9, 1); }, "nested"},
      {"array of unknown", [] { return with_array(13, 1); }, "array element type 13"},
      {"unknown value type",
       [] { return GgufBytes().u32("a", 1).key("k", 13, "12345678").build(); }, "value type 13"},
      {"bool of 2", [] { return GgufBytes().scalar<uint8_t>("k", 7, 2).build(); }, "bool holds 2"},
      {"duplicate key", [] { return good_file().u32("pi0.block_count", 4).build(); },
       "pi0.block_count occurs twice"},
      {"duplicate tensor",
       [] {
         auto b = good_file();
         b.tensors[1].name = "norm.weight";
         return b.build();
       },
       "norm.weight occurs twice"},
      {"overlap",
       [] {
         auto b = good_file();
         b.tensors[2].offset = 64;
         return b.build();
       },
       "inside tensor blk.0.w"},
      {"same place twice",
       [] {
         auto b = good_file();
         b.tensors[1].offset = 0;
         return b.build();
       },
       "inside tensor"},
      {"tensor name of 64",
       [] {
         auto b = good_file();
         b.tensors[0].name = std::string(64, 'n');
         return b.build();
       },
       "allowed are 63"},
      {"empty tensor name",
       [] {
         auto b = good_file();
         b.tensors[0].name = "";
         return b.build();
       },
       "empty"},
      {"name with NUL",
       [] {
         auto b = good_file();
         b.tensors[0].name = std::string("a\0b", 3);
         return b.build();
       },
       "a?b"},
      {"empty key", [] { return GgufBytes().u32("", 1).u32("x", 1).build(); }, "key is empty"},
  };
  for (const Crafted& c : cases) {
    const test::CpuTime cpu;
    auto file = parse(c.build());
    const int64_t took_ns = cpu.ns();
    ASSERT_FALSE(file) << c.what;
    EXPECT_EQ(file.code(), Code::kNotFound) << c.what;
    EXPECT_TRUE(says(file.error(), c.words)) << c.what << ": " << file.error().text;
    EXPECT_LT(took_ns, 500'000'000) << c.what;
  }
}

TEST(FC02, a_name_of_63_bytes_is_the_longest) {
  auto b = good_file();
  b.tensors[0].name = std::string(63, 'n');
  EXPECT_TRUE(parse(b.build()));
}

TEST(FC02, duplicates_among_100000_names_are_found_fast) {
  GgufBytes b;
  for (int i = 0; i < 100000; ++i) b.u32("key.with.a.long.common.prefix." + std::to_string(i), 1);
  const std::string good = b.build();
  const test::CpuTime cpu;
  EXPECT_TRUE(parse(good));
  b.u32("key.with.a.long.common.prefix.77777", 1);
  auto file = parse(b.build());
  EXPECT_TRUE(says(file.error(), "77777 occurs twice")) << file.error().text;
  EXPECT_LT(cpu.ns(), 5'000'000'000);
}

TEST(FC02, more_than_a_million_entries_are_refused_before_they_are_read) {
  GgufBytes b;
  b.claimed_keys = (1 << 20) + 1;
  b.data_bytes = size_t{16} << 20;
  auto file = parse(b.build());
  EXPECT_TRUE(says(file.error(), "allowed are 1048576")) << file.error().text;
}

TEST(FC02, hostile_text_stays_on_one_printable_line) {
  GgufBytes b;
  b.u32("evil\x1b[2J\n" + std::string(5000, 'k'), 1);
  const Error error = parse(b.build()).error();
  EXPECT_TRUE(says(error, "evil?[2J?kkk")) << error.text;
  for (const char c : error.message()) EXPECT_TRUE(c >= 0x20 && c < 0x7F);
  EXPECT_LT(error.message().size(), 300u);
}

// Flips bits and bytes of a good file: whatever still parses must have every view inside the input.
TEST(FC02, no_mutation_leads_outside_the_input) {
  const std::string good = good_file().build();
  std::mt19937_64 rng(20);
  int accepted = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string bytes = good;
    for (uint64_t n = 1 + rng() % 3; n > 0; --n) {
      const size_t at = rng() % bytes.size();
      bytes[at] = rng() % 2 ? char(bytes[at] ^ (1 << rng() % 8)) : char(rng());
    }
    auto file = parse(bytes);
    if (!file) continue;
    ++accepted;
    const auto* first = reinterpret_cast<const std::byte*>(bytes.data());
    for (const GgufTensor& t : file.value().tensors()) {
      ASSERT_GE(t.data, first) << "mutation " << i;
      ASSERT_LE(t.data + t.n_bytes, first + bytes.size()) << "mutation " << i;
      ASSERT_EQ(t.n_bytes, row_bytes(t.dtype, t.n_values()));
    }
  }
  EXPECT_GT(accepted, 1000);  // data and text bytes are free to change
  EXPECT_LT(accepted, 19000);
}

}  // namespace
}  // namespace outrider
