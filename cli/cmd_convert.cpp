// outrider convert: a checkpoint folder as one GGUF file.
#include <algorithm>
#include <filesystem>

#include "cli/commands.h"
#include "cli/config.h"
#include "cli/flags.h"
#include "cli/machine.h"
#include "cli/outputs.h"
#include "policy/convert.h"

namespace outrider::cli {
namespace {

struct TypeRow {
  const char* name;
  DType type;
};
constexpr TypeRow kTypes[] = {{"f32", DType::kF32},   {"f16", DType::kF16},
                              {"bf16", DType::kBf16}, {"q8_0", DType::kQ8_0},
                              {"q4_0", DType::kQ4_0}, {"q4_k", DType::kQ4_K}};

Result<Value> parse_type(std::string_view text) {
  if (text == "stored") return Value{std::string(text), 0, 0};
  for (const TypeRow& row : kTypes)
    if (text == row.name) return Value{std::string(text), 0, 0};
  return make_error(Code::kInvalid, "one of stored, f32, f16, bf16, q8_0, q4_0, q4_k");
}

constexpr Flag kFlags[] = {
    {"--type", "T", "stored",
     "Element type of the large matrices: stored, f32, f16, bf16, q8_0, q4_0, q4_k.", parse_type},
    kJsonFlag,
};
constexpr Positional kPositionals[] = {
    {"IN", "Checkpoint folder of openpi (PyTorch) or LeRobot, or a policy.json that names one."},
    {"OUT", "GGUF file to write; it holds weights, vocabulary, statistics and the policy."}};

int run(Context& context) {
  const std::string &in = context.args.positional(0), &out = context.args.positional(1);
  const std::string& name = context.args.text("--type");
  std::optional<DType> type;
  for (const TypeRow& row : kTypes)
    if (name == row.name) type = row.type;
  auto checkpoint = open_policy_checkpoint(in);
  if (!checkpoint) return context.fail(checkpoint.error(), kBad);
  std::vector<std::string> inputs = {in, checkpoint.value().tokenizer_path};
  for (const SafeTensorsFile& file : checkpoint.value().source.folder().files())
    inputs.push_back(file.path());
  const WantedOutput wanted[] = {{"OUT", out}};
  if (auto fine = check_outputs(wanted, inputs, context.out); !fine)
    return context.fail(fine.error());
  auto converted = convert_checkpoint(checkpoint.value(), type, out);
  if (!converted) return context.fail(converted.error(), kBad);
  std::error_code error;
  uint64_t bytes = std::filesystem::file_size(out, error);
  if (error) bytes = 0;  // a pipe or device
  const PolicyCheckpoint& c = checkpoint.value();
  for (const std::string& note : c.notes) context.out.say(Level::kInfo, "{}", note);
  context.out.text("{}  {}, {} tensors, large matrices {}, policy \"{}\" inside\n", out,
                   bytes_text(bytes), converted.value().n_tensors,
                   dtype_info(converted.value().type).name, robot_name(c.policy.robot));
  context.out.document({{"path", out},
                        {"bytes", bytes},
                        {"family", pi_family_name(c.config.family)},
                        {"type", std::string(dtype_info(converted.value().type).name)},
                        {"tensors", converted.value().n_tensors},
                        {"kept", converted.value().n_kept},
                        {"robot", robot_name(c.policy.robot)},
                        {"notes", c.notes}});
  return kGood;
}

}  // namespace

const Command kConvert = {
    "convert",
    "Write a checkpoint folder as one GGUF file with its policy inside.",
    "Exit status 1: the checkpoint is damaged, incomplete, or holds something this build does not "
    "understand. Folders are run without conversion too.",
    "outrider convert pi05_libero/ pi05.gguf --type bf16",
    kPositionals,
    kFlags,
    run};

}  // namespace outrider::cli
