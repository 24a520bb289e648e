// What stands between this machine and a calm control loop, each with what to do about it.
#pragma once
#include <string>
#include <vector>

#include "cli/machine.h"
#include "link/transport/usb/host_find.h"

namespace outrider::cli {

enum class Health : uint8_t { kOk, kAdvice, kBroken };

struct Check {
  std::string name, found, wanted, fix;  // wanted and fix are "" when all is well
  Health health = Health::kOk;
};
std::vector<Check> check_machine(const Machine& machine);
// One line: controllers for the device side, buses and devices for the host side of a USB link.
Check check_usb(const link::usb::UsbFacts& usb);
// Every kernel table beside the scalar one: kBroken when a table computes something else.
Check check_kernels();
Report checks_report(const std::vector<Check>& checks);

}  // namespace outrider::cli
