#include "tandem/memory/doubles.h"

#include <sys/mman.h>

namespace outrider::memory::test {

Result<uint64_t> PinningImporter::import(const ImportKey& key) {
  imported.push_back(key);
  if (refuse) return make_error(Code::kDevice, "importer: refused");
  Pin pin{{static_cast<const std::byte*>(key.address), key.bytes}, false};
  if (const int fd = fd_of ? fd_of(key.address) : -1; fd >= 0) {
    void* at = mmap(nullptr, key.bytes, PROT_READ, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED) return make_error(Code::kDevice, "importer: mmap");
    pin = {{static_cast<const std::byte*>(at), key.bytes}, true};
  }
  pins_[next_] = pin;
  return next_++;
}

void PinningImporter::drop(uint64_t handle) noexcept {
  const Pin& pin = pins_.at(handle);
  if (pin.mapped) munmap(const_cast<std::byte*>(pin.bytes.data()), pin.bytes.size());
  pins_.erase(handle);
}

}  // namespace outrider::memory::test
