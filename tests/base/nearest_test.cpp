#include "base/nearest.h"

#include <gtest/gtest.h>

namespace outrider {
namespace {

TEST(Nearest, counts_changed_inserted_dropped_and_exchanged_letters) {
  EXPECT_EQ(edit_distance("", ""), 0u);
  EXPECT_EQ(edit_distance("", "abc"), 3u);
  EXPECT_EQ(edit_distance("abc", ""), 3u);
  EXPECT_EQ(edit_distance("seed", "sed"), 1u);
  EXPECT_EQ(edit_distance("ticks", "tikcs"), 1u);
  EXPECT_EQ(edit_distance("xticks", "tikcsy"), 3u);
}

TEST(Nearest, an_unknown_key_gets_a_near_name_and_never_a_far_one) {
  const char* const known[] = {"model_path", "backend", "n_threads"};
  const auto text = [&](const char* key) {
    return std::string(unknown_key_error("onnx", key, known).text);
  };
  EXPECT_EQ(text("n_thread"),
            "config: unknown key \"n_thread\" for model_family onnx; the nearest known key is "
            "\"n_threads\"");
  EXPECT_EQ(text("noise_seed"),
            "config: unknown key \"noise_seed\" for model_family onnx; docs/reference/config.md "
            "lists its keys");
  EXPECT_EQ(nearest_name(std::string(1000, 'b'), known), nullptr);
}

}  // namespace
}  // namespace outrider
