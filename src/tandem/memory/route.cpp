#include "tandem/memory/route.h"

#include <cstdio>

namespace outrider::memory {
namespace {

const char* granted_words(uint32_t granted) {
  switch (granted & attribute::kSendable) {
    case attribute::kSendable:
      return "io_coherent+write_back";
    case attribute::kIoCoherent:
      return "io_coherent";
    case attribute::kWriteBack:
      return "write_back";
    default:
      return "none";
  }
}

}  // namespace

const char* route_name(SendRoute route) {
  return route == SendRoute::kDirect ? "direct" : "staged";
}

std::string Route::line() const {
  return std::string("warp output: route ") + route_name(route) + ", " + domain_name(domain) +
         ", " + std::to_string(bytes) + " bytes, granted " + granted_words(granted) + ", " + reason;
}

Result<void> make_sendable(Program& program, MemoryDevice& device) {
  if (program.state() != Program::State::kUnlinked)
    return make_error(Code::kInvalid, "the program is linked already; move its output before");
  auto given = device.allocate(program.output_bytes(), attribute::kSendable);
  if (!given) return given.error();
  const FrameBuffer& buffer = *given.value();
  if (!buffer.sendable())
    return make_error(Code::kDevice, "%s granted %s (%s), wanted io_coherent+write_back",
                      device.name(), granted_words(buffer.granted()), domain_name(buffer.domain()));
  return program.bind_output(std::move(given.value()));
}

Route route_of(const Program& program, const std::string& why_not) {
  const FrameBuffer& output = *program.output();
  Route route;
  route.route = output.sendable() ? SendRoute::kDirect : SendRoute::kStaged;
  route.domain = output.domain();
  route.bytes = program.output_bytes();
  route.granted = output.granted();
  const char* reason = !why_not.empty()    ? why_not.c_str()
                       : output.sendable() ? "sent from where it is"
                                           : "not cached and coherent";
  std::snprintf(route.reason, sizeof route.reason, "%s", reason);
  return route;
}

}  // namespace outrider::memory
