// How a program's output reaches the link: from where it is, or copied out first. Chosen once, when
// the program is loaded and before it is linked; never looked at again.
#pragma once
#include <functional>
#include <string>

#include "tandem/memory/program.h"

namespace outrider::memory {

enum class SendRoute : uint8_t { kDirect, kStaged };
const char* route_name(SendRoute route);  // "direct", "staged"

// What was chosen and why: one line of the log, two fields of a status record.
struct Route {
  SendRoute route = SendRoute::kStaged;
  Domain domain = Domain::kHostCached;  // of the program's output
  size_t bytes = 0;                     // of a frame
  uint32_t granted = 0;
  char reason[160] = {};

  // "warp output: route staged, host_write_combined, 393216 bytes, granted write_back, ...".
  std::string line() const;
};

// Moves the output of a program that is not linked yet into memory the link can send from. Fails
// without having changed anything.
using Mover = std::function<Result<void>(Program&)>;

// [setup] The mover of this library: asks `device` for coherent, cached memory and takes it only if
// all of that was granted; else what was given is freed and the old output stays.
// Errors: the device's, kDevice: which attributes were refused, kInvalid: the program is linked.
Result<void> make_sendable(Program& program, MemoryDevice& device);

// [setup] The route of a program whose output stays where it is now. `why_not` says why it was not
// moved ("" when it was).
Route route_of(const Program& program, const std::string& why_not);

}  // namespace outrider::memory
