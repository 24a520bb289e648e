#include "support/fast_folder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <numbers>

#include "gguf/gguf.h"
#include "gguf/writer.h"
#include "models/pi_gguf.h"
#include "models/pi_gguf_keys.h"
#include "models/synthetic_vocab.h"

namespace outrider::test {
namespace {

constexpr int64_t kVocab = 1024, kLocations = 128, kSegments = 128;

SpmVocab fast_vocab() {
  SpmVocab vocab = synthetic_vocab(kVocab - kLocations - kSegments);
  const auto add = [&](const char* format, int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
      char text[16];
      std::snprintf(text, sizeof text, format, static_cast<long long>(i));
      vocab.pieces.push_back({text, 0, PieceType::kUserDefined});
    }
  };
  add("<loc%04lld>", kLocations);
  add("<seg%03lld>", kSegments);
  return vocab;
}

// A byte as byte-level vocabularies write it, as a JSON escape.
std::string letter(int byte) {
  int code = byte, spare = 256;
  for (int b = 0; b < 256; ++b) {
    const bool plain = (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || (b >= 0xAE);
    if (!plain) {
      if (b == byte) code = spare;
      ++spare;
    }
  }
  char text[8];
  std::snprintf(text, sizeof text, "\\u%04x", static_cast<unsigned>(code));
  return text;
}

using Tensors = std::map<std::string, StoredTensor>;

std::vector<float> floats(const StoredTensor& t) {
  std::vector<float> out(t.bytes.size() / (t.dtype == DType::kBf16 ? 2 : 4));
  for (size_t i = 0; i < out.size(); ++i) {
    if (t.dtype == DType::kBf16) {
      uint16_t high;
      std::memcpy(&high, t.bytes.data() + 2 * i, 2);
      const uint32_t bits = static_cast<uint32_t>(high) << 16;
      std::memcpy(&out[i], &bits, 4);
    } else {
      std::memcpy(&out[i], t.bytes.data() + 4 * i, 4);
    }
  }
  return out;
}

void put_back(StoredTensor& t, const std::vector<float>& values) {
  if (t.dtype != DType::kBf16) {
    t = f32_tensor(t.shape, values);
    return;
  }
  for (size_t i = 0; i < values.size(); ++i) {
    uint32_t bits;
    std::memcpy(&bits, &values[i], 4);
    const auto high = static_cast<uint16_t>(bits >> 16);
    std::memcpy(t.bytes.data() + 2 * i, &high, 2);
  }
}

void scale(StoredTensor& t, float by) {
  auto values = floats(t);
  for (float& v : values) v *= by;
  put_back(t, values);
}

// Token i of the chain has direction i of the stream; hidden unit i of the last layer turns it into
// direction i + 1. Everything else is the random model, made small.
void teach(Tensors& tensors, const std::string& prefix, const std::vector<int32_t>& chain,
           float noise, float force) {
  const std::string language = prefix + "paligemma_with_expert.paligemma.model.language_model.";
  int last = 0;
  while (tensors.contains(language + "layers." + std::to_string(last + 1) + ".mlp.up_proj.weight"))
    ++last;
  for (int i = 0; i <= last; ++i) {
    const std::string layer = language + "layers." + std::to_string(i) + ".";
    scale(tensors.at(layer + "self_attn.o_proj.weight"), noise);
    scale(tensors.at(layer + "mlp.down_proj.weight"), noise);
  }
  const std::string mlp = language + "layers." + std::to_string(last) + ".mlp.";
  StoredTensor& embed = tensors.at(language + "embed_tokens.weight");
  auto e = floats(embed);
  const auto width = static_cast<size_t>(embed.shape[1]);
  auto gate = floats(tensors.at(mlp + "gate_proj.weight")),
       up = floats(tensors.at(mlp + "up_proj.weight")),
       down = floats(tensors.at(mlp + "down_proj.weight"));
  const size_t hidden = gate.size() / width;
  ASSERT_LT(chain.size(), width);
  ASSERT_LT(chain.size(), hidden);
  for (float& v : e) v *= noise;
  for (size_t i = 0; i < chain.size(); ++i) {
    e[static_cast<size_t>(chain[i]) * width + i] += 1;
    for (auto* m : {&gate, &up}) {
      for (size_t k = 0; k < width; ++k) (*m)[i * width + k] *= noise;
      (*m)[i * width + i] += 1;
    }
    if (i + 1 < chain.size()) down[(i + 1) * hidden + i] += force;
  }
  put_back(embed, e);
  put_back(tensors.at(mlp + "gate_proj.weight"), gate);
  put_back(tensors.at(mlp + "up_proj.weight"), up);
  put_back(tensors.at(mlp + "down_proj.weight"), down);
}

// Gives tokens of the answer four others of the same direction: directions that nothing was taught
// tell them apart, and attention fills those.
void vary(Tensors& tensors, const std::string& prefix, const std::vector<int>& answer,
          const std::vector<int32_t>& chain) {
  const std::string language = prefix + "paligemma_with_expert.paligemma.model.language_model.";
  for (int i = 0;
       tensors.contains(language + "layers." + std::to_string(i) + ".mlp.up_proj.weight"); ++i) {
    const std::string layer = language + "layers." + std::to_string(i) + ".self_attn.";
    scale(tensors.at(layer + "o_proj.weight"), 15);
    scale(tensors.at(layer + "q_proj.weight"), 6);  // few keys decide: every input shows
  }
  StoredTensor& embed = tensors.at(language + "embed_tokens.weight");
  auto e = floats(embed);
  const auto width = static_cast<size_t>(embed.shape[1]);
  uint32_t seed = 1;
  for (const int token : answer) {
    const auto id = static_cast<size_t>(kFastMostId - token);
    const auto place = static_cast<size_t>(
        std::find(chain.begin(), chain.end(), static_cast<int32_t>(id)) - chain.begin());
    for (size_t other = 0; other < 5; ++other) {
      float* row = e.data() + (id - 12 * other) * width;
      std::fill_n(row, width, 0.0f);
      row[place] = 1;
      for (size_t k = chain.size(); k < width; ++k)
        row[k] = (static_cast<float>((seed = seed * 1664525u + 1013904223u) >> 8) * 0x1p-23f - 1) *
                 0.25f;
    }
  }
  put_back(embed, e);
}

// The head apart from the embedding, whose last row would win every time if it were the head.
void part(Tensors& tensors, const std::string& prefix, const std::vector<int32_t>& chain) {
  const std::string paligemma = prefix + "paligemma_with_expert.paligemma.";
  StoredTensor& embed = tensors.at(paligemma + "model.language_model.embed_tokens.weight");
  tensors[paligemma + "lm_head.weight"] = embed;
  auto e = floats(embed);
  const auto width = static_cast<size_t>(embed.shape[1]);
  for (size_t i = 0; i < chain.size(); ++i) e[e.size() - width + i] = 3;
  put_back(embed, e);
}

}  // namespace

std::string fast_tokenizer_json() {
  std::string vocab;
  int id = 0;
  const auto add = [&](const std::string& token) {
    vocab += (id > 0 ? ",\"" : "\"") + token + "\":" + std::to_string(id);
    ++id;
  };
  const auto code = [](int coefficient) { return static_cast<int>(coefficient - kFastMinToken); };
  for (int c = 0; c < 32; ++c) add(letter(c));
  for (int g = 0; g < 60; ++g) {
    std::string token;
    for (int i = 0; i < 5; ++i) token += letter(code(fast_coefficient(g, i)));
    add(token);
  }
  add(letter(0xC3)), add(letter(0x88));  // U+00C8 = 200: coefficient 184
  add(letter(0xFF));
  return R"({"version":"1.0","added_tokens":[],"pre_tokenizer":{"type":"ByteLevel"},)"
         R"("decoder":{"type":"ByteLevel"},"model":{"type":"BPE","vocab":{)" +
         vocab + R"(},"merges":[]}})";
}

std::string fast_processor_json() {
  return R"({"processor_class":"UniversalActionProcessor","action_dim":null,"time_horizon":null,)"
         R"("scale":10,"min_token":-16,"vocab_size":64})";
}

std::vector<int32_t> fast_answer_ids(const FastSpec& spec) {
  const auto tokenizer = SpmTokenizer::from_vocab(fast_vocab());
  EXPECT_TRUE(tokenizer);
  std::vector<int32_t> ids;
  if (spec.with_cue) ids = tokenizer.value().encode("Action: ", {}).value();
  for (const int token : spec.answer) ids.push_back(kFastMostId - token);
  if (spec.with_end) {
    ids.push_back(tokenizer.value().encode("|", {}).value().at(0));
    ids.push_back(1);
  }
  return ids;
}

std::vector<double> fast_chunk(const FastSpec& spec) {
  std::vector<double> coefficients;
  for (const int token : spec.answer) {
    if (token < 32) coefficients.push_back(token + static_cast<double>(kFastMinToken));
    for (int i = 0; token >= 32 && token < 92 && i < 5; ++i)
      coefficients.push_back(fast_coefficient(token - 32, i));
  }
  const auto n = static_cast<size_t>(kFastRows), w = static_cast<size_t>(kFastColumns);
  std::vector<double> chunk(n * w);
  if (coefficients.size() != chunk.size()) return {};
  for (size_t t = 0; t < n; ++t)
    for (size_t c = 0; c < w; ++c) {
      double sum = coefficients[c] / std::sqrt(static_cast<double>(n));
      for (size_t k = 1; k < n; ++k)
        sum += coefficients[k * w + c] * std::sqrt(2.0 / static_cast<double>(n)) *
               std::cos(std::numbers::pi * static_cast<double>(k * (2 * t + 1)) /
                        (2 * static_cast<double>(n)));
      chunk[t * w + c] = sum / kFastScale;
    }
  return chunk;
}

void write_fast_folder(const std::string& folder, const std::string& policy_gguf,
                       const std::string& vision_gguf, const FastSpec& spec) {
  CheckpointSpec weights;
  weights.dtype = spec.dtype;
  weights.prefix = spec.prefix;
  weights.change = [&](Tensors& tensors) {
    std::erase_if(tensors, [&](const auto& entry) {
      const std::string name = entry.first.substr(spec.prefix.size());
      return name.find("gemma_expert.") != std::string::npos || name.starts_with("action_") ||
             name.starts_with("time_") || name.starts_with("state_");
    });
    const std::string language =
        spec.prefix + "paligemma_with_expert.paligemma.model.language_model.";
    StoredTensor norm = tensors.at(language + "layers.0.input_layernorm.weight");
    tensors[language + "norm.weight"] = norm;
    std::vector<int32_t> chain = {spec.lerobot ? 2 : 108};  // the prompt's last id
    for (const int32_t id : fast_answer_ids(spec)) chain.push_back(id);
    if (spec.taught) teach(tensors, spec.prefix, chain, spec.noise, spec.varied ? 4 : 1);
    if (spec.varied) vary(tensors, spec.prefix, spec.answer, chain);
    if (spec.own_head) part(tensors, spec.prefix, chain);
  };
  write_weights(folder, policy_gguf, vision_gguf, weights);
  GgufWriter writer;
  writer.add_string("general.architecture", "pi0");
  add_vocab_keys(writer, fast_vocab());
  writer.add_tensor("nothing", DType::kF32, std::array<int64_t, 1>{1},
                    [](int64_t, std::span<float> values) { values[0] = 0; });
  ASSERT_TRUE(writer.write((folder + "/tokenizer.gguf").c_str()));
  const std::string tokens = folder + (spec.files ? "/action_tokenizer" : "/fast");
  std::filesystem::create_directories(tokens);
  write_text(tokens + "/tokenizer.json", fast_tokenizer_json());
  write_text(tokens + "/processor_config.json", fast_processor_json());
  if (!spec.files) std::filesystem::create_directories(folder + "/assets/arm");
  if (!spec.files)
    write_text(folder + "/assets/arm/norm_stats.json", R"({"norm_stats":{"state":)" +
                                                           statistics_text(6) + R"(,"actions":)" +
                                                           statistics_text(6) + "}}");
  const auto policy = GgufFile::open(policy_gguf.c_str()),
             vision = GgufFile::open(vision_gguf.c_str());
  ASSERT_TRUE(policy && vision);
  const auto config = read_pi_config(policy.value(), vision.value());
  ASSERT_TRUE(config);
  const std::string sizes = R"("tokenizer":"tokenizer.gguf","model":{"head_dim":)" +
                            std::to_string(config.value().backbone.head_dim) +
                            R"(,"vision_heads":)" + std::to_string(config.value().vision.n_heads) +
                            "}";
  if (spec.files) {
    LerobotSpec lerobot;
    lerobot.family = PiFamily::kPi0Fast;
    lerobot.width = 32;  // max_action_dim: no tensor has it
    lerobot.config_extra = spec.more;
    write_lerobot_files(folder, lerobot);
    write_text(folder + "/policy.json", "{" + sizes + "}");
    return;
  }
  write_text(folder + "/policy.json",
             R"({"cameras":[)" + spec.cameras +
                 R"(],"state":{"fields":[{"name":"joints","size":6,"unit":"rad"}]},)" +
                 R"("actions":{"size":6)" + spec.action_more + "}," + sizes + R"(,"horizon":10)" +
                 (spec.lerobot ? R"(,"prompt":{"rule":"lerobot"})" : "") + spec.more + "}");
}

}  // namespace outrider::test
