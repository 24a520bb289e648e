// What both faces of a graph do with a port in the same way: a wrong number, direction, size or
// value is refused in the same words, and an output is given only when a run has made it.
//
// Nothing here allocates, locks, throws or prints.
#pragma once
#include <atomic>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "base/result.h"
#include "tensor/dtype.h"

namespace outrider {

struct PortFacts {
  std::string name;
  DType dtype = DType::kF32;
  bool is_input = false;
  size_t n_bytes = 0;
  bool staged = false;  // mutable
};

class PortFace {
 public:
  const char* last_error() const noexcept { return error_; }
  Code prepare_graph() noexcept;  // no graph variants: always kUnsupported

 protected:
  PortFace() = default;
  ~PortFace() = default;

  // [hot] Leaves the line of a failure.
  Code fail(Code code, const char* format, ...) noexcept __attribute__((format(printf, 3, 4)));
  Code succeed() noexcept;

  // [hot] The verb set_input: `keep(port)` takes data that has the port's size and, if real or a
  // truth value, values that a graph takes. `Info` is a PortFacts.
  template <class Info, class Keep>
  Code take_input(std::vector<Info>& ports, uint32_t index, const void* data, uint64_t bytes,
                  std::atomic<int64_t>& refused, Keep&& keep) noexcept {
    outputs_ready_ = false;
    Info* port = index < ports.size() ? &ports[index] : nullptr;
    const Code code = check_input(port, index, ports.size(), data, bytes);
    if (port != nullptr && port->is_input) port->staged = code == Code::kOk;
    if (code != Code::kOk) {
      refused.fetch_add(1, std::memory_order_relaxed);
      return code;
    }
    keep(*port);
    return succeed();
  }
  // [hot] The verb get_output: `source(port)` is where a ready output lies.
  template <class Info, class Source>
  Code give_output(const std::vector<Info>& ports, uint32_t index, void* out, uint64_t capacity,
                   uint64_t* written, Source&& source) noexcept {
    const Info* port = index < ports.size() ? &ports[index] : nullptr;
    const Code code = check_output(port, index, ports.size(), out, capacity, written);
    if (code != Code::kOk) return code;
    if (port->n_bytes > 0) std::memcpy(out, source(*port), port->n_bytes);
    return succeed();
  }
  // [hot] kInvalid with the first input that nobody set, or kOk.
  template <class Info>
  Code check_staged(const std::vector<Info>& ports) noexcept {
    for (const Info& port : ports)
      if (port.is_input && !port.staged)
        return fail(Code::kInvalid, "infer: port %s is not staged; set every input first",
                    port.name.c_str());
    return Code::kOk;
  }

  bool outputs_ready_ = false;

 private:
  // `port` nullptr: none has that number.
  Code check_input(const PortFacts* port, uint32_t index, size_t n_ports, const void* data,
                   uint64_t bytes) noexcept;
  Code check_output(const PortFacts* port, uint32_t index, size_t n_ports, void* out,
                    uint64_t capacity, uint64_t* written) noexcept;
  Code check_values(const PortFacts& port, const std::byte* data) noexcept;

  char error_[Error::kTextBytes] = {};
};

}  // namespace outrider
