// The fixed port tables and plans of the three provider faces.
#pragma once
#include "host/conform_bench.h"

namespace outrider::host::conformance {

struct FacePort {
  const char* name;
  uint32_t modality, dtype, layout, direction, required;
  std::vector<int64_t> shape;
};

struct FaceStage {
  const char* name;
  uint32_t usual_ref;  // what FlashRT publishes; a host must not rely on it
  std::vector<uint32_t> after;
};

// The main instance's ports are exactly these; all STAGED.
void expect_ports(Bench& b, Verdict& v, const std::vector<FacePort>& want);
// Its plan is exactly this one.
void expect_stages(Bench& b, Verdict& v, const std::vector<FaceStage>& want);

}  // namespace outrider::host::conformance
