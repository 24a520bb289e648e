#include "policy/action_tokens.h"

#include "base/json.h"
#include "policy/checkpoint.h"
#include "text/byte_letters.h"
#include "text/unicode.h"

namespace outrider {
namespace {

constexpr size_t kMaxSumBytes = size_t{64} << 20;

// A token with a character that stands for no byte is taken as it is written.
std::string bytes_of(const ByteLetters& letters, const std::string& token) {
  std::string out;
  for (std::string_view rest = token; !rest.empty();) {
    const Character c = first_character(rest);
    const int byte = letters.byte(c.code);
    if (byte < 0) return token;
    out += static_cast<char>(byte);
    rest.remove_prefix(c.bytes);
  }
  return out;
}

Result<Json> parse(std::string_view text, const std::string& path) {
  auto json = Json::parse(
      text, Json::Dialect::kStandard,
      {.max_bytes = ActionTokens::kMaxFileBytes, .max_depth = 32, .max_values = size_t{1} << 20});
  if (!json) return make_error(Code::kNotFound, "%.250s: %s", path.c_str(), json.error().text);
  return json;
}

std::string type_at(const Json& json, const char* key) {
  const Json* part = json.find(key);
  const Json* type = part != nullptr ? part->find("type") : nullptr;
  return type != nullptr && type->is_string() ? type->text() : "";
}

}  // namespace

Result<void> ActionTokens::take(int64_t id, std::string bytes, const std::string& name) {
  if (id < 0 || id >= kMaxTokens)
    return make_error(Code::kNotFound, "%.300s: token id %lld, allowed 0..%lld", name.c_str(),
                      static_cast<long long>(id), static_cast<long long>(kMaxTokens - 1));
  if (bytes.empty() || bytes.size() > kMaxTokenBytes)
    return make_error(Code::kNotFound, "%.300s: token %lld has %zu bytes, allowed 1..%zu",
                      name.c_str(), static_cast<long long>(id), bytes.size(), kMaxTokenBytes);
  const auto index = static_cast<size_t>(id);
  if (index >= bytes_.size()) bytes_.resize(index + 1);
  if (!bytes_[index].empty())
    return make_error(Code::kNotFound, "%.300s: token id %lld is given twice", name.c_str(),
                      static_cast<long long>(id));
  bytes_[index] = std::move(bytes);
  return {};
}

Result<ActionTokens> ActionTokens::read(std::string_view tokenizer_json,
                                        std::string_view processor_json, const std::string& name) {
  const std::string path = name + "/tokenizer.json", rules = name + "/processor_config.json";
  auto tokenizer = parse(tokenizer_json, path);
  if (!tokenizer) return tokenizer.error();
  const std::string kind = type_at(tokenizer.value(), "model"),
                    decoder = type_at(tokenizer.value(), "decoder");
  if (kind != "BPE" || decoder != "ByteLevel")
    return make_error(Code::kUnsupported,
                      "%.250s: model \"%.30s\" with decoder \"%.30s\"; action tokens are BPE with "
                      "ByteLevel",
                      path.c_str(), kind.c_str(), decoder.c_str());
  const Json* vocab = tokenizer.value().find("model")->find("vocab");
  if (vocab == nullptr || !vocab->is_object() || vocab->members().empty())
    return make_error(Code::kNotFound, "%.300s: model.vocab is missing or empty", path.c_str());
  ActionTokens out;
  const ByteLetters letters;
  size_t sum = 0;
  for (const Json::Member& member : vocab->members()) {
    if (!member.value.is_integer())
      return make_error(Code::kNotFound, "%.300s: model.vocab gives an id that is no integer",
                        path.c_str());
    std::string bytes = bytes_of(letters, member.name);
    sum += bytes.size();
    OUTRIDER_TRY(out.take(member.value.integer(), std::move(bytes), path));
  }
  if (sum > kMaxSumBytes)
    return make_error(Code::kNotFound, "%.300s: tokens of %zu bytes together, allowed %zu",
                      path.c_str(), sum, kMaxSumBytes);
  auto processor = parse(processor_json, rules);
  if (!processor) return processor.error();
  const Json *scale = processor.value().find("scale"), *least = processor.value().find("min_token");
  if (scale == nullptr || !scale->is_number() || !(scale->number() > 0) ||
      !(scale->number() <= 1e9))
    return make_error(Code::kNotFound, "%.300s: scale is %.40s, wanted a number above 0",
                      rules.c_str(), scale == nullptr ? "missing" : scale->text().c_str());
  constexpr int64_t kMost = 1 << 24;
  if (least == nullptr || !least->is_integer() || least->integer() < -kMost ||
      least->integer() > kMost)
    return make_error(Code::kNotFound, "%.300s: min_token is %.40s, wanted an integer",
                      rules.c_str(), least == nullptr ? "missing" : least->text().c_str());
  out.scale_ = scale->number();
  out.min_token_ = least->integer();
  return out;
}

Result<ActionTokens> ActionTokens::open(const std::string& folder) {
  auto tokenizer = read_small_file(folder + "/tokenizer.json", kMaxFileBytes);
  if (!tokenizer) return tokenizer.error();
  auto processor = read_small_file(folder + "/processor_config.json", size_t{1} << 20);
  if (!processor) return processor.error();
  return read(tokenizer.value(), processor.value(), folder);
}

}  // namespace outrider
