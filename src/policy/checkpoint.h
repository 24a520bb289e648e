// A policy as people ship it: a folder of safetensors with what belongs to it.
//
// openpi (PyTorch): model.safetensors, config.json, assets/<asset id>/norm_stats.json. The robot is
//   known by the asset id (trossen, droid, physical-intelligence/libero), else by a policy.json.
// LeRobot: model.safetensors with "model." before every name, config.json with "type",
//   policy_preprocessor.json and policy_postprocessor.json with their *.safetensors.
// Both: one file or shards with an index; a SentencePiece model (or a GGUF with a vocabulary).
//
// A policy.json in the folder, or given instead of it, says the rest or overrides.
// Source: pi-policy.md 11; the public code of both projects for their files.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "models/pi_checkpoint.h"
#include "policy/action_tokens.h"
#include "policy/description.h"
#include "text/tokenizer.h"

namespace outrider {

struct PolicyCheckpoint {
  std::string folder;         // with the weights
  PolicyDescription policy;   // whole and checked
  PiConfig config;            // with horizon and steps of the policy
  PiCheckpointSource source;  // borrows the mapped files, which it keeps
  SpmTokenizer tokenizer;
  std::string tokenizer_path;
  std::optional<ActionTokens> action_tokens;  // PI0-FAST
  std::string action_tokens_path;             // their folder
  std::vector<std::string> notes;             // where each thing came from, one line each
};

// [setup] `path`: the folder or a policy.json. Reads headers and small files, no weight. Everything
// that does not fit is refused here. Errors: kNotFound (missing, damaged, contradicting), kInvalid
// (policy.json), kUnsupported (a step or an option that this build does not know), kShape (the
// robot does not fit the model).
Result<PolicyCheckpoint> open_policy_checkpoint(const std::string& path);

// ---- parts, for tests -------------------------------------------------------------------------

// What the files beside the weights say; `policy` and `hints` are filled in.
struct FolderFacts {
  PolicyDescription policy;
  PiSizeHints hints;
  bool known = false;             // the folder describes a robot
  std::string why_not;            // otherwise: what was looked for
  int64_t stated_action_dim = 0;  // 0: nobody said
  std::vector<std::string> notes;
};
Result<FolderFacts> read_openpi_folder(const std::string& folder, const PiCheckpointSource& source);
Result<FolderFacts> read_lerobot_folder(const std::string& folder,
                                        const PiCheckpointSource& source);

// norm_stats.json of an openpi folder: of this asset id, or the only one. origin is its path;
// a folder without any gives empty statistics. Errors: kNotFound (several and no id; this id is not
// there; damaged).
struct FoundStatistics {
  PolicyStatistics statistics;
  std::string asset_id;
  std::vector<std::string> looked_at;
};
Result<FoundStatistics> find_norm_stats(const std::string& folder, const std::string& asset_id);

// [setup] Gives a description its statistics: its own, those of the file it names (relative to
// `base`), or those below `folder`. A note says which. Errors: kNotFound, also when two of them
// disagree.
Result<void> take_statistics(const std::string& base, const std::string& folder, bool lerobot,
                             PolicyDescription& policy, std::vector<std::string>& notes);

// [setup] Do these action tokens fit the vocabulary and the model? `path`: the vocabulary's, for
// messages. Errors: kNotFound.
Result<void> check_fast_vocabulary(const std::string& path, const SpmTokenizer& tokenizer,
                                   const ActionTokens& tokens, const PiConfig& config,
                                   bool lerobot);

// The text of a small file. Errors: kNotFound.
Result<std::string> read_small_file(const std::string& path, size_t max_bytes);

}  // namespace outrider
