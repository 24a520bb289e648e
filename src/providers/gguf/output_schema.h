// What a model may write when its configuration names a JSON schema: masks over the vocabulary,
// shared by all sessions of one file and one schema.
#pragma once
#include <memory>
#include <string>

#include "providers/gguf/llm_files.h"
#include "text/constraint.h"

namespace outrider {

struct OutputSchema {
  std::shared_ptr<const LlmFiles> files;  // whose tokenizer the masks are for
  Constraint constraint;
  std::string sha256;  // of the schema's text

  static constexpr size_t kMaxBytes = size_t{1} << 20;
};

// [setup] Reads the schema and makes its masks, or hands out those of a living session. Errors:
// kNotFound (no such file; the vocabulary cannot write what the schema wants), kInvalid (not JSON,
// beyond kMaxBytes, a schema that nothing follows or that is too large), kUnsupported (a keyword
// this build does not do), each naming the file.
Result<std::shared_ptr<const OutputSchema>> open_output_schema(
    const std::string& path, const std::shared_ptr<const LlmFiles>& files);

}  // namespace outrider
