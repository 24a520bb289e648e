#include "policy/convert.h"

#include <algorithm>

#include "gguf/writer.h"
#include "models/pi_gguf_keys.h"
#include "models/pi_tensor_list.h"
#include "policy/gguf_policy.h"

namespace outrider {
namespace {

constexpr uint32_t kContextLength = 131072;

DType chosen(const PiTensorName& name, const TensorInfo& info, std::optional<DType> wanted) {
  // Kept as stored, a matrix has the same bits as in the checkpoint, whatever its role.
  if (!wanted) return info.shape.size() < 2 ? DType::kF32 : info.dtype;
  if (!name.large || info.shape.size() < 2) return DType::kF32;
  const DType type = *wanted;
  return info.shape.back() % dtype_info(type).block_values == 0 ? type : DType::kF16;
}

// GGUF counts dimensions from the contiguous one.
std::vector<int64_t> ne_of(const TensorInfo& info) {
  std::vector<int64_t> ne(info.shape.rbegin(), info.shape.rend());
  if (ne.empty()) ne.push_back(1);
  return ne;
}

// The files as they are: what reads a folder reads them.
Result<void> add_action_tokens(GgufWriter& writer, const std::string& folder) {
  for (const auto& [key, name] : {std::pair{kGgufActionTokensKey, "/tokenizer.json"},
                                  std::pair{kGgufActionRulesKey, "/processor_config.json"}}) {
    auto text = read_small_file(folder + name, ActionTokens::kMaxFileBytes);
    if (!text) return text.error();
    writer.add_string(key, text.value());
  }
  return {};
}

}  // namespace

Result<Converted> convert_checkpoint(const PolicyCheckpoint& checkpoint, std::optional<DType> type,
                                     const std::string& out) {
  if (type && !dtype_info(*type).can_be_weight)
    return make_error(Code::kUnsupported, "convert: element type %s cannot be a weight",
                      std::string(dtype_info(*type).name).c_str());
  auto target = examine_output(out.c_str());
  if (!target) return target.error();
  PiConfig config = checkpoint.config;
  config.vision.use_gelu = config.family != PiFamily::kPi05;  // how files of both families say it
  const auto names = pi_tensor_list(config);
  const auto sample =
      std::find_if(names.begin(), names.end(), [](const auto& n) { return n.large; });
  Converted report;
  const auto stored = checkpoint.source.find(sample->checkpoint);
  report.type = type.value_or(stored ? stored->dtype : DType::kF32);

  GgufWriter writer;
  // PI0-FAST has one stack and a head: a reader of pi0 files must not take it for one.
  const char* architecture = config.is_fast() ? "pi0_fast" : "pi0";
  writer.add_string("general.architecture", architecture);
  writer.add_string("general.name", config.family == PiFamily::kPi05 ? "pi05" : architecture);
  writer.add_u32("general.file_type", gguf_file_type(report.type));
  if (dtype_info(report.type).block_values > 1) writer.add_u32("general.quantization_version", 2);
  add_pi_size_keys(writer, config, kContextLength);
  add_vocab_keys(writer, checkpoint.tokenizer.vocab());
  add_pi_vision_keys(writer, config);
  add_policy(writer, checkpoint.policy, config);
  if (config.is_fast()) OUTRIDER_TRY(add_action_tokens(writer, checkpoint.action_tokens_path));
  for (const PiTensorName& name : names) {
    const auto info = checkpoint.source.find(name.checkpoint);
    if (!info)
      return make_error(Code::kNotFound, "%.250s: tensor %.160s is missing",
                        checkpoint.folder.c_str(), name.checkpoint.c_str());
    if (!dtype_info(info->dtype).can_be_weight)
      return make_error(Code::kUnsupported, "%.250s: tensor %.120s is of type %s",
                        checkpoint.folder.c_str(), name.checkpoint.c_str(),
                        std::string(dtype_info(info->dtype).name).c_str());
    const DType as = chosen(name, *info, type);
    const std::vector<int64_t> ne = ne_of(*info);
    const size_t row_size = row_bytes(info->dtype, ne[0]);
    const TensorInfo from = *info;
    writer.add_tensor(name.gguf, as, ne, [from, row_size](int64_t row, std::span<float> values) {
      dequantize_row(from.dtype,
                     static_cast<const std::byte*>(from.data) + static_cast<size_t>(row) * row_size,
                     values.data(), static_cast<int64_t>(values.size()));
    });
    ++report.n_tensors;
    report.n_kept += as == info->dtype;
  }
  OUTRIDER_TRY(writer.write(out.c_str()));
  return report;
}

}  // namespace outrider
