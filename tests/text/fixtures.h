// Small vocabularies and the paths of shared test data.
#pragma once
#include <filesystem>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "text/tokenizer.h"

namespace outrider::text_test {

// Folder with reference data; empty when this machine has none: the test then skips visibly.
std::filesystem::path shared_dir();
std::string read_file(const std::filesystem::path& path);
Json read_json(const std::filesystem::path& path);
std::vector<int32_t> int_list(const Json& array);

// A model file written by the reference tools for these arguments ("gemma --size tiny ..."), made
// once per program; empty with *why filled where that cannot be done here.
std::filesystem::path made_model(const std::string& arguments, std::string* why);

// "<0x0A>" and its kin.
std::string byte_piece(int value);
void add_byte_pieces(SpmVocab& vocab);

// Ids as the Gemma family has them at the places the policy depends on: <pad> 0, <eos> 1, <bos> 2,
// <unk> 3, unused up to 105, <start_of_turn> 106, <end_of_turn> 107, newline 108, byte b at 109 +
// b. From 365: words of the test prompts, then every printable ASCII character and U+2581.
inline constexpr int32_t kFirstByte = 109;
SpmVocab policy_vocab();
SpmTokenizer policy_tokenizer();

// Ids of pieces by their texts; a text that is no piece fails the test.
std::vector<int32_t> ids_of(const SpmTokenizer& tokenizer,
                            std::initializer_list<std::string_view> texts);
// Every id of the text, by a caller that gives room enough.
std::vector<int32_t> encode_all(const SpmTokenizer& tokenizer, std::string_view text,
                                EncodeOptions options = {});

}  // namespace outrider::text_test
