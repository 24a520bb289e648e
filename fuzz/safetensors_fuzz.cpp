// Any bytes: either a one-line refusal, or a file whose tensors lie inside the input, one after the
// other.
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/assert.h"
#include "safetensors/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto parsed = outrider::SafeTensorsFile::parse(bytes, "fuzz");
  if (!parsed) {
    OUTRIDER_ASSERT(parsed.error().code != outrider::Code::kOk);
    return 0;
  }
  size_t total = 0;
  for (const auto& tensor : parsed.value().tensors()) {
    OUTRIDER_ASSERT(tensor.data >= bytes.data() && tensor.n_bytes <= bytes.size() &&
                    size_t(tensor.data - bytes.data()) <= bytes.size() - tensor.n_bytes);
    OUTRIDER_ASSERT(tensor.n_bytes == outrider::row_bytes(tensor.dtype, tensor.n_values()));
    OUTRIDER_ASSERT(parsed.value().tensor(tensor.name) == &tensor);
    total += tensor.n_bytes;
  }
  OUTRIDER_ASSERT(total <= bytes.size());
  return 0;
}
