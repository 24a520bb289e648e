// Every maximum and every time of the store, with its default.
#pragma once
#include <cstddef>
#include <cstdint>

namespace outrider::store {

struct Limits {
  uint64_t max_file_bytes = uint64_t{256} << 30;  // of one file
  uint64_t reserve_bytes = uint64_t{256} << 20;   // what an upload leaves free on the disk
  uint32_t max_entries = 1024;                    // files, published and partial
  uint32_t keep_models = 0;  // after each publication the last so many models stay; 0: all
  int64_t stale_ns = int64_t{24} * 3600 * 1'000'000'000;  // partials untouched for longer go
  int64_t lock_wait_ns = int64_t{5} * 1'000'000'000;      // for another process's operation
  uint64_t chunk_bytes = uint64_t{4} << 20;  // one digest each; another size begins partials anew
  uint64_t sync_bytes = uint64_t{16} << 20;  // an upload is made safe after so many (and a chunk)
};

inline constexpr size_t kMaxWriteBytes = size_t{16} << 20;  // of one write()
inline constexpr size_t kMaxNameBytes = 200;
inline constexpr size_t kMaxCompanions = 8;

}  // namespace outrider::store
