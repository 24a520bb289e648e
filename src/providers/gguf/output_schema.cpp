#include "providers/gguf/output_schema.h"

#include "base/sha256.h"
#include "providers/gguf/digest_cache.h"
#include "providers/gguf/shared_by_key.h"

namespace outrider {
namespace {

SharedByKey<OutputSchema>& shared_schemas() {
  static SharedByKey<OutputSchema> shared;
  return shared;
}

Error in_file(const std::string& path, const Error& error) {
  return make_error(error.code, "%.300s: %s", path.c_str(), error.text);
}

}  // namespace

Result<std::shared_ptr<const OutputSchema>> open_output_schema(
    const std::string& path, const std::shared_ptr<const LlmFiles>& files) {
  auto file = MappedFile::open(path.c_str());
  if (!file) return file.error();
  if (file.value().size() > OutputSchema::kMaxBytes)
    return make_error(Code::kInvalid, "%.300s: %zu bytes, a schema has at most %zu", path.c_str(),
                      file.value().size(), OutputSchema::kMaxBytes);
  // A copy: whoever edits the file meanwhile changes nothing of what is read.
  const std::string text(reinterpret_cast<const char*>(file.value().bytes().data()),
                         file.value().size());
  auto digest = sha256_hex(std::as_bytes(std::span(text)));
  if (!digest) return digest.error();
  const std::string key = id_text(files->file.file().id()) + digest.value();
  return shared_schemas().get(key, [&]() -> Result<std::shared_ptr<const OutputSchema>> {
    const auto schema = Json::parse(text);
    if (!schema) return in_file(path, schema.error());
    auto constraint = Constraint::compile(schema.value(), files->tokenizer);
    if (!constraint) return in_file(path, constraint.error());
    return std::make_shared<const OutputSchema>(
        OutputSchema{files, std::move(constraint.value()), digest.value()});
  });
}

}  // namespace outrider
