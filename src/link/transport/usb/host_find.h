// Devices of ours on this machine's buses, read from sysfs, and why one cannot be opened.
//
// No library and no udev daemon is asked, so that it also works in a container, and every reason
// has its own message with the next step: nothing there, not allowed, held by somebody, there but
// in another mode, more than one.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace outrider::link::usb {

struct SysPaths {
  std::string devices = "/sys/bus/usb/devices";
  std::string nodes = "/dev/bus/usb";
  std::string processes = "/proc";
  std::vector<std::string> container_marks = {"/.dockerenv", "/run/.containerenv"};
};

struct FoundDevice {
  std::string name;    // "2-1.3": the way from the root hub; changes with the port
  std::string serial;  // may be empty
  std::string node;    // "/dev/bus/usb/002/007"
  uint32_t speed_mbit_s = 0;
  bool openable = false;  // this process may read and write the node
  bool usable = false;    // configured, with an interface of our class triple
};

// [setup] All devices with our ids, sorted by name.
std::vector<FoundDevice> find_devices(const SysPaths& paths);

// The one to open. `serial` empty: the only one there is. Errors: kNotFound (none, or none with
// that serial; names those that are there), kInvalid (several and no serial), kDevice (another
// mode).
Result<FoundDevice> choose_device(const std::vector<FoundDevice>& devices, std::string_view serial,
                                  const SysPaths& paths);

// Why open(2) or a claim failed with `error` (errno).
Error explain_open(const FoundDevice& device, int error, const SysPaths& paths);

// The udev rule that lets members of plugdev open the device.
std::string device_rule();

// For doctor: one controller or host bus each, as text.
struct UsbFacts {
  std::vector<std::string> device_controllers;  // "fe980000.usb: not attached"
  uint32_t n_host_buses = 0;
  std::vector<FoundDevice> devices;
  bool in_container = false;
};
UsbFacts usb_facts(const SysPaths& paths, const std::string& controllers = "/sys/class/udc");

}  // namespace outrider::link::usb
