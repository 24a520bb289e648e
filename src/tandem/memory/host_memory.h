// The memory device that every Linux machine has: anonymous files (memfd), shareable by descriptor.
#pragma once
#include <atomic>

#include "tandem/memory/buffer.h"

namespace outrider::memory {

// Grants what is asked: this processor writes the buffers itself, so they are coherent and cached.
// Whole pages, zeroed, touched, sealed against shrinking (a peer that holds the descriptor cannot
// cut them short under us).
class HostMemory final : public MemoryDevice {
 public:
  const char* name() const override { return "memfd"; }
  Result<BufferRef> allocate(size_t bytes, uint32_t wanted) override;
  Code copy_out(const FrameBuffer& from, std::span<std::byte> to) noexcept override;

 private:
  void release(const BufferFacts& facts) noexcept override;
  std::atomic<uint64_t> generation_{0};
};

// [hot] Copies out of memory that is read past the caches: whole lines by non-temporal loads where
// the processor has them, plain loads elsewhere. Any addresses and sizes; must not overlap.
void copy_from_write_combined(std::byte* to, const std::byte* from, size_t bytes) noexcept;

}  // namespace outrider::memory
