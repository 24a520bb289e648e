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
};

// Opens, checks and digests both files, or hands out what a living runtime already opened (decided
// by device, inode, size, mtime and ctime). Errors: kNotFound, kUnsupported, kShape, kNoMemory.
Result<std::shared_ptr<const PiFiles>> open_pi_files(const PiOpenConfig& config);

// The packed model for these options, shared likewise. `ops` packs when it must.
Result<std::shared_ptr<const PiModel>> open_pi_model(const std::shared_ptr<const PiFiles>& files,
                                                     const PiConfig& config,
                                                     const PiOptions& options, Ops& ops);

// What "auto" means for these files: see docs/precision.md.
Result<Precision> resolve_precision(const PiOpenConfig& config, const PiFiles& files);

}  // namespace outrider
