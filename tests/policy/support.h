// What several policy tests share: recorded cases, a tokenizer file, small descriptions.
#pragma once
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/json.h"
#include "policy/description.h"
#include "support/shared_data.h"
#include "text/tokenizer.h"

namespace outrider::policy_test {

std::string read_file(const std::string& path);
void write_file(const std::string& path, const std::string& text);
// Fails the test when it cannot be read.
Json read_json(const std::string& path);
std::vector<double> doubles(const Json& array);
std::vector<float> floats(const Json& array);
std::vector<int32_t> ids_of(const Json& array);

// A custom robot: one camera, n state values, n actions, statistics that are easy to follow:
// mean i, std 1 + i, q01 -1 - i, q99 2 + i.
PolicyDescription small_robot(int64_t n_state, int64_t n_actions);
FieldStatistics plain_statistics(int64_t n);

// A BPE model file in SentencePiece's form. byte_pieces: the 256 of the fallback.
struct ModelFile {
  std::vector<Piece> pieces;
  uint64_t model_type = 2;
  bool dummy_prefix = false, squeeze = false, blank_behind = false;
  std::string charsmap;
  int32_t unk = 3, bos = 2, eos = 1, pad = 0;
  std::string bytes() const;
};
// pad, eos, bos, unk, newline (user defined), bytes, printable ASCII, blank, and some words.
ModelFile small_model_file();

}  // namespace outrider::policy_test
