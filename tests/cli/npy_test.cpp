#include "cli/npy.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "base/output_file.h"
#include "support.h"

namespace outrider::cli {
namespace {

std::span<const std::byte> bytes_of(const std::string& text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

// A file of version 1 with this header and these data bytes.
std::string npy(const std::string& header, size_t n_data) {
  std::string out("\x93NUMPY\x01\x00", 8);
  out += static_cast<char>(header.size() & 255);
  out += static_cast<char>(header.size() >> 8);
  return out + header + std::string(n_data, '\0');
}

TEST(Npy, what_is_written_is_read_back_for_every_rank) {
  const std::vector<float> values = {0, -1.5f, 2, 3e-30f, 4, 5};
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{6}, {2, 3}, {1, 2, 3}, {6, 1}}) {
    const auto bytes = npy_bytes(values, shape);
    auto array = parse_npy(bytes, "t");
    ASSERT_TRUE(array) << array.error().text;
    EXPECT_EQ(array.value().type, "f4");
    EXPECT_EQ(array.value().shape, shape);
    ASSERT_EQ(array.value().bytes.size(), values.size() * 4);
    EXPECT_EQ(std::memcmp(array.value().bytes.data(), values.data(), 24), 0);
    EXPECT_EQ((bytes.size() - 24) % 64, 0u);  // NumPy maps such files
  }
}

TEST(Npy, an_empty_array_and_a_single_value_are_arrays) {
  EXPECT_TRUE(parse_npy(
      bytes_of(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (0, 3), }", 0)), "t"));
  auto one =
      parse_npy(bytes_of(npy("{'descr': '<f8', 'fortran_order': False, 'shape': (), }", 8)), "t");
  ASSERT_TRUE(one);
  EXPECT_EQ(one.value().n_values(), 1u);
}

TEST(Npy, refuses_every_length_but_its_own) {
  const std::vector<float> values(6, 1.0f);
  const std::vector<int64_t> shape = {2, 3};
  auto bytes = npy_bytes(values, shape);
  for (size_t n = 0; n < bytes.size(); ++n)
    EXPECT_EQ(parse_npy(std::span(bytes).first(n), "t").code(), Code::kNotFound) << n;
  bytes.push_back(std::byte{0});
  EXPECT_EQ(parse_npy(bytes, "t").code(), Code::kNotFound);
}

TEST(Npy, refuses_headers_that_are_not_the_fixed_form) {
  const char* bad[] = {
      "",
      "{}",
      "{'descr': '<f4', 'fortran_order': False}",
      "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1,)}",
      "{'descr': '>f4', 'fortran_order': False, 'shape': (1,)}",
      "{'descr': 'O', 'fortran_order': False, 'shape': (1,)}",
      "{'descr': '<f3', 'fortran_order': False, 'shape': (1,)}",
      "{'descr': '<f4', 'fortran_order': True, 'shape': (1,)}",
      "{'descr': '<f4', 'fortran_order': 0, 'shape': (1,)}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (1}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} x",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'more': 1}",
      "{'descr': '<f4",
  };
  for (const char* header : bad)
    EXPECT_EQ(parse_npy(bytes_of(npy(header, 4)), "t").code(), Code::kNotFound) << header;
}

TEST(Npy, a_shape_whose_product_wraps_is_refused) {
  for (const char* shape : {"(4611686018427387904, 4)", "(99999999999999999, 99999999999999999)",
                            "(9999999999999999999,)"})
    EXPECT_EQ(
        parse_npy(bytes_of(npy(std::string("{'descr': '<f4', 'fortran_order': False, 'shape': ") +
                                   shape + "}",
                               0)),
                  "t")
            .code(),
        Code::kNotFound)
        << shape;
}

TEST(Npy, a_header_longer_than_the_file_is_refused) {
  std::string text = npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", 4);
  text[8] = text[9] = '\xff';
  EXPECT_EQ(parse_npy(bytes_of(text), "t").code(), Code::kNotFound);
}

TEST(WriteFile, leaves_nothing_behind_when_the_folder_is_missing) {
  const std::string folder = cli_test::scratch("write");
  const auto wrote = write_output(folder + "/none/a.txt", "x");
  ASSERT_FALSE(wrote);
  EXPECT_NE(std::string(wrote.error().text).find(folder), std::string::npos);
  ASSERT_TRUE(write_output(folder + "/a.txt", "one"));
  ASSERT_TRUE(write_output(folder + "/a.txt", "two"));
  EXPECT_EQ(cli_test::read(folder + "/a.txt"), "two");
}

}  // namespace
}  // namespace outrider::cli
