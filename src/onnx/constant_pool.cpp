#include "onnx/constant_pool.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

namespace outrider::onnx {
namespace {

constexpr size_t kAlign = 64, kHugePage = size_t{2} << 20;
constexpr size_t kWorthAHugePage = kHugePage / 8;  // less than this wastes most of one
constexpr size_t kSmallChunk = size_t{64} << 10, kLargeChunk = size_t{64} << 20;

size_t rounded(size_t n_bytes, size_t unit) {
  return (n_bytes + unit - 1) / unit * unit;
}

}  // namespace

ConstantPool::Block ConstantPool::take(size_t n_bytes) {
  const size_t wanted = rounded(n_bytes + 1, kAlign);
  if (wanted > size_ - used_) {
    const bool huge = std::max(expected_bytes_, wanted) >= kWorthAHugePage;
    const size_t unit = huge ? kHugePage : kAlign;
    const size_t chunk = huge ? std::min(expected_bytes_, kLargeChunk) : kSmallChunk;
    const size_t size = rounded(std::max(wanted, chunk), unit);
    auto* data = static_cast<std::byte*>(std::aligned_alloc(unit, size));
    if (data == nullptr) throw std::bad_alloc();
    // A wish: without huge pages only speed differs.
    if (huge) (void)madvise(data, size, MADV_HUGEPAGE);
    std::memset(data, 0, size);
    chunk_ = std::shared_ptr<std::byte>(data, std::free);
    used_ = 0;
    size_ = size;
    expected_bytes_ -= std::min(expected_bytes_, size);
  }
  Block block{chunk_.get() + used_, chunk_};
  used_ += wanted;
  return block;
}

}  // namespace outrider::onnx
