// The metadata entry "output_slices": what Python writes is read, nothing is executed.
#include "driving/slices.h"

#include <gtest/gtest.h>

namespace outrider::driving {
namespace {

// base64(pickle.dumps({"plan": slice(917, 1907), "pad": slice(-2, None),
//   "hidden_state": slice(2066, 18450, 1), "far": slice(0, 70000), "wide": slice(-70000,
//   5000000000)}))
constexpr const char* kPickles[] = {
    // protocol 0
    "KGRwMApWcGxhbgpwMQpjX19idWlsdGluX18Kc2xpY2UKcDIKKEk5MTcKSTE5MDcKTnRwMwpScDQK\n"
    "c1ZwYWQKcDUKZzIKKEktMgpOTnRwNgpScDcKc1ZoaWRkZW5fc3RhdGUKcDgKZzIKKEkyMDY2Ckkx\n"
    "ODQ1MApJMQp0cDkKUnAxMApzVmZhcgpwMTEKZzIKKEkwCkk3MDAwMApOdHAxMgpScDEzCnNWd2lk\n"
    "ZQpwMTQKZzIKKEktNzAwMDAKTDUwMDAwMDAwMDBMCk50cDE1ClJwMTYKcy4=\n",
    // protocol 1
    "fXEAKFgEAAAAcGxhbnEBY19fYnVpbHRpbl9fCnNsaWNlCnECKE2VA01zB050cQNScQRYAwAAAHBh\n"
    "ZHEFaAIoSv7///9OTnRxBlJxB1gMAAAAaGlkZGVuX3N0YXRlcQhoAihNEghNEkhLAXRxCVJxClgD\n"
    "AAAAZmFycQtoAihLAEpwEQEATnRxDFJxDVgEAAAAd2lkZXEOaAIoSpDu/v9MNTAwMDAwMDAwMEwK\n"
    "TnRxD1JxEHUu\n",
    // protocol 2
    "gAJ9cQAoWAQAAABwbGFucQFjX19idWlsdGluX18Kc2xpY2UKcQJNlQNNcwdOh3EDUnEEWAMAAABw\n"
    "YWRxBWgCSv7///9OTodxBlJxB1gMAAAAaGlkZGVuX3N0YXRlcQhoAk0SCE0SSEsBh3EJUnEKWAMA\n"
    "AABmYXJxC2gCSwBKcBEBAE6HcQxScQ1YBAAAAHdpZGVxDmgCSpDu/v+KBQDyBSoBTodxD1JxEHUu\n",
    // protocol 3
    "gAN9cQAoWAQAAABwbGFucQFjYnVpbHRpbnMKc2xpY2UKcQJNlQNNcwdOh3EDUnEEWAMAAABwYWRx\n"
    "BWgCSv7///9OTodxBlJxB1gMAAAAaGlkZGVuX3N0YXRlcQhoAk0SCE0SSEsBh3EJUnEKWAMAAABm\n"
    "YXJxC2gCSwBKcBEBAE6HcQxScQ1YBAAAAHdpZGVxDmgCSpDu/v+KBQDyBSoBTodxD1JxEHUu\n",
    // protocol 4
    "gASVigAAAAAAAAB9lCiMBHBsYW6UjAhidWlsdGluc5SMBXNsaWNllJOUTZUDTXMHToeUUpSMA3Bh\n"
    "ZJRoBEr+////Tk6HlFKUjAxoaWRkZW5fc3RhdGWUaARNEghNEkhLAYeUUpSMA2ZhcpRoBEsASnAR\n"
    "AQBOh5RSlIwEd2lkZZRoBEqQ7v7/igUA8gUqAU6HlFKUdS4=\n",
    // protocol 5
    "gAWVigAAAAAAAAB9lCiMBHBsYW6UjAhidWlsdGluc5SMBXNsaWNllJOUTZUDTXMHToeUUpSMA3Bh\n"
    "ZJRoBEr+////Tk6HlFKUjAxoaWRkZW5fc3RhdGWUaARNEghNEkhLAYeUUpSMA2ZhcpRoBEsASnAR\n"
    "AQBOh5RSlIwEd2lkZZRoBEqQ7v7/igUA8gUqAU6HlFKUdS4=\n",
};

TEST(Slices, reads_every_protocol_that_python_writes) {
  const RawSlices wanted = {{"plan", {917, 1907, {}}},
                            {"pad", {-2, {}, {}}},
                            {"hidden_state", {2066, 18450, 1}},
                            {"far", {0, 70000, {}}},
                            {"wide", {-70000, 5000000000, {}}}};
  for (const char* text : kPickles) {
    const auto got = decode_slices(text);
    ASSERT_TRUE(got) << got.error().text;
    EXPECT_EQ(got.value(), wanted);
  }
}

TEST(Slices, reads_a_slice_that_two_names_share) {
  const auto got =
      decode_slices("gASVLQAAAAAAAAB9lCiMAWGUjAhidWlsdGluc5SMBXNsaWNllJOUSwFLAk6HlFKUjAFilGgGdS4=");
  ASSERT_TRUE(got) << got.error().text;
  EXPECT_EQ(got.value(), (RawSlices{{"a", {1, 2, {}}}, {"b", {1, 2, {}}}}));
}

TEST(Slices, reads_json_too) {
  const auto got = decode_slices(R"( {"plan": [917, 1907], "pad": [-2, null], "x": [0, 5, 1]} )");
  ASSERT_TRUE(got) << got.error().text;
  EXPECT_EQ(got.value(),
            (RawSlices{{"plan", {917, 1907, {}}}, {"pad", {-2, {}, {}}}, {"x", {0, 5, 1}}}));
  for (const char* bad :
       {"{}", "{", R"({"a":[1]})", R"({"a":[1,2,3,4]})", R"({"a":[1.5,2]})", R"({"a":["1",2]})",
        R"({"a":1})", R"({"a b":[1,2]})", R"({"":[1,2]})", R"({"a":[1,2],"a":[2,3]})"})
    EXPECT_EQ(decode_slices(bad).code(), Code::kNotFound) << bad;
}

// ---- hostile files ------------------------------------------------------------------------------

TEST(Slices, FC47_a_pickle_that_calls_something_is_refused_by_name) {
  for (const char* text : {
           // {"plan": an object whose loading would call os.system}, protocols 0, 2 and 4
           "KGRwMApWcGxhbgpwMQpjcG9zaXgKc3lzdGVtCnAyCihWdHJ1ZQpwMwp0cDQKUnA1CnMu",
           "gAJ9cQBYBAAAAHBsYW5xAWNwb3NpeApzeXN0ZW0KcQJYBAAAAHRydWVxA4VxBFJxBXMu",
           "gASVKQAAAAAAAAB9lIwEcGxhbpSMBXBvc2l4lIwGc3lzdGVtlJOUjAR0cnVllIWUUpRzLg==",
       }) {
    const auto got = decode_slices(text);
    ASSERT_FALSE(got);
    EXPECT_EQ(got.code(), Code::kNotFound);
    EXPECT_NE(std::string(got.error().text).find("names posix.system"), std::string::npos)
        << got.error().text;
  }
}

TEST(Slices, refuses_other_pickles_in_words) {
  const std::pair<const char*, const char*> cases[] = {
      {"gASVqQAAAAAAAACMC2NvbGxlY3Rpb25zlIwLT3JkZXJlZERpY3SUk5QpUpQojARwbGFulIwIYnVpbHRpbnOUjAVzbGl"
       "jZZSTlE2VA01zB06HlFKUjANwYWSUaAdK/v///"
       "05Oh5RSlIwMaGlkZGVuX3N0YXRllGgHTRIITRJISwGHlFKUjANmYXKUaAdLAEpwEQEAToeUUpSMBHdpZGWUaAdKkO7+"
       "/4oFAPIFKgFOh5RSlHUu",
       "collections"},                                                           // an OrderedDict
      {"gASVIgAAAAAAAABdlIwIYnVpbHRpbnOUjAVzbGljZZSTlEsASwFOh5RSlGEu", "0x5d"},  // a list
      {"gASVLQAAAAAAAAB9lIwBYZR9lIwBYpSMCGJ1aWx0aW5zlIwFc2xpY2WUk5RLAEsBToeUUpRzcy4=",
       "second dictionary"},
      {"gASVLQAAAAAAAAB9lIwBYZSMCGJ1aWx0aW5zlIwFc2xpY2WUk5RHP+AAAAAAAABLAU6HlFKUcy4=",
       "0x47"},  // slice(0.5, 1)
      {"KGRwMApWYQpwMQpjX19idWlsdGluX18Kc2xpY2UKcDIKKEkwMQpJMgpOdHAzClJwNApzLg==",
       "the number"},  // slice(True, 2)
      {"gASVLwAAAAAAAAB9lIwBYZSMCGJ1aWx0aW5zlIwFc2xpY2WUk5RLAIoJAAAAAAAAAABAToeUUpRzLg==",
       "64 bits"},  // slice(0, 1 << 70)
  };
  for (const auto& [text, words] : cases) {
    const auto got = decode_slices(text);
    ASSERT_FALSE(got) << text;
    EXPECT_NE(std::string(got.error().text).find(words), std::string::npos) << got.error().text;
  }
}

TEST(Slices, refuses_every_cut_and_survives_every_flipped_bit) {
  const std::string whole =
      encode_slices({{"plan", {0, 10}}, {"lead", {10, 300}}, {"z", {300, 70000}}});
  ASSERT_TRUE(decode_slices(whole));
  // Of the bytes of the pickles, not of their letters.
  for (const std::string& pickle :
       {std::string("\x80\x04}(\x8c\x01q\x8c\x08"
                    "builtins\x8c\x05slice\x93K\x01K\x02N\x87Ru."),
        std::string("(dp0\nVq\np1\nc__builtin__\nslice\np2\n(I1\nI2\nNtp3\nRp4\ns.")}) {
    ASSERT_TRUE(unpickle_slices(pickle)) << unpickle_slices(pickle).error().text;
    for (size_t n = 0; n < pickle.size(); ++n)
      EXPECT_FALSE(unpickle_slices(std::string_view(pickle).substr(0, n))) << n;
    EXPECT_FALSE(unpickle_slices(pickle + "."));
    for (size_t bit = 0; bit < pickle.size() * 8; ++bit) {
      std::string other = pickle;
      other[bit / 8] = static_cast<char>(other[bit / 8] ^ 1 << bit % 8);
      const auto got = unpickle_slices(other);  // refused or a dictionary, never more
      {
        if (got) {
          EXPECT_LE(got.value().size(), 1u) << bit;
        }
      }
    }
  }
  for (size_t n = 0; n + 4 < whole.size(); ++n)
    EXPECT_FALSE(decode_slices(std::string_view(whole).substr(0, n))) << n;
}

TEST(Slices, refuses_what_would_grow_without_end) {
  EXPECT_FALSE(unpickle_slices(std::string(100000, '(')));
  EXPECT_FALSE(unpickle_slices(std::string(kMaxSlicesBytes + 1, 'N')));
  EXPECT_FALSE(decode_slices(std::string(kMaxSlicesBytes + 1, 'A')));
  // Kept beyond the end of the memo, asked for without being kept.
  EXPECT_FALSE(unpickle_slices(std::string("Nr\xff\xff\xff\xff}.", 8)));
  EXPECT_FALSE(unpickle_slices("Nh\x01}."));
  EXPECT_FALSE(unpickle_slices("NI-1\ng-1\n}."));
  // A dictionary inside itself.
  EXPECT_FALSE(
      unpickle_slices(std::string("}q\x00\x8c\x01"
                                  "ah\x00s.",
                                  10)));
  std::string many = "}(";
  for (int i = 0; i < 1100; ++i)
    many += "\x8c\x04" + std::to_string(1000 + i) + "cbuiltins\nslice\nK\x01K\x02N\x87R";
  EXPECT_FALSE(unpickle_slices(many + "u."));
}

TEST(Slices, refuses_letters_that_are_no_base64) {
  for (const char* bad : {"", "A", "AA", "AAA", "A===", "AA=A", "AAAA=", "gAR*", "\xff", "===="})
    EXPECT_FALSE(decode_slices(bad)) << bad;
}

// ---- ranges -------------------------------------------------------------------------------------

TEST(Slices, resolve_as_python_does) {
  // Python: range(*slice(a, b).indices(10)), empty ones at their start.
  const std::tuple<std::optional<int64_t>, std::optional<int64_t>, Range> cases[] = {
      {2, 5, {2, 5}},
      {-3, {}, {7, 10}},
      {{}, {}, {0, 10}},
      {{}, -1, {0, 9}},
      {-20, 3, {0, 3}},
      {4, 99, {4, 10}},
      {20, 30, {10, 10}},
      {5, 5, {5, 5}},
      {6, 2, {6, 6}},
      {-2, -5, {8, 8}},
      {INT64_MIN, INT64_MAX, {0, 10}},
      {INT64_MAX, INT64_MIN, {10, 10}}};
  for (const auto& [start, stop, wanted] : cases) {
    const auto got = resolve_slice({start, stop, {}}, 10);
    ASSERT_TRUE(got);
    EXPECT_EQ(got.value(), wanted) << got.value().begin << ".." << got.value().end;
  }
  EXPECT_TRUE(resolve_slice({0, 5, 1}, 10));
  for (const int64_t step : {-1, 0, 2}) EXPECT_FALSE(resolve_slice({0, 5, step}, 10));
}

TEST(Slices, written_as_an_exporter_writes_them) {
  const std::vector<NamedRange> slices = {
      {"plan", {0, 255}}, {"b", {256, 65535}}, {"c", {65536, 1 << 30}}};
  const std::string text = encode_slices(slices);
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at);
    ASSERT_LE(end - at, 76u);
    at = end + 1;
  }
  const auto got = decode_slices(text);
  ASSERT_TRUE(got) << got.error().text;
  ASSERT_EQ(got.value().size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(got.value()[i].first, slices[i].name);
    EXPECT_EQ(*got.value()[i].second.start, slices[i].range.begin);
    EXPECT_EQ(*got.value()[i].second.stop, slices[i].range.end);
  }
}

}  // namespace
}  // namespace outrider::driving
