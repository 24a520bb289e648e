// Any bytes: either a one-line refusal, or a file whose every view lies inside the input and whose
// every look-up ends in a value or a refusal.
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/assert.h"
#include "gguf/gguf.h"

namespace {

void require_inside(std::span<const std::byte> whole, std::span<const std::byte> part) {
  if (part.empty()) return;
  OUTRIDER_ASSERT(part.data() >= whole.data() && part.size() <= whole.size() &&
                  size_t(part.data() - whole.data()) <= whole.size() - part.size());
}

void look_up(const outrider::GgufFile& file, std::string_view key) {
  (void)file.string(key);
  (void)file.unsigned_integer(key);
  (void)file.real(key);
  (void)file.boolean(key);
  (void)file.numbers(key);
  const auto texts = file.strings(key);
  if (!texts) return;
  uint64_t sum = 0;  // reads every byte, for the sanitizer
  for (const std::string_view text : texts.value())
    for (const char c : text) sum += uint8_t(c);
  OUTRIDER_ASSERT(sum != UINT64_MAX);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto parsed = outrider::GgufFile::parse(bytes, "fuzz");
  if (!parsed) {
    OUTRIDER_ASSERT(parsed.error().code != outrider::Code::kOk);
    for (const char c : parsed.error().message()) OUTRIDER_ASSERT(c >= 0x20 && c < 0x7F);
    return 0;
  }
  for (const auto& [key, value] : parsed.value().metadata()) {
    require_inside(bytes, value.payload);
    OUTRIDER_ASSERT(parsed.value().value(key) != nullptr);
    look_up(parsed.value(), key);
  }
  for (const auto& tensor : parsed.value().tensors()) {
    require_inside(bytes, {tensor.data, tensor.n_bytes});
    OUTRIDER_ASSERT(tensor.n_bytes == outrider::row_bytes(tensor.dtype, tensor.n_values()));
    OUTRIDER_ASSERT(parsed.value().tensor(tensor.name) == &tensor);
  }
  return 0;
}
