// Reads required sizes from a model file's metadata and keeps the first failure.
#pragma once
#include <string>

#include "base/result.h"
#include "gguf/gguf.h"

namespace outrider {

class SizeReader {
 public:
  explicit SizeReader(const GgufFile& file) : file_(file) {}

  // 1 .. most; 1 after a failure.
  int64_t required(const std::string& key, int64_t most) {
    const auto value = file_.unsigned_integer(key);
    if (!value) {
      fail(value.error());
      return 1;
    }
    return bounded(key, value.value(), most);
  }
  int64_t optional(const std::string& key, int64_t fallback, int64_t most) {
    return file_.has(key) ? required(key, most) : fallback;
  }
  void fail(const Error& error) {
    if (failure_.code == Code::kOk) failure_ = error;
  }
  const Error& failure() const { return failure_; }
  bool ok() const { return failure_.code == Code::kOk; }

 private:
  int64_t bounded(const std::string& key, uint64_t value, int64_t most) {
    if (value >= 1 && value <= static_cast<uint64_t>(most)) return static_cast<int64_t>(value);
    fail(make_error(Code::kNotFound, "%s: %s is %llu, allowed 1..%lld", file_.path().c_str(),
                    key.c_str(), static_cast<unsigned long long>(value),
                    static_cast<long long>(most)));
    return 1;
  }
  const GgufFile& file_;
  Error failure_;
};

}  // namespace outrider
