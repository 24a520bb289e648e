// What the store reads back from its folder: info.json and journal slots. What is accepted must
// survive being written and read again.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "link/store/info.h"
#include "link/store/journal.h"

using namespace outrider::store;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto info = read_info(text); info) {
    const auto again = read_info(info_text(info.value()));
    if (!again || info_text(again.value()) != info_text(info.value())) std::abort();
  }
  const std::string sha256(64, 'a');
  const uint64_t index = size > kSlotBytes ? data[kSlotBytes] : 0;
  const JournalKey key{sha256, 1'000'000, 4096};
  const auto bytes = std::as_bytes(std::span(data, size));
  if (size < kSlotBytes) {
    if (decode_slot(key, index, bytes)) std::abort();
    return 0;
  }
  const auto slot = bytes.first(kSlotBytes);
  if (const auto chunk = decode_slot(key, index, slot); chunk) {
    const auto again = encode_slot(key, index, *chunk);
    if (!std::equal(again.begin(), again.end(), slot.begin())) std::abort();
  }
  return 0;
}
