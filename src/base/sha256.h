// SHA-256 through OpenSSL's libcrypto.
#pragma once
#include <cstddef>
#include <span>
#include <string>

#include "base/result.h"

namespace outrider {

// 64 lower-case hexadecimal digits. Errors: kNoMemory, kFailed (library refused).
Result<std::string> sha256_hex(std::span<const std::byte> bytes);

}  // namespace outrider
