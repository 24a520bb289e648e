#include "link/store/journal.h"

#include <algorithm>

#include "base/assert.h"
#include "base/fnv.h"

namespace outrider::store {
namespace {

constexpr size_t kDigestAt = 8, kDigestBytes = 32, kSumAt = 40, kZeroAt = 48;
static_assert(512 % kSlotBytes == 0, "a slot lies inside one sector");

void put_u64(std::byte* at, uint64_t value) {
  for (int i = 0; i < 8; ++i) at[i] = static_cast<std::byte>(value >> (8 * i));
}

uint64_t get_u64(const std::byte* at) {
  uint64_t value = 0;
  for (int i = 0; i < 8; ++i) value |= static_cast<uint64_t>(at[i]) << (8 * i);
  return value;
}

unsigned nibble(char digit) {
  return static_cast<unsigned>(digit <= '9' ? digit - '0' : digit - 'a' + 10);
}

uint64_t sum_of(const JournalKey& key, uint64_t chunk_index, const std::byte* slot) {
  std::byte numbers[24];
  put_u64(numbers, chunk_index);
  put_u64(numbers + 8, key.n_bytes);
  put_u64(numbers + 16, key.chunk_bytes);
  uint64_t sum = fnv1a64(key.sha256);
  sum = fnv1a64({reinterpret_cast<const char*>(numbers), sizeof numbers}, sum);
  return fnv1a64({reinterpret_cast<const char*>(slot), kSumAt}, sum);
}

}  // namespace

std::array<std::byte, kSlotBytes> encode_slot(const JournalKey& key, uint64_t chunk_index,
                                              const ChunkDigest& chunk) {
  OUTRIDER_ASSERT(chunk.sha256.size() == 2 * kDigestBytes);
  std::array<std::byte, kSlotBytes> slot{};
  put_u64(slot.data(), chunk.end);
  for (size_t i = 0; i < kDigestBytes; ++i)
    slot[kDigestAt + i] =
        static_cast<std::byte>(nibble(chunk.sha256[2 * i]) << 4 | nibble(chunk.sha256[2 * i + 1]));
  put_u64(slot.data() + kSumAt, sum_of(key, chunk_index, slot.data()));
  return slot;
}

std::optional<ChunkDigest> decode_slot(const JournalKey& key, uint64_t chunk_index,
                                       std::span<const std::byte> slot) {
  if (slot.size() != kSlotBytes || chunk_index > key.n_bytes / key.chunk_bytes) return {};
  if (get_u64(slot.data() + kSumAt) != sum_of(key, chunk_index, slot.data())) return {};
  const auto zeros = slot.subspan(kZeroAt);
  if (std::any_of(zeros.begin(), zeros.end(), [](std::byte b) { return b != std::byte{0}; }))
    return {};
  const uint64_t start = chunk_index * key.chunk_bytes;
  ChunkDigest chunk{get_u64(slot.data()), std::string(2 * kDigestBytes, '0')};
  if (chunk.end <= start || chunk.end > key.n_bytes || chunk.end - start > key.chunk_bytes)
    return {};
  constexpr char kDigits[] = "0123456789abcdef";
  for (size_t i = 0; i < kDigestBytes; ++i) {
    const auto byte = static_cast<unsigned>(slot[kDigestAt + i]);
    chunk.sha256[2 * i] = kDigits[byte >> 4];
    chunk.sha256[2 * i + 1] = kDigits[byte & 15];
  }
  return chunk;
}

}  // namespace outrider::store
