// Any bytes: either a one-line refusal, or a tokenizer that encodes and decodes.
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/assert.h"
#include "text/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto made =
      outrider::SpmTokenizer::from_sentencepiece(std::as_bytes(std::span(data, size)), "fuzz");
  if (!made) {
    OUTRIDER_ASSERT(made.error().code != outrider::Code::kOk && made.error().text[0] != 0);
    return 0;
  }
  const auto ids = made.value().encode("pick up the red cup\n 0 255", {.parse_special = false});
  if (!ids) return 0;
  for (const int32_t id : ids.value()) OUTRIDER_ASSERT(id >= 0 && id < made.value().n_pieces());
  (void)made.value().decode(ids.value());
  return 0;
}
