// Which bytes of a frame are which port: the inputs of a runtime as one block, its outputs as
// another.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "outrider/host.h"
#include "outrider/loop.h"

namespace outrider::loop {

struct Slot {  // one port
  uint32_t port = 0, direction = 0, modality = 0, dtype = 0;
  std::string name;
  std::vector<int64_t> shape;
  uint64_t offset = 0, bytes = 0;
  bool is_f32() const { return dtype == 1; }
};

struct Payload {
  std::vector<Slot> slots;
  uint64_t bytes = 0;  // all together, at least 8; every slot begins at a multiple of 8
};

struct PayloadWish {
  std::vector<std::string> inputs;  // optional inputs to take as well
  std::vector<std::string>
      outputs;  // empty: "actions", else those of modality action, else the first
  std::map<std::string, int64_t> sizes;  // of ports with one open dimension
};

// [setup] Every required input but text (which a loop is given once). Pictures are their pixels:
// RGB bytes, views after each other. Errors: kInvalid (unknown name, a port without a fixed size:
// which, and how to give it), kUnsupported (more than a frame may hold; a type without a size).
Result<Payload> input_payload(outrider_session* session, const PayloadWish& wish);
// The main output comes first.
Result<Payload> output_payload(outrider_session* session, const PayloadWish& wish);

// The row of a port in the table of a segment.
outrider_loop_port port_row(const Slot& slot);

// [hot] Is every f32 value of the payload a finite number?
bool all_finite(const Payload& payload, const std::byte* data) noexcept;

}  // namespace outrider::loop
