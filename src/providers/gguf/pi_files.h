// The files behind a pi0 runtime and what is shared by all runtimes of it in one process.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gguf/gguf.h"
#include "models/pi_checkpoint.h"
#include "models/pi_model.h"
#include "policy/action_tokens.h"
#include "policy/description.h"
#include "providers/gguf/pi_open_config.h"
#include "text/tokenizer.h"

namespace outrider {

// Weights in GGUF files or in a checkpoint folder, with what belongs to them.
struct PiFiles {
  std::optional<GgufFile> policy, vision;        // a pair, or one file twice
  std::optional<PiCheckpointSource> checkpoint;  // or a folder of safetensors
  SpmTokenizer tokenizer;
  PiConfig config;
  // The robot that this policy drives; without it the plain face is the only one.
  std::optional<PolicyDescription> robot;
  std::optional<ActionTokens> action_tokens;  // PI0-FAST
  uint64_t policy_bytes = 0;                  // of what policy_sha256 is the digest of
  std::string policy_sha256, vision_sha256;   // vision_sha256 "": it lies in the same files
  std::string robot_sha256;                   // of the description and the tokenizer
  std::string weights_path, tokenizer_path;
  std::vector<std::string> notes;   // where things came from
  bool digests_remembered = false;  // all came from cache_dir
  bool settled = false;             // see FileDigest

  std::vector<const MappedFile*> mapped() const;
  std::string ids() const;  // of all files with weights
  Result<PiWeights> weights() const;
  Result<Matrix> embedding() const;
  // Element type of the large matrices, by one of them.
  std::optional<DType> stored_as() const;
};

// Opens, checks and digests the files of the configuration, or hands out what a living runtime
// already opened (decided by device, inode, size, mtime and ctime). What does not fit the robot is
// refused before a weight is read. Errors: kNotFound, kUnsupported, kShape, kInvalid, kNoMemory.
Result<std::shared_ptr<const PiFiles>> open_pi_files(const PiOpenConfig& config);

// The size keys of a configuration against the robot; keys that were left out ask for nothing. A
// checkpoint that states no horizon takes action_steps for it. `path` is for messages. Errors:
// kShape naming the key and both numbers; kInvalid.
Result<void> fit_robot(const PiOpenConfig& config, bool from_checkpoint, const std::string& path,
                       PolicyDescription& robot, PiConfig& model);

struct CachedPiModel {
  std::shared_ptr<const PiModel> model;
  std::string cache;  // "off", "hit", "miss: written", "miss: ..." with the reason; no paths
};

// The packed model for these options, shared likewise. With a cache_dir its packed form is mapped
// from there, or packed and left there for the next open; a cache that is damaged, foreign or
// cannot be written never fails an open. `ops` packs when it must.
Result<std::shared_ptr<const CachedPiModel>> open_pi_model(
    const std::shared_ptr<const PiFiles>& files, const PiConfig& config, const PiOptions& options,
    const std::string& cache_dir, Ops& ops);

// What "auto" means for these files: see docs/precision.md.
Result<Precision> resolve_precision(const PiOpenConfig& config, const PiFiles& files);

}  // namespace outrider
