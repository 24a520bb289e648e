// Where the bytes of a frame live, and whether a link can send them from there.
//
// A camera warp is written by a device. Memory of a device is not simply memory: written-combined
// mappings read seven times slower than they are worth sending, cached ones without coherency give
// the frame before. So a buffer carries what was GRANTED, never what was asked for, and everything
// here decides by that. driving.md e.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/result.h"

namespace outrider::memory {

enum class Domain : uint8_t {
  kHostCached,         // ordinary memory, written by this processor
  kHostCoherent,       // written by a device, read through the caches, writes are seen at once
  kHostWriteCombined,  // read past the caches: slow, and only by copy_out
  kDeviceOnly,         // not mapped here: only copy_out reads it
};
// "host_cached", "host_coherent_device", "host_write_combined", "device_only".
const char* domain_name(Domain domain);

// What may be asked of a device, and what it grants.
namespace attribute {
inline constexpr uint32_t kIoCoherent = 1u << 0;  // its writes snoop the processor's caches
inline constexpr uint32_t kWriteBack = 1u << 1;   // the processor reads through its caches
inline constexpr uint32_t kSendable = kIoCoherent | kWriteBack;
}  // namespace attribute

class MemoryDevice;

struct BufferFacts {
  std::byte* data = nullptr;  // as mapped here; nullptr when kDeviceOnly
  size_t bytes = 0;
  Domain domain = Domain::kHostCached;
  uint32_t granted = 0;  // attributes, as read back from the device
  uint64_t generation =
      0;        // another one for every allocation of a device, also at the same address
  int fd = -1;  // a descriptor that stands for the memory, the buffer's; -1: none
};

// Memory with an owner. Freed exactly once, when the last reference goes; whoever holds an address
// of it must hold a reference too.
class FrameBuffer {
 public:
  FrameBuffer(const BufferFacts& facts, MemoryDevice& device) : facts_(facts), device_(device) {}
  FrameBuffer(const FrameBuffer&) = delete;
  FrameBuffer& operator=(const FrameBuffer&) = delete;
  ~FrameBuffer();

  std::byte* data() const { return facts_.data; }
  size_t bytes() const { return facts_.bytes; }
  Domain domain() const { return facts_.domain; }
  uint32_t granted() const { return facts_.granted; }
  uint64_t generation() const { return facts_.generation; }
  int fd() const { return facts_.fd; }
  MemoryDevice& device() const { return device_; }

  // The kernel may copy out of it while it sends: mapped, cached and coherent, all of them granted.
  bool sendable() const {
    return facts_.data != nullptr &&
           (facts_.granted & attribute::kSendable) == attribute::kSendable &&
           facts_.domain != Domain::kHostWriteCombined && facts_.domain != Domain::kDeviceOnly;
  }

 private:
  BufferFacts facts_;
  MemoryDevice& device_;
};
using BufferRef = std::shared_ptr<FrameBuffer>;

// Who gives memory. Outlives its buffers.
class MemoryDevice {
 public:
  virtual ~MemoryDevice() = default;
  virtual const char* name() const = 0;

  // [setup] At least `bytes` (more than 0), from a 64-byte boundary on. `wanted` is a wish; what
  // was granted stands in the buffer, and its domain follows from that. Errors: kNoMemory, kDevice.
  virtual Result<BufferRef> allocate(size_t bytes, uint32_t wanted) = 0;
  // [hot] The first to.size() bytes (not more than the buffer has), the newest ones, read in the
  // way that suits this memory. The device has finished writing. kDevice: nothing was copied.
  virtual Code copy_out(const FrameBuffer& from, std::span<std::byte> to) noexcept = 0;

 protected:
  friend class FrameBuffer;
  virtual void release(const BufferFacts& facts) noexcept = 0;
};

}  // namespace outrider::memory
