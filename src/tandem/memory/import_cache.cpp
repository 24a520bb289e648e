#include "tandem/memory/import_cache.h"

#include <algorithm>
#include <functional>

namespace outrider::memory {

ImportCache::ImportCache(Importer& importer, size_t capacity)
    : importer_(importer), capacity_(std::clamp<size_t>(capacity, 1, kMostEntries)) {
  entries_.reserve(capacity_);
}

void ImportCache::remove(size_t at) noexcept {
  importer_.drop(entries_[at].handle);
  entries_[at] = entries_.back();
  entries_.pop_back();
}

uint64_t ImportCache::get(const ImportKey& key) noexcept {
  size_t oldest = 0;
  for (size_t i = 0; i < entries_.size(); ++i) {
    Entry& entry = entries_[i];
    if (entry.key.stream == key.stream && entry.key.address == key.address) {
      if (entry.key.bytes == key.bytes && entry.key.generation == key.generation) {
        entry.used = ++uses_;
        return entry.handle;
      }
      remove(i);  // another buffer at the same place
      oldest = 0;
      i = static_cast<size_t>(-1);
      continue;
    }
    if (entry.used < entries_[oldest].used) oldest = i;
  }
  if (entries_.size() == capacity_) {
    remove(oldest);
    ++n_evictions_;
  }
  try {
    const auto imported = importer_.import(key);
    if (!imported || imported.value() == 0) return 0;
    entries_.push_back({key, imported.value(), ++uses_});
    ++n_imports_;
    return imported.value();
  } catch (...) {
    return 0;
  }
}

size_t ImportCache::forget(const void* address, size_t bytes) noexcept {
  const std::less<const std::byte*> before;
  const auto* begin = static_cast<const std::byte*>(address);
  size_t n = 0;
  for (size_t i = 0; i < entries_.size();) {
    const auto* at = static_cast<const std::byte*>(entries_[i].key.address);
    if (before(at, begin + bytes) && before(begin, at + entries_[i].key.bytes))
      remove(i), ++n;
    else
      ++i;
  }
  return n;
}

void ImportCache::clear() noexcept {
  for (const Entry& entry : entries_) importer_.drop(entry.handle);
  entries_.clear();
}

}  // namespace outrider::memory
