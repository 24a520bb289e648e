#include "base/result.h"

#include <cstdio>

namespace outrider {

const char* code_name(Code code) {
  switch (code) {
    case Code::kOk: return "ok";
    case Code::kInvalid: return "invalid";
    case Code::kNotFound: return "not found";
    case Code::kUnsupported: return "unsupported";
    case Code::kShape: return "shape";
    case Code::kNoMemory: return "no memory";
    case Code::kDevice: return "device";
    case Code::kNotReady: return "not ready";
    case Code::kFailed: return "failed";
  }
  return "unknown";
}

Error make_error(Code code, const char* format, ...) {
  Error error;
  error.code = code;
  va_list args;
  va_start(args, format);
  std::vsnprintf(error.text, sizeof error.text, format, args);
  va_end(args);
  // One line, whatever a file that is spoken of has for names.
  for (char* c = error.text; *c != 0; ++c)
    if (static_cast<unsigned char>(*c) < 0x20 || *c == 0x7f) *c = '?';
  return error;
}

}  // namespace outrider
