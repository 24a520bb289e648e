// A log that counts, a folder that goes, an adapter written in C.
#pragma once
#include <string>
#include <vector>

#include "base/log.h"
#include "outrider/adapter.h"
#include "support/log_lines.h"
#include "support/temp_dir.h"

extern "C" void c11_adapter(outrider_adapter_v1* out);

namespace outrider::adapter::test {

using outrider::test::LogLines;

using Folder = outrider::test::TempDir;

inline outrider_adapter_v1 empty_adapter() {
  outrider_adapter_v1 adapter;
  outrider_adapter_init(&adapter);
  return adapter;
}

inline outrider_engagement_v1 idle_car() {
  outrider_engagement_v1 now{};
  now.struct_size = sizeof now;
  now.fresh = OUTRIDER_YES;
  return now;
}

}  // namespace outrider::adapter::test
