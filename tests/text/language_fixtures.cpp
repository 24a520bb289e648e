#include "language_fixtures.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "fixtures.h"
#include "text/byte_letters.h"

namespace outrider::text_test {

std::string json_string(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char unit[8];
      std::snprintf(unit, sizeof unit, "\\u%04x", static_cast<unsigned>(c));
      out += unit;
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string byte_bpe_json(const std::vector<std::string>& words) {
  const ByteLetters letters;
  std::vector<std::string> pieces;
  for (int b = 0; b < 256; ++b) pieces.emplace_back(letters.letter(static_cast<uint8_t>(b)));
  std::string merges;
  for (const std::string& word : words) {
    std::string left(letters.letter(static_cast<uint8_t>(word[0])));
    for (size_t i = 1; i < word.size(); ++i) {
      const std::string right(letters.letter(static_cast<uint8_t>(word[i])));
      const bool known = std::find(pieces.begin(), pieces.end(), left + right) != pieces.end();
      if (!known) {
        pieces.push_back(left + right);
        merges += (merges.empty() ? "" : ",") + json_string(left + " " + right);
      }
      left += right;
    }
  }
  std::string vocab, added;
  for (size_t i = 0; i < pieces.size(); ++i)
    vocab += (i == 0 ? "" : ",") + json_string(pieces[i]) + ":" + std::to_string(i);
  size_t next = pieces.size();
  for (const auto& [text, special] : {std::pair{"<|begin|>", "true"}, std::pair{"<|end|>", "true"},
                                      std::pair{"<|user|>", "true"}, std::pair{"<tool>", "false"}})
    added += std::string(added.empty() ? "" : ",") + "{\"id\":" + std::to_string(next++) +
             ",\"content\":" + json_string(text) + ",\"special\":" + special + "}";
  return "{\"added_tokens\":[" + added +
         "],\"normalizer\":null,\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":"
         "false},"
         "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{"
         "\"id\":"
         "\"<|begin|>\"}},{\"Sequence\":{\"id\":\"A\"}}]},"
         "\"model\":{\"type\":\"BPE\",\"vocab\":{" +
         vocab + "},\"merges\":[" + merges + "]}}";
}

std::filesystem::path vocabularies_dir() {
  const char* named = std::getenv("OUTRIDER_VOCABULARIES");
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  std::filesystem::path folder;
  if (named != nullptr) {
    folder = named;
  } else if (cache != nullptr || home != nullptr) {
    folder =
        cache != nullptr ? std::filesystem::path(cache) : std::filesystem::path(home) / ".cache";
    folder /= "outrider/vocabularies";
  }
  return folder;
}

std::filesystem::path vocabulary_dir(const std::string& name) {
  const std::filesystem::path folder = vocabularies_dir() / name;
  return std::filesystem::exists(folder / "vectors.json") ? folder : std::filesystem::path();
}

LanguageTokenizer from_json_text(const std::string& text, const std::string& config) {
  auto made = LanguageTokenizer::from_json(text, config, "tokenizer.json");
  EXPECT_TRUE(made) << made.error().message();
  return std::move(made.value());
}

LanguageTokenizer byte_bpe_tokenizer(const std::vector<std::string>& words) {
  return from_json_text(byte_bpe_json(words));
}

LanguageTokenizer byte_piece_tokenizer() {
  std::string vocab = "\"<unk>\":0,\"<s>\":1,\"</s>\":2";
  for (int b = 0; b < 256; ++b)
    vocab += "," + json_string(byte_piece(b)) + ":" + std::to_string(b + 3);
  return from_json_text(
      "{\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"String\":\" "
      "\"},\"content\":\"\xE2\x96\x81\"},"
      "\"model\":{\"type\":\"BPE\",\"byte_fallback\":true,\"unk_token\":\"<unk>\",\"vocab\":{" +
      vocab + "},\"merges\":[]}}");
}

int32_t byte_id(const LanguageTokenizer& tokenizer, uint8_t byte) {
  const int32_t piece = tokenizer.find(byte_piece(byte));
  return piece >= 0 ? piece : tokenizer.find(ByteLetters().letter(byte));
}

}  // namespace outrider::text_test
