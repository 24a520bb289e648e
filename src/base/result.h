// Status codes and the result of anything that can fail in an expected way.
#pragma once
#include <cstdarg>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

namespace outrider {

// The same numbers cross the C ABI (model-runtime v1). One cause has one code at every entrance.
enum class Code : int32_t {
  kOk = 0,
  kInvalid = -1,      // argument, order, configuration
  kNotFound = -2,     // file, model or name that is missing, unreadable, damaged, of another kind
  kUnsupported = -3,  // family, backend, element type or operator that this build does not run
  kShape = -4,        // sizes that do not fit each other
  kNoMemory = -5,     // out of memory, or the caller's storage is too small
  kDevice = -6,       // backend failure
  kNotReady = -7,     // no output yet
  kFailed = -8,       // inference failed: non-finite result, tokenizer, cancelled
};

constexpr int to_abi(Code code) { return static_cast<int>(code); }
const char* code_name(Code code);

// A code and one line: what, which file/field/port, value found, value allowed, next step.
// The text lives inside: no heap. Longer texts are cut at kTextBytes - 1 bytes.
struct Error {
  static constexpr size_t kTextBytes = 512;
  Code code = Code::kOk;
  char text[kTextBytes] = {};

  std::string_view message() const { return text; }
};

// printf-style. `make_error(Code::kShape, "port %s: %zu bytes, wanted %zu", ...)`.
__attribute__((format(printf, 2, 3))) Error make_error(Code code, const char* format, ...);

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}
  Result(const Error& error) : error_(error) {}

  explicit operator bool() const { return value_.has_value(); }
  T& value() { return *value_; }
  const T& value() const { return *value_; }
  const Error& error() const { return error_; }
  Code code() const { return value_ ? Code::kOk : error_.code; }

 private:
  std::optional<T> value_;
  Error error_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(const Error& error) : error_(error) {}

  explicit operator bool() const { return error_.code == Code::kOk; }
  const Error& error() const { return error_; }
  Code code() const { return error_.code; }

 private:
  Error error_;
};

}  // namespace outrider

// Hands the cause on untouched: `OUTRIDER_TRY(check_header(file));`
#define OUTRIDER_TRY(expr)                            \
  do {                                                \
    if (auto try_result = (expr); !try_result) {      \
      return try_result.error();                      \
    }                                                 \
  } while (0)
