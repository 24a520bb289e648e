// Memory that a hot function may write: taken once, zeroed (so that no page fault is left for a
// tick), 64-byte aligned.
#pragma once
#include <sys/mman.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "base/result.h"

namespace outrider {

class Scratch {
 public:
  // [setup] At least n_bytes; keeps what it has when that is enough. Errors: kNoMemory.
  Result<void> reserve(size_t n_bytes) {
    if (n_bytes <= bytes_) return {};
    // Whole huge pages where they pay: a hint, without which only speed differs.
    const size_t page = n_bytes >= kHugePage / 2 ? kHugePage : 4096;
    const size_t rounded = (n_bytes + page - 1) / page * page;
    auto* data = static_cast<std::byte*>(std::aligned_alloc(page, rounded));
    if (data == nullptr)
      return make_error(Code::kNoMemory, "kernels: no memory for %zu bytes of scratch", rounded);
    if (page == kHugePage) madvise(data, rounded, MADV_HUGEPAGE);
    std::memset(data, 0, rounded);
    data_.reset(data);
    bytes_ = rounded;
    return {};
  }
  std::byte* data() const { return data_.get(); }
  size_t bytes() const { return bytes_; }

 private:
  static constexpr size_t kHugePage = 2 << 20;
  struct Free {
    void operator()(std::byte* data) const { std::free(data); }
  };
  std::unique_ptr<std::byte, Free> data_;
  size_t bytes_ = 0;
};

}  // namespace outrider
