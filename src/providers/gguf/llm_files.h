// The file behind a language model and what is shared by all sessions of it in one process.
#pragma once
#include <memory>
#include <string>

#include "gguf/gguf.h"
#include "models/llm_model.h"
#include "models/vlm_model.h"
#include "models/vlm_prompt.h"
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

// A pair: the text file as above, and the vision file whose tokens it reads.
struct VlmFiles {
  std::shared_ptr<const LlmFiles> text;
  GgufFile file;
  VlmConfig config;
  VlmPieces pieces;
  std::string sha256;
  bool digest_remembered = false;
};

// Opens, checks and digests the file, or hands out what a living session already opened (decided by
// device, inode, size, mtime and ctime). Errors: kNotFound, kUnsupported, kShape.
Result<std::shared_ptr<const LlmFiles>> open_llm_files(const LlmOpenConfig& config);

// The same for a pair. Errors: also when the two do not belong together (kShape: widths; kNotFound:
// pieces; kUnsupported: architecture and projector).
Result<std::shared_ptr<const VlmFiles>> open_vlm_files(const LlmOpenConfig& config);

// What "auto" means for this file: see docs/reference/config.md.
Precision resolve_precision(const LlmOpenConfig& config, const LlmFiles& files);
Precision resolve_precision(const LlmOpenConfig& config, const VlmFiles& files);

// The packed model, shared likewise. `ops` packs when it must.
Result<std::shared_ptr<const LlmModel>> open_llm_model(const std::shared_ptr<const LlmFiles>& files,
                                                       Precision precision, Ops& ops);

Result<std::shared_ptr<const VlmModel>> open_vlm_model(const std::shared_ptr<const VlmFiles>& files,
                                                       Precision precision, Ops& ops);

}  // namespace outrider
