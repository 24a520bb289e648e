// Memory of a plan's constants: packed weights, biases, tables. They lie beside each other in huge
// pages where they are enough of them: a tick that reads them all stays within one or two pages,
// and such a page is one stretch of the cache, which scattered small pages are not. Constants that
// fill most of the second-level cache then stay in it, tick after tick.
#pragma once
#include <cstddef>
#include <memory>

namespace outrider::onnx {

class ConstantPool {
 public:
  // [setup] `expected_bytes`: about what will be taken; decides the size of blocks, not a limit.
  explicit ConstantPool(size_t expected_bytes) : expected_bytes_(expected_bytes) {}

  struct Block {
    std::byte* data = nullptr;    // 64-byte aligned, zero
    std::shared_ptr<void> owner;  // frees it with the last block beside it
  };
  // [setup] Throws bad_alloc.
  Block take(size_t n_bytes);

 private:
  size_t expected_bytes_;
  std::shared_ptr<std::byte> chunk_;
  size_t used_ = 0, size_ = 0;
};

}  // namespace outrider::onnx
