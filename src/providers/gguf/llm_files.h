// The file behind a language model and what is shared by all sessions of it in one process.
#pragma once
#include <memory>
#include <string>

#include "gguf/gguf.h"
#include "models/llm_model.h"
#include "providers/gguf/llm_open_config.h"
#include "text/language_tokenizer.h"

namespace outrider {

struct LlmFiles {
  GgufFile file;
  LlmConfig config;
  LanguageTokenizer tokenizer;
  std::string sha256;
  bool digest_remembered = false;

  // Ids that may be given and come out: the vocabulary's, which the table may exceed by padding.
  int64_t n_ids() const { return tokenizer.n_pieces(); }
};

// Opens, checks and digests the file, or hands out what a living session already opened (decided by
// device, inode, size, mtime and ctime). Errors: kNotFound, kUnsupported, kShape.
Result<std::shared_ptr<const LlmFiles>> open_llm_files(const LlmOpenConfig& config);

// What "auto" means for this file: see docs/reference/config.md.
Precision resolve_precision(const LlmOpenConfig& config, const LlmFiles& files);

// The packed model, shared likewise. `ops` packs when it must.
Result<std::shared_ptr<const LlmModel>> open_llm_model(const std::shared_ptr<const LlmFiles>& files,
                                                       Precision precision, Ops& ops);

}  // namespace outrider
