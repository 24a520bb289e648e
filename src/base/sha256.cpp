#include "base/sha256.h"

#include <openssl/evp.h>

namespace outrider {
namespace {

struct FreeContext {
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};
using ContextPtr = std::unique_ptr<EVP_MD_CTX, FreeContext>;

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

struct Sha256::Context {
  ContextPtr evp{EVP_MD_CTX_new()};
  bool good = evp && EVP_DigestInit_ex(evp.get(), EVP_sha256(), nullptr) == 1;
};

Sha256::Sha256() : context_(std::make_unique<Context>()) {}
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;
Sha256::~Sha256() = default;

void Sha256::add(std::span<const std::byte> bytes) noexcept {
  Context& context = *context_;
  context.good =
      context.good && EVP_DigestUpdate(context.evp.get(), bytes.data(), bytes.size()) == 1;
}

Result<std::string> Sha256::hex() const {
  const ContextPtr copy(EVP_MD_CTX_new());
  if (!context_->evp || !copy)
    return make_error(Code::kNoMemory, "sha256: no memory for a digest context");
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int digest_bytes = 0;
  if (!context_->good || EVP_MD_CTX_copy_ex(copy.get(), context_->evp.get()) != 1 ||
      EVP_DigestFinal_ex(copy.get(), digest, &digest_bytes) != 1 || digest_bytes != 32) {
    return make_error(Code::kFailed, "sha256: libcrypto refused to make a digest");
  }
  return to_hex(digest, digest_bytes);
}

Result<std::string> sha256_hex(std::span<const std::byte> bytes) {
  Sha256 digest;
  digest.add(bytes);
  return digest.hex();
}

}  // namespace outrider
