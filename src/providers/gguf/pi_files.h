// The pair of files behind a pi0 runtime and what is shared by all runtimes of it in one process.
#pragma once
#include <memory>
#include <string>

#include "gguf/gguf.h"
#include "models/pi_model.h"
#include "providers/gguf/pi_open_config.h"
#include "text/tokenizer.h"

namespace outrider {

struct PiFiles {
  GgufFile policy, vision;
  SpmTokenizer tokenizer;
  PiConfig config;
  std::string policy_sha256, vision_sha256;
  bool digests_remembered = false;  // both came from cache_dir
  bool settled = false;             // see FileDigest
};

// Opens, checks and digests both files, or hands out what a living runtime already opened (decided
// by device, inode, size, mtime and ctime). Errors: kNotFound, kUnsupported, kShape, kNoMemory.
Result<std::shared_ptr<const PiFiles>> open_pi_files(const PiOpenConfig& config);

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
