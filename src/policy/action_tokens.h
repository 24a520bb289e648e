// The vocabulary of FAST action tokens: byte-level BPE over coefficients. A token stands for some
// bytes of a UTF-8 text, in which one character is one coefficient: its code point plus min_token.
// Source: pi-policy.md 12; the public files of physical-intelligence/fast.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace outrider {

class ActionTokens {
 public:
  static constexpr int64_t kMaxTokens = int64_t{1} << 17;
  static constexpr size_t kMaxTokenBytes = 65536;
  static constexpr size_t kMaxFileBytes = size_t{16} << 20;

  // [setup] A folder with tokenizer.json and processor_config.json. Errors: kNotFound (missing,
  // damaged, key and value named), kUnsupported (another kind of tokenizer).
  static Result<ActionTokens> open(const std::string& folder);
  // [setup] The same from their texts; `name` is the folder, for messages.
  static Result<ActionTokens> read(std::string_view tokenizer_json, std::string_view processor_json,
                                   const std::string& name);

  // Ids are 0 .. n_tokens() - 1.
  int64_t n_tokens() const { return static_cast<int64_t>(bytes_.size()); }
  // Empty for an id that the vocabulary leaves out.
  std::string_view bytes(int64_t id) const { return bytes_[static_cast<size_t>(id)]; }
  int64_t min_token() const { return min_token_; }
  double scale() const { return scale_; }  // coefficients were multiplied by it

 private:
  Result<void> take(int64_t id, std::string bytes, const std::string& name);

  std::vector<std::string> bytes_;
  int64_t min_token_ = 0;
  double scale_ = 10;
};

}  // namespace outrider
