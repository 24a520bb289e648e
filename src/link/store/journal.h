// The digests of an upload's chunks, so that a resume trusts no byte that it has not compared.
//
// File `journal`: slot i of 64 bytes belongs to chunk i (chunk_bytes of data each, the last one
// shorter) and tells the digest of its first bytes up to `end`. A slot lies inside one disk sector;
// a torn or foreign one does not pass its checksum and reads as "nothing is known".
//   0 u64 end: offset in the data behind the last digested byte   8 32 bytes SHA-256
//   40 u64 FNV-1a of the key, the slot number and bytes 0..39   48 16 bytes zero
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "link/store/limits.h"

namespace outrider::store {

inline constexpr size_t kSlotBytes = 64;

struct ChunkDigest {
  uint64_t end = 0;
  std::string sha256;  // 64 hex digits
};

// Whose slot it is: one written for another file, size or chunk size is not believed.
struct JournalKey {
  std::string_view sha256;
  uint64_t n_bytes = 0, chunk_bytes = 1;
};

std::array<std::byte, kSlotBytes> encode_slot(const JournalKey& key, uint64_t chunk_index,
                                              const ChunkDigest& chunk);
// nullopt: not written by encode_slot for this key and index, or an end outside the chunk.
std::optional<ChunkDigest> decode_slot(const JournalKey& key, uint64_t chunk_index,
                                       std::span<const std::byte> slot);

}  // namespace outrider::store
