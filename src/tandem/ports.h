// The ports of a tandem: those of the standby, checked against the lead's, with room for payloads.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "outrider/frt_v1.h"

namespace outrider::tandem {

struct PortRoom {
  uint64_t max_input_bytes = 64 << 10;  // inputs whose shape leaves their size open
  uint64_t max_image_bytes = 4 << 20;   // pixels of image ports whose shape leaves their size open
  uint64_t max_output_bytes = 1 << 20;  // outputs likewise
};

struct Port {
  std::string name;
  uint32_t index = 0;  // in the standby, and in the tandem
  uint32_t dtype = 0;
  bool image = false;  // the payload is an array of frt_image_view
  bool required = false;
  bool fixed = false;    // `bytes` is exact, not a limit
  uint64_t bytes = 0;    // payload; pixels for images
  uint64_t n_views = 0;  // images
};

struct Ports {
  std::vector<Port> in, out;
};

// [setup] Inputs and outputs of a runtime. Errors: kUnsupported (a SWAP port), kShape (a size that
// overflows or is above 1 GiB).
Result<Ports> plan_ports(const frt_model_runtime_v1& standby, const PortRoom& room);

// [setup] Every difference between the two runtimes' ports by name, one line, parted by "; ": empty
// when they agree. Order does not matter. A dimension of -1 agrees with -1 only.
std::string port_differences(const frt_model_runtime_v1& standby, const frt_model_runtime_v1& lead);

// [setup] For each of `ports`, the index of the port of that name and direction in `lead`.
// What port_differences found empty never fails.
std::vector<uint32_t> lead_indices(const std::vector<Port>& ports, uint32_t direction,
                                   const frt_model_runtime_v1& lead);

uint64_t element_bytes(uint32_t dtype);  // 0 for an unknown one

}  // namespace outrider::tandem
