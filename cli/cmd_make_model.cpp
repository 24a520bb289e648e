// outrider make-model: seeded random models of true shape, for tests and first steps.
#include <cstring>

#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/idle.h"
#include "cli/machine.h"
#include "cli/make_model.h"
#include "cli/outputs.h"

namespace outrider::cli {
namespace {

constexpr Flag kFlags[] = {
    {"--size", "SIZE", "tiny",
     "tiny (a few megabytes) or full (the sizes of the base checkpoints).", parse_model_size},
    {"--type", "T", "f32",
     "Element type of the matrices: f32, f16, bf16, q8_0, q4_0, q4_1, q5_0, q5_1, q2_k, q3_k, "
     "q4_k, q5_k or q6_k; f16 where a row is no multiple of its block.",
     parse_weight_type},
    {"--layout", "LAYOUT", "queued",
     "Of a driving graph: queued (the runtime keeps the history) or stateful (the graph does).",
     parse_driving_layout},
    {"--seed", "N", "1", "Seed of the random weights; equal seeds give equal files.", parse_seed},
    {"--pair", "P", "gemma3", "Which pair mllm is: gemma3, qwen25vl or smolvlm.", parse_pair},
    kJsonFlag,
};
constexpr Positional kPositionals[] = {
    {"KIND", "pi0, pi05, llm, mllm or driving."},
    {"OUT",
     "Model file to write (driving: ONNX, else GGUF); the vision file of a policy or of mllm is "
     "written beside it as <OUT without .gguf>-mmproj.gguf."},
};

MakeModel wanted_model(const Context& context) {
  return {context.args.positional(0) == "pi05",
          context.args.positional(1),
          context.args.text("--size"),
          context.args.text("--type"),
          static_cast<uint64_t>(context.args.integer("--seed")),
          context.args.text("--layout"),
          context.args.text("--pair")};
}

// Models of one file.
int run_single(Context& context, const char* kind, Result<MadeModel> (*make)(const MakeModel&)) {
  const std::string& out = context.args.positional(1);
  const WantedOutput wanted[] = {{"OUT", out}};
  if (auto fine = check_outputs(wanted, {}, context.out); !fine) return context.fail(fine.error());
  auto made = make(wanted_model(context));
  if (!made) return context.fail(made.error(), kUsage);
  const MadeModel& model = made.value();
  context.out.text("{}  {}\n", model.policy_path, bytes_text(model.policy_bytes));
  context.out.document(
      {{"kind", kind}, {"model", {{"path", model.policy_path}, {"bytes", model.policy_bytes}}}});
  return kGood;
}

int run(Context& context) {
  const std::string &kind = context.args.positional(0), &out = context.args.positional(1);
  static constexpr const char* kKinds[] = {"pi0", "pi05", "llm", "mllm", "driving"};
  if (kind != "mllm")
    if (auto good = refuse_idle(context.args, {"--pair"}, "it is for KIND mllm"); !good)
      return context.fail(good.error());
  if (kind != "driving")
    if (auto good = refuse_idle(context.args, {"--layout"}, "it is for KIND driving"); !good)
      return context.fail(good.error());
  if (kind == "llm") return run_single(context, "llm", make_text_model);
  if (kind == "driving") return run_single(context, "driving", make_driving_model);
  if (kind != "pi0" && kind != "pi05" && kind != "mllm") {
    const char* near = nearest_name(kind, kKinds);
    return context.fail(
        make_error(Code::kInvalid,
                   "make-model: KIND is \"%.40s\", allowed pi0, pi05, llm, mllm and driving%s%s%s",
                   kind.c_str(), near ? "; did you mean " : "", near ? near : "", near ? "?" : ""));
  }
  const WantedOutput wanted[] = {{"OUT", out}, {"vision file of OUT", vision_path_of(out)}};
  if (auto fine = check_outputs(wanted, {}, context.out); !fine) return context.fail(fine.error());
  auto made =
      kind == "mllm" ? make_pair_model(wanted_model(context)) : make_model(wanted_model(context));
  if (!made) return context.fail(made.error(), kUsage);
  const MadeModel& model = made.value();
  context.out.text("{}  {}\n{}  {}\n", model.policy_path, bytes_text(model.policy_bytes),
                   model.vision_path, bytes_text(model.vision_bytes));
  context.out.document({{"kind", kind},
                        {kind == "mllm" ? "model" : "policy",
                         {{"path", model.policy_path}, {"bytes", model.policy_bytes}}},
                        {"vision", {{"path", model.vision_path}, {"bytes", model.vision_bytes}}}});
  return kGood;
}

}  // namespace

const Command kMakeModel = {"make-model",
                            "Write a random model of true shape (policy and vision file).",
                            "Weights are random, so actions mean nothing; sizes, names, types and "
                            "cost are those of a real policy.",
                            "outrider make-model pi05 tiny.gguf --type q8_0",
                            kPositionals,
                            kFlags,
                            run};

}  // namespace outrider::cli
