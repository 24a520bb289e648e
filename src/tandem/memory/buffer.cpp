#include "tandem/memory/buffer.h"

namespace outrider::memory {

const char* domain_name(Domain domain) {
  switch (domain) {
    case Domain::kHostCached:
      return "host_cached";
    case Domain::kHostCoherent:
      return "host_coherent_device";
    case Domain::kHostWriteCombined:
      return "host_write_combined";
    case Domain::kDeviceOnly:
      return "device_only";
  }
  return "unknown";
}

FrameBuffer::~FrameBuffer() {
  device_.release(facts_);
}

}  // namespace outrider::memory
