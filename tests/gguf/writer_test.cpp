#include "gguf/writer.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>

#include "gguf/gguf.h"
#include "support/temp_dir.h"

namespace outrider {
namespace {

namespace fs = std::filesystem;

class GgufWriterTest : public testing::Test {
 protected:
  std::string path(const char* name) const { return (folder_ / name).string(); }
  size_t n_files() const {
    return size_t(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }
  test::TempDir temp_;
  fs::path folder_ = temp_.path();
};

GgufWriter::RowSource counting(int64_t n) {
  return [n](int64_t row, std::span<float> values) {
    for (size_t i = 0; i < values.size(); ++i) values[i] = float(row * n) + float(i);
  };
}

std::string content(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST_F(GgufWriterTest, what_it_writes_the_reader_reads) {
  GgufWriter w;
  w.add_string("general.architecture", "pi0");
  w.add_u32("n", 7);
  w.add_f32("eps", 1e-6f);
  w.add_bool("flag", true);
  const std::string words[] = {"a", "", "\xE2\x96\x81x"};
  const float scores[] = {0, -1, 2.5f};
  const int32_t kinds[] = {3, -1};
  w.add_strings("words", words);
  w.add_f32s("scores", scores);
  w.add_i32s("kinds", kinds);
  const int64_t odd[] = {3}, cube[] = {2, 3, 4}, quant[] = {256, 3};
  w.add_tensor("odd", DType::kF32, odd, counting(3));
  w.add_tensor("cube", DType::kF16, cube, counting(2));
  for (DType type :
       {DType::kF32, DType::kBf16, DType::kQ8_0, DType::kQ4_0, DType::kQ4_K, DType::kQ6_K})
    w.add_tensor(dtype_info(type).name, type, quant, counting(256));
  ASSERT_TRUE(w.write(path("a.gguf").c_str()));
  EXPECT_EQ(n_files(), 1u);

  auto opened = GgufFile::open(path("a.gguf").c_str());
  ASSERT_TRUE(opened) << opened.error().text;
  const GgufFile& file = opened.value();
  EXPECT_EQ(file.version(), 3u);
  EXPECT_EQ(file.string("general.architecture").value(), "pi0");
  EXPECT_EQ(file.unsigned_integer("n").value(), 7u);
  EXPECT_EQ(file.real("eps").value(), double(1e-6f));
  EXPECT_TRUE(file.boolean("flag").value());
  EXPECT_EQ(file.strings("words").value(), (std::vector<std::string_view>(words, words + 3)));
  EXPECT_EQ(file.numbers("scores").value(), (std::vector<double>{0, -1, 2.5}));
  EXPECT_EQ(file.numbers("kinds").value(), (std::vector<double>{3, -1}));
  ASSERT_EQ(file.tensors().size(), 8u);
  EXPECT_EQ(file.tensor("odd")->n_bytes, 12u);
  std::vector<float> cube_values(24), want(24);
  dequantize_row(DType::kF16, file.tensor("cube")->data, cube_values.data(), 24);
  std::iota(want.begin(), want.end(), 0.0f);
  EXPECT_EQ(cube_values, want);
  for (const GgufTensor& t : file.tensors()) {
    EXPECT_EQ((t.data - file.file().bytes().data()) % 32, 0) << t.name;
    if (t.name == "odd" || t.name == "cube") continue;
    EXPECT_EQ(t.name, dtype_info(t.dtype).name);
    std::vector<float> row(256);
    std::vector<std::byte> encoded(row_bytes(t.dtype, 256));
    for (int64_t r = 0; r < 3; ++r) {
      counting(256)(r, row);
      quantize_row(t.dtype, row.data(), encoded.data(), 256);
      EXPECT_EQ(0, std::memcmp(encoded.data(), t.data + size_t(r) * encoded.size(), encoded.size()))
          << t.name << " row " << r;
    }
  }
}

TEST_F(GgufWriterTest, a_period_repeats_the_encoded_rows) {
  for (int64_t period : {1, 2, 3, 5, 7, 100}) {
    int64_t asked = 0;
    GgufWriter plain, periodic;
    const int64_t ne[] = {32, 7};
    plain.add_tensor("w", DType::kQ8_0, ne,
                     [&](int64_t row, std::span<float> v) { counting(32)(row % period, v); });
    periodic.add_tensor(
        "w", DType::kQ8_0, ne,
        [&](int64_t row, std::span<float> v) {
          ++asked;
          counting(32)(row, v);
        },
        period);
    ASSERT_TRUE(plain.write(path("plain").c_str()));
    ASSERT_TRUE(periodic.write(path("periodic").c_str()));
    EXPECT_EQ(content(path("plain")), content(path("periodic"))) << period;
    EXPECT_EQ(asked, std::min<int64_t>(period, 7));
  }
}

TEST_F(GgufWriterTest, rows_larger_than_the_buffer_arrive_whole) {
  GgufWriter w;
  const int64_t ne[] = {600001, 3};  // 2.4 MB a row
  w.add_tensor("w", DType::kF32, ne, counting(600001));
  w.add_tensor("v", DType::kF32, std::span(ne, 1), counting(0));
  ASSERT_TRUE(w.write(path("big").c_str()));
  auto file = GgufFile::open(path("big").c_str());
  ASSERT_TRUE(file) << file.error().text;
  float x = 0;
  std::memcpy(&x, file.value().tensor("w")->data + 4 * (600001 * 2 + 600000), 4);
  EXPECT_EQ(x, 1800002.0f);
  std::memcpy(&x, file.value().tensor("v")->data + 4 * 600000, 4);
  EXPECT_EQ(x, 600000.0f);
}

TEST_F(GgufWriterTest, it_replaces_an_existing_file_only_when_complete) {
  std::ofstream(path("a.gguf")) << "old";
  GgufWriter w;
  const int64_t ne[] = {8};
  w.add_tensor("w", DType::kF32, ne, [&](int64_t, std::span<float> v) {
    EXPECT_EQ(content(path("a.gguf")), "old");  // still there while rows are asked for
    std::fill(v.begin(), v.end(), 1.0f);
  });
  ASSERT_TRUE(w.write(path("a.gguf").c_str()));
  EXPECT_TRUE(GgufFile::open(path("a.gguf").c_str()));
}

TEST_F(GgufWriterTest, a_folder_that_is_not_there_is_named) {
  GgufWriter w;
  auto done = w.write(path("missing/a.gguf").c_str());
  EXPECT_EQ(done.code(), Code::kNotFound);
  EXPECT_NE(done.error().message().find("missing/a.gguf"), std::string_view::npos);
  EXPECT_NE(done.error().message().find("errno 2"), std::string_view::npos) << done.error().text;
}

TEST_F(GgufWriterTest, a_target_that_is_a_folder_leaves_nothing_behind) {
  fs::create_directories(path("a.gguf/inside"));
  EXPECT_EQ(GgufWriter().write(path("a.gguf").c_str()).code(), Code::kNotFound);
  EXPECT_EQ(n_files(), 1u);
}

// A file size limit stands in for a full disk: the kernel answers EFBIG where it would say ENOSPC.
TEST_F(GgufWriterTest, a_full_disk_is_no_memory_and_leaves_nothing_behind) {
  std::ofstream(path("a.gguf")) << "old";
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit small = before;
  small.rlim_cur = 3 << 20;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  GgufWriter w;
  const int64_t ne[] = {1024, 2048};  // 8 MB
  w.add_tensor("w", DType::kF32, ne, counting(1024));
  auto done = w.write(path("a.gguf").c_str());
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(done.code(), Code::kNoMemory);
  EXPECT_NE(done.error().message().find("cannot write"), std::string_view::npos);
  EXPECT_EQ(n_files(), 1u);
  EXPECT_EQ(content(path("a.gguf")), "old");
}

TEST(GgufWriterDeathTest, a_row_that_does_not_fit_the_block_is_our_mistake) {
  GgufWriter w;
  const int64_t ne[] = {33};
  EXPECT_DEATH(w.add_tensor("w", DType::kQ8_0, ne, counting(33)), "block_values");
}

}  // namespace
}  // namespace outrider
