#include "base/sha256.h"

#include <openssl/evp.h>

#include <memory>

namespace outrider {
namespace {

struct FreeContext {
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};

std::string to_hex(const unsigned char* bytes, size_t n_bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string hex(2 * n_bytes, '0');
  for (size_t i = 0; i < n_bytes; ++i) {
    hex[2 * i] = kDigits[bytes[i] >> 4];
    hex[2 * i + 1] = kDigits[bytes[i] & 15];
  }
  return hex;
}

}  // namespace

Result<std::string> sha256_hex(std::span<const std::byte> bytes) {
  const std::unique_ptr<EVP_MD_CTX, FreeContext> context(EVP_MD_CTX_new());
  if (!context) return make_error(Code::kNoMemory, "sha256: no memory for a digest context");
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int digest_bytes = 0;
  if (EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr) != 1 ||
      EVP_DigestUpdate(context.get(), bytes.data(), bytes.size()) != 1 ||
      EVP_DigestFinal_ex(context.get(), digest, &digest_bytes) != 1 || digest_bytes != 32) {
    return make_error(Code::kFailed, "sha256: libcrypto refused to digest %zu bytes", bytes.size());
  }
  return to_hex(digest, digest_bytes);
}

}  // namespace outrider
