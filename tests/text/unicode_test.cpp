#include "text/unicode.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <random>

#include "base/utf8.h"
#include "fixtures.h"
#include "support/temp_dir.h"

namespace outrider::text_test {
namespace {

std::string utf8(std::initializer_list<uint32_t> codes) {
  std::string text;
  for (const uint32_t code : codes) utf8_append(text, code);
  return text;
}

std::string nfc(const std::string& text) {
  NfcScratch scratch(text.size());
  return std::string(to_nfc(text, scratch));
}

TEST(Unicode, knows_categories_at_the_borders_of_their_runs) {
  EXPECT_EQ(unicode_category(0), Category::kCc);
  EXPECT_EQ(unicode_category('A'), Category::kLu);
  EXPECT_EQ(unicode_category('z'), Category::kLl);
  EXPECT_EQ(unicode_category('0'), Category::kNd);
  EXPECT_EQ(unicode_category(0x2160), Category::kNl);
  EXPECT_EQ(unicode_category(0xBD), Category::kNo);
  EXPECT_EQ(unicode_category(0x4E00), Category::kLo);
  EXPECT_EQ(unicode_category(0x9FFF), Category::kLo);
  EXPECT_EQ(unicode_category(0x300), Category::kMn);
  EXPECT_EQ(unicode_category(0x20AC), Category::kSc);
  EXPECT_EQ(unicode_category(0x1F916), Category::kSo);
  EXPECT_EQ(unicode_category(0xD800), Category::kCs);
  EXPECT_EQ(unicode_category(0x10FFFF), Category::kCn);
}

TEST(Unicode, knows_white_space) {
  size_t n = 0;
  for (uint32_t code = 0; code <= 0x10FFFF; ++code) n += unicode_space(code);
  EXPECT_EQ(n, 25u);  // the number of White_Space characters in the standard
  for (const uint32_t code :
       {0x09u, 0x0Du, 0x20u, 0x85u, 0xA0u, 0x1680u, 0x2000u, 0x200Au, 0x2028u, 0x3000u})
    EXPECT_TRUE(unicode_space(code)) << code;
  EXPECT_FALSE(unicode_space(0x200B));
}

TEST(Nfc, composes_orders_and_leaves_alone) {
  EXPECT_EQ(nfc("plain"), "plain");
  EXPECT_EQ(nfc(utf8({'e', 0x301})), utf8({0xE9}));
  EXPECT_EQ(nfc(utf8({0x1E9B, 0x323})), utf8({0x1E9B, 0x323}));
  EXPECT_EQ(nfc(utf8({'a', 0x301, 0x323})), utf8({0x1EA1, 0x301}));
  EXPECT_EQ(nfc(utf8({0x212B})), utf8({0xC5}));                    // singleton
  EXPECT_EQ(nfc(utf8({0x1100, 0x1161, 0x11A8})), utf8({0xAC01}));  // Hangul
  EXPECT_EQ(nfc(utf8({0xAC00, 0x11A8})), utf8({0xAC01}));
  EXPECT_EQ(nfc(utf8({0x958})), utf8({0x915, 0x93C}));  // excluded from composing
  EXPECT_EQ(nfc(utf8({0x1D160})), utf8({0x1D158, 0x1D165, 0x1D16E}));
  EXPECT_EQ(nfc(utf8({'a', 0x301, 'b', 0x301})), utf8({0xE1, 'b', 0x301}));
  EXPECT_EQ(nfc(utf8({0x301, 'a'})), utf8({0x301, 'a'}));
  EXPECT_EQ(nfc(utf8({'a', 0x315, 0x300, 0x5AE, 0x300})), utf8({0xE0, 0x5AE, 0x300, 0x315}));
}

// Every character alone and behind each of a few others, against Python's own tables.
TEST(Nfc, agrees_with_another_implementation_on_all_characters_and_many_strings) {
  const std::string command =
      "/usr/bin/python3 -c \""
      "import unicodedata as u,random,sys\n"
      "r=random.Random(5)\n"
      "pool=[c for c in range(0x110000) if u.decomposition(chr(c)) or u.combining(chr(c))]\n"
      "rows=[chr(c) for c in range(0x110000) if not 0xD800<=c<0xE000]\n"
      "rows=[''.join(rows[i:i+50]) for i in range(0,len(rows),50)]\n"
      "rows+=[''.join(chr(r.choice(pool)) for _ in range(r.randint(1,8))) for _ in range(20000)]\n"
      "out=open(sys.argv[1],'wb')\n"
      "for t in rows:\n"
      "  a=t.encode(); b=u.normalize('NFC',t).encode()\n"
      "  out.write(len(a).to_bytes(4,'little')+a+len(b).to_bytes(4,'little')+b)\n\" ";
  const test::TempDir temp;
  const std::string path = temp.file("rows");
  if (std::system((command + path + " 2>/dev/null").c_str()) != 0)
    GTEST_SKIP() << "/usr/bin/python3 is needed";
  const std::string rows = read_file(path);
  size_t at = 0, n_rows = 0;
  const auto take = [&] {
    const auto byte = [&](size_t i) {
      return static_cast<uint32_t>(static_cast<uint8_t>(rows[at + i]));
    };
    const size_t n = byte(0) | byte(1) << 8 | byte(2) << 16 | byte(3) << 24;
    at += 4 + n;
    return rows.substr(at - n, n);
  };
  while (at < rows.size()) {
    const std::string text = take(), wanted = take();
    ASSERT_EQ(nfc(text), wanted) << testing::PrintToString(text);
    ++n_rows;
  }
  EXPECT_GT(n_rows, 40000u);
}

TEST(Nfc, of_a_long_run_of_marks_takes_bounded_time_and_is_still_utf8) {
  std::string text = "a";
  for (int i = 0; i < 20000; ++i) utf8_append(text, i % 2 == 0 ? 0x301 : 0x323);
  const std::string out = nfc(text);
  EXPECT_TRUE(utf8_valid(out));
  EXPECT_GT(out.size(), text.size() - 8);
}

}  // namespace
}  // namespace outrider::text_test
