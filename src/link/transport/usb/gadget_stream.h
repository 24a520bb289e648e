// The device's end of a session: a Transport over the bulk pair of a gadget.
//
// Sending. Every message must be a multiple of kGridBytes (facts().pad_grid_bytes); any other
// size is refused with kBroken and 0 bytes. A message that fits below kUnsentLimitBytes is taken
// as a whole, with one system call, or not at all: what is queued in the kernel stays bounded, and
// a caller without patience gets {kLate, 0} and may drop its frame. The kernel copies; user space
// does not.
//
// Receiving. A thread of its own reads 16 KiB at a time into kDeviceReadSlots buffers that were
// taken before the first byte, because a read cannot be given a deadline.
//
// Ends. kClosed: the host closed the session; what it had sent is delivered first. kReset: the host
// began anew. kGone: unplugged. kShut. Destruction flushes, leaves the bus, collects what was
// aborted and joins the reader, each with its own limit (limits.h); what a controller then still
// keeps is left to it with a warning, and the gadget is not used again.
#pragma once
#include <functional>
#include <memory>

#include "link/transport/transport.h"
#include "link/transport/usb/gadget.h"

namespace outrider::link::usb {

struct GadgetStreamOptions {
  int reader_priority = 0;          // SCHED_FIFO of the reader thread when above 0 and allowed
  uint32_t unsent_limit_bytes = 0;  // 0: kUnsentLimitBytes
  uint32_t speed_mbit_s = 0;
  // Gets the gadget back when the stream ended cleanly.
  std::function<void(std::unique_ptr<Gadget>)> take_back;
};

// [setup] `gadget` has just said that a session is open. Errors: none; the memory is taken here.
std::unique_ptr<Transport> make_gadget_stream(std::unique_ptr<Gadget> gadget,
                                              GadgetStreamOptions options);

}  // namespace outrider::link::usb
