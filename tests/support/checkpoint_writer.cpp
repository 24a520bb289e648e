#include "checkpoint_writer.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>

#include "gguf/gguf.h"
#include "models/pi_gguf.h"
#include "models/pi_tensor_list.h"

namespace outrider::test {
namespace {

const char* type_name(DType dtype) {
  switch (dtype) {
    case DType::kBf16:
      return "BF16";
    case DType::kF64:
      return "F64";
    case DType::kF16:
      return "F16";
    default:
      return "F32";
  }
}

// To the wanted type: rounds towards zero for BF16, which is exact for weights made for it.
StoredTensor stored(const GgufTensor& tensor, DType dtype) {
  StoredTensor out;
  out.dtype = dtype;
  for (uint32_t i = tensor.n_dims; i-- > 0;) out.shape.push_back(tensor.ne[i]);
  std::vector<float> values(static_cast<size_t>(tensor.n_values()));
  const size_t row = row_bytes(tensor.dtype, tensor.ne[0]);
  for (int64_t r = 0; r < tensor.n_values() / tensor.ne[0]; ++r)
    dequantize_row(tensor.dtype, tensor.data + static_cast<size_t>(r) * row,
                   values.data() + r * tensor.ne[0], tensor.ne[0]);
  if (dtype != DType::kBf16) return f32_tensor(out.shape, values);
  out.bytes.resize(values.size() * 2);
  for (size_t i = 0; i < values.size(); ++i) {
    uint32_t bits;
    std::memcpy(&bits, &values[i], 4);
    const auto high = static_cast<uint16_t>(bits >> 16);
    std::memcpy(out.bytes.data() + 2 * i, &high, 2);
  }
  return out;
}

}  // namespace

StoredTensor f32_tensor(std::vector<int64_t> shape, const std::vector<float>& values) {
  StoredTensor out{DType::kF32, std::move(shape), std::vector<std::byte>(values.size() * 4)};
  std::memcpy(out.bytes.data(), values.data(), out.bytes.size());
  return out;
}

void write_text(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

void write_safetensors(const std::string& path,
                       const std::map<std::string, StoredTensor>& tensors) {
  std::string header = "{";
  size_t at = 0;
  for (const auto& [name, tensor] : tensors) {
    header += std::string(header.size() > 1 ? "," : "") + "\"" + name + "\":{\"dtype\":\"" +
              type_name(tensor.dtype) + "\",\"shape\":[";
    for (size_t i = 0; i < tensor.shape.size(); ++i)
      header += (i > 0 ? "," : "") + std::to_string(tensor.shape[i]);
    header += "],\"data_offsets\":[" + std::to_string(at) + "," +
              std::to_string(at + tensor.bytes.size()) + "]}";
    at += tensor.bytes.size();
  }
  header += "}";
  std::ofstream out(path, std::ios::binary);
  const uint64_t n = header.size();
  out.write(reinterpret_cast<const char*>(&n), 8);
  out << header;
  for (const auto& [name, tensor] : tensors)
    out.write(reinterpret_cast<const char*>(tensor.bytes.data()),
              static_cast<std::streamsize>(tensor.bytes.size()));
  EXPECT_TRUE(out.good()) << path;
}

void write_weights(const std::string& folder, const std::string& policy_gguf,
                   const std::string& vision_gguf, const CheckpointSpec& spec) {
  const auto policy = GgufFile::open(policy_gguf.c_str()),
             vision = GgufFile::open(vision_gguf.c_str());
  ASSERT_TRUE(policy && vision);
  const auto config = read_pi_config(policy.value(), vision.value());
  ASSERT_TRUE(config);
  std::map<std::string, StoredTensor> tensors;
  for (const PiTensorName& name : pi_tensor_list(config.value())) {
    const GgufTensor* tensor = (name.vision ? vision.value() : policy.value()).tensor(name.gguf);
    ASSERT_NE(tensor, nullptr) << name.gguf;
    std::string as = name.checkpoint;
    if (spec.as_lm_head && as.find("embed_tokens") != std::string::npos)
      as = "paligemma_with_expert.paligemma.lm_head.weight";
    if (spec.renamed_time && as.starts_with("time_mlp")) as = "action_" + as;
    tensors[spec.prefix + as] = stored(*tensor, spec.dtype);
  }
  if (spec.change) spec.change(tensors);
  if (spec.n_shards == 1) return write_safetensors(folder + "/model.safetensors", tensors);
  std::vector<std::map<std::string, StoredTensor>> shards(static_cast<size_t>(spec.n_shards));
  std::string index = R"({"metadata":{"total_size":1},"weight_map":{)";
  size_t i = 0;
  for (auto& [name, tensor] : tensors) {
    const size_t shard = i++ % shards.size();
    index += std::string(i > 1 ? "," : "") + "\"" + name + "\":\"model-" + std::to_string(shard) +
             ".safetensors\"";
    shards[shard][name] = std::move(tensor);
  }
  for (size_t s = 0; s < shards.size(); ++s)
    write_safetensors(folder + "/model-" + std::to_string(s) + ".safetensors", shards[s]);
  write_text(folder + "/model.safetensors.index.json", index + "}}");
}

std::string statistics_text(int64_t n) {
  const auto column = [&](double first, double slope) {
    std::string text = "[";
    for (int64_t i = 0; i < n; ++i)
      text += (i > 0 ? "," : "") + std::to_string(first + slope * static_cast<double>(i));
    return text + "]";
  };
  return R"({"mean":)" + column(0, 0.1) + R"(,"std":)" + column(1, 0.1) + R"(,"q01":)" +
         column(-1, -0.1) + R"(,"q99":)" + column(1.5, 0.1) + "}";
}

void write_lerobot_files(const std::string& folder, const LerobotSpec& spec) {
  const bool fast = spec.family == PiFamily::kPi0Fast, pi05 = spec.family == PiFamily::kPi05;
  const std::string form = pi05 || fast ? "QUANTILES" : "MEAN_STD";
  const std::string most = pi05 || fast ? "200" : "48";
  const auto n = [](int64_t value) { return std::to_string(value); };
  write_text(
      folder + "/config.json",
      R"({"type":")" +
          std::string(fast   ? "pi0_fast"
                      : pi05 ? "pi05"
                             : "pi0") +
          R"(","n_obs_steps":1,)" +
          R"("input_features":{"observation.images.top":{"type":"VISUAL","shape":[3,48,64]},)" +
          R"("observation.images.wrist":{"type":"VISUAL","shape":[3,48,64]},)" +
          R"("observation.images.empty_camera_0":{"type":"VISUAL","shape":[3,224,224]},)" +
          R"("observation.state":{"type":"STATE","shape":[)" + n(spec.n_state) + "]}}," +
          R"("output_features":{"action":{"type":"ACTION","shape":[)" + n(spec.n_actions) + "]}}," +
          R"("chunk_size":)" + n(spec.chunk) + R"(,"n_action_steps":)" + n(spec.chunk) +
          R"(,"max_state_dim":)" + n(spec.width) + R"(,"max_action_dim":)" + n(spec.width) +
          R"(,"num_inference_steps":10,"min_period":0.004,"max_period":4.0,)" +
          R"("empty_cameras":1,"tokenizer_max_length":)" + most +
          R"(,"normalization_mapping":{"VISUAL":"IDENTITY","STATE":")" + form + R"(","ACTION":")" +
          form + R"("})" + spec.config_extra + "}");
  const std::string relative =
      R"("config":{"enabled":)" + spec.relative +
      R"(,"exclude_joints":["gripper"],"action_names":["a","b","Gripper.pos"]})";
  const auto step = [](const char* name, const std::string& rest) {
    return R"({"registry_name":")" + std::string(name) + "\"" + (rest.empty() ? "" : ",") + rest +
           "}";
  };
  const std::string eps = R"("config":{"eps":1e-08})";
  write_text(
      folder + "/policy_preprocessor.json",
      R"({"name":"policy_preprocessor","steps":[)" + spec.first_steps +
          step("rename_observations_processor", R"("config":{"rename_map":{}})") + "," +
          step("to_batch_processor", R"("config":{})") + "," +
          step("relative_actions_processor", relative) + "," +
          step("normalizer_processor",
               eps + R"(,"state_file":"policy_preprocessor_step_3_normalizer.safetensors")") +
          "," +
          (fast   ? step("pi0_fast_prepare_state_tokenizer_processor_step", R"("config":{})")
           : pi05 ? step("pi05_prepare_state_tokenizer_processor_step", R"("config":{})")
                  : step("pi0_new_line_processor", R"("config":{})")) +
          "," +
          step("tokenizer_processor",
               R"("config":{"max_length":)" + most +
                   R"(,"tokenizer_name":"google/paligemma-3b-pt-224","padding_side":"right"})") +
          (fast ? "," + step("action_tokenizer_processor",
                             R"("config":{"max_action_tokens":256,"fast_skip_tokens":128,)"
                             R"("action_tokenizer_name":"action_tokenizer"})")
                : "") +
          "," + step("device_processor", R"("config":{"device":"cpu"})") + "]}");
  write_text(
      folder + "/policy_postprocessor.json",
      R"({"name":"policy_postprocessor","steps":[)" +
          step("unnormalizer_processor",
               eps + R"(,"state_file":"policy_postprocessor_step_0_unnormalizer.safetensors")") +
          "," +
          step("absolute_actions_processor", R"("config":{"enabled":)" + spec.relative + "}") +
          "," + step("device_processor", "") + "]}");
  const auto statistics = [&](float shift) {
    std::map<std::string, StoredTensor> out;
    for (const auto& [key, width] :
         {std::pair<std::string, int64_t>{"observation.state", spec.n_state},
          {"action", spec.n_actions}}) {
      const auto put = [&](const char* name, float first, float slope) {
        std::vector<float> values(static_cast<size_t>(width));
        for (size_t i = 0; i < values.size(); ++i)
          values[i] = first + slope * static_cast<float>(i);
        out[key + "." + name] = f32_tensor({width}, values);
      };
      put("mean", 0.0f + shift, 0.1f);
      put("std", 1, 0.1f);
      put("q01", -1, -0.1f);
      put("q99", 1.5f + shift, 0.1f);
    }
    return out;
  };
  write_safetensors(folder + "/policy_preprocessor_step_3_normalizer.safetensors", statistics(0));
  write_safetensors(folder + "/policy_postprocessor_step_0_unnormalizer.safetensors",
                    statistics(spec.same_statistics ? 0.0f : 0.5f));
}

}  // namespace outrider::test
