#include "cli/idle.h"

namespace outrider::cli {

Result<void> refuse_idle(const Args& args, std::initializer_list<const char*> flags,
                         const char* why) {
  for (const char* flag : flags)
    if (args.given(flag))
      return make_error(Code::kInvalid, "%s has no effect here: %s; leave it out", flag, why);
  return {};
}

}  // namespace outrider::cli
