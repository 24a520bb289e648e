#include "policy/support.h"

#include <cstring>
#include <fstream>
#include <sstream>

namespace outrider::policy_test {
namespace {

void put_varint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}
void put_number(std::string& out, uint32_t field, uint64_t value) {
  put_varint(out, field << 3);
  put_varint(out, value);
}
void put_bytes(std::string& out, uint32_t field, const std::string& bytes) {
  put_varint(out, field << 3 | 2);
  put_varint(out, bytes.size());
  out += bytes;
}
void put_float(std::string& out, uint32_t field, float value) {
  put_varint(out, field << 3 | 5);
  char raw[4];
  std::memcpy(raw, &value, 4);
  out.append(raw, 4);
}

}  // namespace

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

void write_file(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

Json read_json(const std::string& path) {
  auto json = Json::parse(read_file(path));
  EXPECT_TRUE(json) << path << ": " << json.error().text;
  return json ? json.value() : Json();
}

std::vector<double> doubles(const Json& array) {
  std::vector<double> out;
  for (const Json& item : array.items()) out.push_back(item.number());
  return out;
}
std::vector<float> floats(const Json& array) {
  std::vector<float> out;
  for (const Json& item : array.items()) out.push_back(static_cast<float>(item.number()));
  return out;
}
std::vector<int32_t> ids_of(const Json& array) {
  std::vector<int32_t> out;
  for (const Json& item : array.items()) out.push_back(static_cast<int32_t>(item.integer()));
  return out;
}

FieldStatistics plain_statistics(int64_t n) {
  FieldStatistics out;
  for (int64_t i = 0; i < n; ++i) {
    const auto x = static_cast<double>(i);
    out.mean.push_back(x);
    out.std.push_back(1 + x);
    out.q01.push_back(-1 - x);
    out.q99.push_back(2 + x);
    out.min.push_back(-2 - x);
    out.max.push_back(3 + x);
  }
  return out;
}

PolicyDescription small_robot(int64_t n_state, int64_t n_actions) {
  PolicyDescription p;
  p.cameras = {{"front", 0, true, false, 0, 0}};
  p.state = {{"joints", n_state, "rad"}};
  p.action_width = n_actions;
  p.statistics = {plain_statistics(n_state), plain_statistics(n_actions), "test"};
  return p;
}

std::string ModelFile::bytes() const {
  std::string out;
  for (const Piece& piece : pieces) {
    std::string message;
    put_bytes(message, 1, piece.text);
    put_float(message, 2, piece.score);
    if (piece.type != PieceType::kNormal) put_number(message, 3, static_cast<uint64_t>(piece.type));
    put_bytes(out, 1, message);
  }
  std::string trainer;
  put_number(trainer, 3, model_type);
  put_number(trainer, 24, blank_behind);
  put_number(trainer, 35, 1);
  const auto id = [&](uint32_t field, int32_t value) {
    put_number(trainer, field, static_cast<uint64_t>(static_cast<int64_t>(value)));
  };
  id(40, unk), id(41, bos), id(42, eos), id(43, pad);
  put_bytes(out, 2, trainer);
  std::string normalizer;
  put_bytes(normalizer, 1, "identity");
  put_bytes(normalizer, 2, charsmap);
  put_number(normalizer, 3, dummy_prefix);
  put_number(normalizer, 4, squeeze);
  put_number(normalizer, 5, 1);
  put_bytes(out, 3, normalizer);
  return out;
}

ModelFile small_model_file() {
  ModelFile file;
  file.pieces = {{"<pad>", 0, PieceType::kControl},
                 {"</s>", 0, PieceType::kControl},
                 {"<s>", 0, PieceType::kControl},
                 {"<unk>", 0, PieceType::kUnknown},
                 {"\n", 0, PieceType::kUserDefined}};
  for (int i = 0; i < 256; ++i) {
    char name[8];
    std::snprintf(name, sizeof name, "<0x%02X>", i);
    file.pieces.push_back({name, 0, PieceType::kByte});
  }
  float score = -1;
  for (const char* word : {"pi", "ck", "pick", "\u2581up", "\u2581the"})
    file.pieces.push_back({word, score--, PieceType::kNormal});
  file.pieces.push_back({"\u2581", score--, PieceType::kNormal});
  for (char c = '!'; c <= '~'; ++c)
    file.pieces.push_back({std::string(1, c), score--, PieceType::kNormal});
  for (const char* prefix : {"\u2581u", "\u2581t", "\u2581th"})
    file.pieces.push_back({prefix, score--, PieceType::kNormal});
  return file;
}

}  // namespace outrider::policy_test
