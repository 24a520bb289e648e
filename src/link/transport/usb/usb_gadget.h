// The device side as endpoint "usb:SERIAL": this machine presents itself as a gadget and the
// computer at the other end opens the link.
#pragma once
#include "link/transport/transport.h"

namespace outrider::link::usb {

// [setup] From then on connect_transport() knows "usb:SERIAL". An empty serial: the board's own.
//
// connect_transport makes the gadget (needs root, or the rights on configfs and mount), binds it
// and waits for a host. When the deadline passes the device stays on the bus, so that a slow host
// still finds it, and the next call goes on waiting. One stream per process at a time. When a
// stream ends the device leaves the bus for a moment: no byte of it can reach the next one.
void register_usb_gadget();
TransportMaker usb_gadget_maker();  // the same row, for a build that can also listen

// [setup] Takes an idle gadget off the bus and removes it. Also done when the process or the
// library that holds it ends.
void remove_usb_gadget();

}  // namespace outrider::link::usb
