// SHA-256 through OpenSSL's libcrypto.
#pragma once
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace outrider {

// Whether it is written as one: 64 lower-case hexadecimal digits.
inline bool is_sha256(std::string_view text) noexcept {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

// 64 lower-case hexadecimal digits. Errors: kNoMemory, kFailed (library refused).
Result<std::string> sha256_hex(std::span<const std::byte> bytes);

// The same for bytes that come in pieces. A failure is kept and told by hex().
class Sha256 {
 public:
  Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;
  ~Sha256();

  void add(std::span<const std::byte> bytes) noexcept;
  // Of all bytes added so far; more may follow. Errors: those of sha256_hex.
  Result<std::string> hex() const;

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

}  // namespace outrider
