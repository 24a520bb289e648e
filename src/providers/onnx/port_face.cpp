#include "providers/onnx/port_face.h"

#include <cstdarg>
#include <cstdio>

#include "providers/onnx/values.h"

namespace outrider {

Code PortFace::fail(Code code, const char* format, ...) noexcept {
  va_list args;
  va_start(args, format);
  std::vsnprintf(error_, sizeof error_, format, args);
  va_end(args);
  return code;
}

Code PortFace::succeed() noexcept {
  error_[0] = 0;
  return Code::kOk;
}

Code PortFace::prepare_graph() noexcept {
  return fail(Code::kUnsupported, "prepare: there are no graph variants");
}

Code PortFace::check_input(const PortFacts* port, uint32_t index, size_t n_ports, const void* data,
                           uint64_t bytes) noexcept {
  if (port == nullptr)
    return fail(Code::kInvalid, "set_input: port %u does not exist; there are %zu", index, n_ports);
  if (!port->is_input)
    return fail(Code::kInvalid, "set_input: port %u (%s) is an output", index, port->name.c_str());
  if (data == nullptr || bytes != port->n_bytes)
    return fail(Code::kInvalid, "%s: %llu bytes%s, wanted %zu", port->name.c_str(),
                static_cast<unsigned long long>(bytes), data == nullptr ? " at NULL" : "",
                port->n_bytes);
  return check_values(*port, static_cast<const std::byte*>(data));
}

Code PortFace::check_values(const PortFacts& port, const std::byte* data) noexcept {
  size_t at = 0;
  double found = 0;
  if (is_real(port.dtype) && !all_finite(port.dtype, data, port.n_bytes, at, found))
    return fail(Code::kInvalid, "%s: value %zu is %g, allowed are finite numbers",
                port.name.c_str(), at, found);
  if (port.dtype == DType::kBool)
    for (at = 0; at < port.n_bytes; ++at)
      if (static_cast<uint8_t>(data[at]) > 1)
        return fail(Code::kInvalid, "%s: value %zu is %d, allowed are 0 and 1", port.name.c_str(),
                    at, static_cast<int>(data[at]));
  return Code::kOk;
}

Code PortFace::check_output(const PortFacts* port, uint32_t index, size_t n_ports, void* out,
                            uint64_t capacity, uint64_t* written) noexcept {
  if (written == nullptr) return fail(Code::kInvalid, "get_output: written is NULL");
  *written = 0;
  if (port == nullptr)
    return fail(Code::kInvalid, "get_output: port %u does not exist; there are %zu", index,
                n_ports);
  if (port->is_input)
    return fail(Code::kInvalid, "get_output: port %u (%s) is an input", index, port->name.c_str());
  *written = port->n_bytes;
  if (out == nullptr || capacity < port->n_bytes)
    return fail(Code::kNoMemory, "%s: %zu bytes are needed, room for %llu", port->name.c_str(),
                port->n_bytes, static_cast<unsigned long long>(out == nullptr ? 0 : capacity));
  if (outputs_ready_) return Code::kOk;
  *written = 0;
  return fail(Code::kNotReady, "%s: run infer first", port->name.c_str());
}

}  // namespace outrider
