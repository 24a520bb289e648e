#include "cli/make_model.h"

#include <algorithm>
#include <filesystem>

#include "driving/graph/synthetic.h"
#include "models/synthetic_llm.h"
#include "models/synthetic_pi.h"
#include "models/synthetic_vlm.h"

namespace outrider::cli {
namespace {

struct TypeName {
  const char* name;
  DType type;
};
constexpr TypeName kTypes[] = {
    {"f32", DType::kF32},   {"f16", DType::kF16},   {"bf16", DType::kBf16}, {"q8_0", DType::kQ8_0},
    {"q4_0", DType::kQ4_0}, {"q4_1", DType::kQ4_1}, {"q5_0", DType::kQ5_0}, {"q5_1", DType::kQ5_1},
    {"q2_k", DType::kQ2_K}, {"q3_k", DType::kQ3_K}, {"q4_k", DType::kQ4_K}, {"q5_k", DType::kQ5_K},
    {"q6_k", DType::kQ6_K}};

Result<DType> type_of(const MakeModel& options) {
  const auto row =
      std::ranges::find_if(kTypes, [&](const TypeName& t) { return options.type == t.name; });
  if (row != std::end(kTypes)) return row->type;
  return make_error(Code::kInvalid, "make-model: element type \"%.20s\" is unknown",
                    options.type.c_str());
}

}  // namespace

std::string vision_path_of(const std::string& policy_path) {
  const std::string stem =
      policy_path.ends_with(".gguf") ? policy_path.substr(0, policy_path.size() - 5) : policy_path;
  return stem + "-mmproj.gguf";
}

Result<MadeModel> make_text_model(const MakeModel& options) {
  auto type = type_of(options);
  if (!type) return type.error();
  MadeModel made;
  made.policy_path = options.out;
  OUTRIDER_TRY(write_synthetic_llm(
      {.full = options.size == "full", .dtype = type.value(), .seed = options.seed},
      options.out.c_str()));
  std::error_code error;
  made.policy_bytes = std::filesystem::file_size(options.out, error);
  if (error) made.policy_bytes = 0;  // a pipe or device
  return made;
}

Result<MadeModel> make_driving_model(const MakeModel& options) {
  if (options.type != "f32")
    return make_error(Code::kUnsupported,
                      "make-model: --type is %.20s, driving graphs are made in f32; choose the "
                      "precision when one is opened",
                      options.type.c_str());
  MadeModel made;
  made.policy_path = options.out;
  const auto layout =
      options.layout == "stateful" ? driving::Layout::kStateful : driving::Layout::kQueued;
  OUTRIDER_TRY(driving::write_synthetic_driving({layout, options.size == "full", options.seed},
                                                options.out));
  std::error_code error;
  made.policy_bytes = std::filesystem::file_size(options.out, error);
  if (error) made.policy_bytes = 0;  // a pipe or device
  return made;
}

namespace {

void take_sizes(MadeModel& made) {
  std::error_code error;
  for (auto [path, bytes] : {std::pair{&made.policy_path, &made.policy_bytes},
                             std::pair{&made.vision_path, &made.vision_bytes}}) {
    *bytes = std::filesystem::file_size(*path, error);
    if (error) *bytes = 0;  // a pipe or device
  }
}

}  // namespace

Result<MadeModel> make_pair_model(const MakeModel& options) {
  auto type = type_of(options);
  if (!type) return type.error();
  const VlmKind kind = options.pair == "qwen25vl"  ? VlmKind::kQwen25Vl
                       : options.pair == "smolvlm" ? VlmKind::kIdefics3
                                                   : VlmKind::kGemma3;
  MadeModel made;
  made.policy_path = options.out;
  made.vision_path = vision_path_of(options.out);
  OUTRIDER_TRY(write_synthetic_vlm(
      {.kind = kind, .full = options.size == "full", .dtype = type.value(), .seed = options.seed},
      made.policy_path.c_str(), made.vision_path.c_str()));
  take_sizes(made);
  return made;
}

Result<MadeModel> make_model(const MakeModel& options) {
  auto type = type_of(options);
  if (!type) return type.error();
  MadeModel made;
  made.policy_path = options.out;
  made.vision_path = vision_path_of(options.out);
  const SyntheticPi what = {options.pi05 ? PiFamily::kPi05 : PiFamily::kPi0, options.size == "full",
                            type.value(), options.seed};
  OUTRIDER_TRY(write_synthetic_pi(what, made.policy_path.c_str(), made.vision_path.c_str()));
  take_sizes(made);
  return made;
}

}  // namespace outrider::cli
