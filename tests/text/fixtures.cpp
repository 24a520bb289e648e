#include "fixtures.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>

#include "support/temp_dir.h"

namespace outrider::text_test {

std::filesystem::path shared_dir() {
  const char* named = std::getenv("OUTRIDER_SHARED");
  const std::filesystem::path dir =
      named != nullptr ? named : std::filesystem::path(OUTRIDER_SOURCE_DIR) / ".." / "shared";
  return std::filesystem::is_directory(dir / "golden") ? dir : std::filesystem::path();
}

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  std::ostringstream bytes;
  bytes << file.rdbuf();
  return bytes.str();
}

Json read_json(const std::filesystem::path& path) {
  auto json = Json::parse(read_file(path));
  EXPECT_TRUE(json) << path << ": " << json.error().message();
  return json ? std::move(json.value()) : Json();
}

std::vector<int32_t> int_list(const Json& array) {
  std::vector<int32_t> values;
  for (const Json& item : array.items()) values.push_back(static_cast<int32_t>(item.integer()));
  return values;
}

std::filesystem::path made_model(const std::string& arguments, std::string* why) {
  static const test::TempDir folder;
  static std::map<std::string, std::filesystem::path> made;
  if (const auto known = made.find(arguments); known != made.end()) return known->second;
  const std::filesystem::path tool = shared_dir() / "tools" / "make_gguf.py";
  if (shared_dir().empty() || !std::filesystem::exists(tool)) {
    *why = "no shared test data: set OUTRIDER_SHARED";
    return {};
  }
  if (std::system("/usr/bin/python3 -c 'import numpy' 2>/dev/null") != 0) {
    *why = "/usr/bin/python3 with numpy is needed to write the model file";
    return {};
  }
  const std::filesystem::path out = folder.file(std::to_string(made.size()));
  const std::string command = "/usr/bin/python3 '" + tool.string() + "' " + arguments + " --out '" +
                              out.string() + "' >/dev/null";
  EXPECT_EQ(std::system(command.c_str()), 0) << command;
  for (const auto& entry : std::filesystem::directory_iterator(out)) {
    const std::string name = entry.path().filename().string();
    if (name.find("mmproj") == name.npos) made[arguments] = entry.path();
  }
  return made[arguments];
}

std::string byte_piece(int value) {
  char text[8];
  std::snprintf(text, sizeof(text), "<0x%02X>", value);
  return text;
}

void add_byte_pieces(SpmVocab& vocab) {
  for (int b = 0; b < 256; ++b) vocab.pieces.push_back({byte_piece(b), 0, PieceType::kByte});
}

SpmVocab policy_vocab() {
  SpmVocab vocab;
  vocab.bos = 2, vocab.eos = 1, vocab.unk = 3, vocab.pad = 0;
  vocab.add_space_prefix = false;
  const auto put = [&](std::string text, float score, PieceType type) {
    vocab.pieces.push_back({std::move(text), score, type});
  };
  put("<pad>", 0, PieceType::kControl);
  put("<eos>", 0, PieceType::kControl);
  put("<bos>", 0, PieceType::kControl);
  put("<unk>", 0, PieceType::kUnknown);
  while (vocab.pieces.size() < 106)
    put("<unused" + std::to_string(vocab.pieces.size() - 4) + ">", 0, PieceType::kUnused);
  put("<start_of_turn>", 0, PieceType::kControl);
  put("<end_of_turn>", 0, PieceType::kControl);
  put("\n", 0, PieceType::kUserDefined);
  add_byte_pieces(vocab);
  float score = 0;
  for (const char* text :
       {"pi",   "ck",  "pick",  "up",     "▁up", "th",    "the", "▁the", "cu",     "cup",
        "▁cup", "Ta",  "sk",    "Task",   "Ac",  "ti",    "on",  "tion", "Action", "St",
        "at",   "ate", "State", "▁State", "▁pi", "▁pick", "▁▁",  "▁▁▁▁"})
    put(text, score -= 1, PieceType::kNormal);
  for (char c = '!'; c <= '~'; ++c) put(std::string(1, c), score -= 1, PieceType::kNormal);
  put("▁", score -= 1, PieceType::kNormal);
  return vocab;
}

SpmTokenizer policy_tokenizer() {
  auto tokenizer = SpmTokenizer::from_vocab(policy_vocab());
  EXPECT_TRUE(tokenizer) << tokenizer.error().message();
  return std::move(tokenizer.value());
}

std::vector<int32_t> ids_of(const SpmTokenizer& tokenizer,
                            std::initializer_list<std::string_view> texts) {
  std::vector<int32_t> ids;
  for (const std::string_view text : texts) {
    const auto& pieces = tokenizer.vocab().pieces;
    int32_t id = -1;
    for (size_t i = 0; i < pieces.size(); ++i)
      if (pieces[i].text == text) id = static_cast<int32_t>(i);
    EXPECT_GE(id, 0) << "no piece " << text;
    ids.push_back(id);
  }
  return ids;
}

std::vector<int32_t> encode_all(const SpmTokenizer& tokenizer, std::string_view text,
                                EncodeOptions options) {
  auto ids = tokenizer.encode(text, options);
  EXPECT_TRUE(ids) << ids.error().message();
  return ids ? ids.value() : std::vector<int32_t>();
}

}  // namespace outrider::text_test
