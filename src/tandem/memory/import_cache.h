// A device's imports of foreign memory (camera buffers), by address. The pools of a camera are
// fixed, so the cache fills once and every later frame finds its import.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"

namespace outrider::memory {

// The address alone is no name: a buffer that was freed may be followed by another at its place.
struct ImportKey {
  uint32_t stream = 0;  // which camera
  const void* address = nullptr;
  size_t bytes = 0;
  uint64_t generation = 0;  // of the allocation
};

class Importer {
 public:
  virtual ~Importer() = default;
  // A handle, never 0. Errors: kDevice.
  virtual Result<uint64_t> import(const ImportKey& key) = 0;
  virtual void drop(uint64_t handle) noexcept = 0;
};

class ImportCache {
 public:
  static constexpr size_t kMostEntries = 256;

  // [setup] Takes room for `capacity` entries (1 to kMostEntries). The importer outlives the cache.
  explicit ImportCache(Importer& importer, size_t capacity = kMostEntries);
  ~ImportCache() { clear(); }
  ImportCache(const ImportCache&) = delete;
  ImportCache& operator=(const ImportCache&) = delete;

  // [hot] when it is known. An entry of the same stream and address with another size or generation
  // is dropped first; a full cache drops the one that was used longest ago. 0: the device refused.
  uint64_t get(const ImportKey& key) noexcept;
  // Entries whose memory overlaps [address, address + bytes). How many went.
  size_t forget(const void* address, size_t bytes) noexcept;
  void clear() noexcept;

  size_t size() const { return entries_.size(); }
  int64_t n_imports() const { return n_imports_; }
  int64_t n_evictions() const { return n_evictions_; }

 private:
  struct Entry {
    ImportKey key;
    uint64_t handle = 0, used = 0;
  };
  void remove(size_t at) noexcept;

  Importer& importer_;
  size_t capacity_;
  std::vector<Entry> entries_;
  uint64_t uses_ = 0;
  int64_t n_imports_ = 0, n_evictions_ = 0;
};

}  // namespace outrider::memory
