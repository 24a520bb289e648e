#include "link/transport/usb/host_find.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "link/transport/usb/gadget_setup.h"
#include "link/transport/usb/limits.h"

namespace outrider::link::usb {
namespace {

std::string attribute(const std::string& dir, const char* name) {
  std::string text;
  linux_setup().read(dir + "/" + name, text);
  return text;
}

unsigned number(const std::string& text, int base) {
  return static_cast<unsigned>(std::strtoul(text.c_str(), nullptr, base));
}

bool is_hex_id(const std::string& text, unsigned id) {
  return text.size() == 4 && number(text, 16) == id;
}

bool exists(const std::string& path) {
  struct stat facts;
  return ::stat(path.c_str(), &facts) == 0;
}

bool has_our_interface(const std::string& dir, const std::string& name) {
  for (const std::string& entry : linux_setup().list(dir)) {
    if (entry.rfind(name + ":", 0) != 0) continue;
    const std::string interface = dir + "/" + entry;
    if (number(attribute(interface, "bInterfaceClass"), 16) == kInterfaceClass &&
        number(attribute(interface, "bInterfaceSubClass"), 16) == kInterfaceSubclass &&
        number(attribute(interface, "bInterfaceProtocol"), 16) == kInterfaceProtocol)
      return true;
  }
  return false;
}

// Serials come from a foreign device: shown, never trusted.
std::string printable(const std::string& text) {
  std::string out;
  for (char c : text.substr(0, 64)) out += c > ' ' && c < 127 ? c : '?';
  return out;
}

std::string serial_list(const std::vector<FoundDevice>& devices) {
  std::string out;
  for (const FoundDevice& device : devices) {
    if (out.size() > 300) return out + ", ...";
    out += (out.empty() ? "" : ", ") +
           (device.serial.empty() ? std::string("(no serial)") : device.serial) + " at " +
           device.name;
  }
  return out;
}

bool in_container(const SysPaths& paths) {
  return std::any_of(paths.container_marks.begin(), paths.container_marks.end(), exists);
}

// "pid 812 (adb)" of a process that has the node open, as far as we may look.
std::string holder(const std::string& node, const SysPaths& paths) {
  for (const std::string& pid : linux_setup().list(paths.processes)) {
    if (pid.empty() || pid.find_first_not_of("0123456789") != std::string::npos) continue;
    if (number(pid, 10) == static_cast<unsigned>(::getpid())) continue;
    const std::string files = paths.processes + "/" + pid + "/fd";
    for (const std::string& fd : linux_setup().list(files)) {
      char target[256];
      const ssize_t length = ::readlink((files + "/" + fd).c_str(), target, sizeof target);
      if (length < 0 || node != std::string_view(target, static_cast<size_t>(length))) continue;
      return "pid " + pid + " (" + printable(attribute(paths.processes + "/" + pid, "comm")) + ")";
    }
  }
  return {};
}

}  // namespace

std::vector<FoundDevice> find_devices(const SysPaths& paths) {
  std::vector<FoundDevice> found;
  for (const std::string& name : linux_setup().list(paths.devices)) {
    if (name.find(':') != std::string::npos) continue;  // an interface
    const std::string dir = paths.devices + "/" + name;
    if (!is_hex_id(attribute(dir, "idVendor"), kVendorId) ||
        !is_hex_id(attribute(dir, "idProduct"), kProductId))
      continue;
    FoundDevice device;
    device.name = name;
    device.serial = printable(attribute(dir, "serial"));
    device.speed_mbit_s = number(attribute(dir, "speed"), 10);
    char node[32];
    std::snprintf(node, sizeof node, "/%03u/%03u", number(attribute(dir, "busnum"), 10) % 1000,
                  number(attribute(dir, "devnum"), 10) % 1000);
    device.node = paths.nodes + node;
    device.openable = ::access(device.node.c_str(), R_OK | W_OK) == 0;
    device.usable = has_our_interface(dir, name);
    found.push_back(device);
  }
  return found;
}

Result<FoundDevice> choose_device(const std::vector<FoundDevice>& devices, std::string_view serial,
                                  const SysPaths& paths) {
  const std::string wanted(serial);
  std::vector<FoundDevice> matching;
  for (const FoundDevice& device : devices)
    if (wanted.empty() || device.serial == wanted) matching.push_back(device);
  if (matching.empty() && devices.empty())
    return make_error(Code::kNotFound,
                      "usb:%s: no device %04x:%04x on any bus; check cable and device%s",
                      wanted.c_str(), kVendorId, kProductId,
                      in_container(paths) && !exists(paths.nodes)
                          ? "; this runs in a container without /dev/bus/usb"
                          : "");
  if (matching.empty())
    return make_error(Code::kNotFound, "usb:%s: no device with this serial; there is %s",
                      wanted.c_str(), serial_list(devices).c_str());
  if (matching.size() > 1)
    return make_error(Code::kInvalid, "usb:%s: %zu devices match: %s; name one as usb:SERIAL",
                      wanted.c_str(), matching.size(), serial_list(matching).c_str());
  if (!matching[0].usable)
    return make_error(Code::kDevice,
                      "usb:%s: the device at %s is there but offers no link interface (class "
                      "%02x/%02x/%02x); it is in another mode, restart its link program",
                      wanted.c_str(), matching[0].name.c_str(), kInterfaceClass, kInterfaceSubclass,
                      kInterfaceProtocol);
  return matching[0];
}

std::string device_rule() {
  char text[160];
  std::snprintf(text, sizeof text,
                "SUBSYSTEM==\"usb\", ATTR{idVendor}==\"%04x\", ATTR{idProduct}==\"%04x\", "
                "MODE=\"0660\", GROUP=\"plugdev\"",
                kVendorId, kProductId);
  return text;
}

Error explain_open(const FoundDevice& device, int error, const SysPaths& paths) {
  const char* serial = device.serial.c_str();
  const char* node = device.node.c_str();
  const bool container = in_container(paths);
  if (error == EACCES || error == EPERM) {
    return container
               ? make_error(Code::kDevice,
                            "usb:%s: no permission for %s inside this container; the rule must "
                            "be on the host, which owns the node: %s",
                            serial, node, device_rule().c_str())
               : make_error(Code::kDevice,
                            "usb:%s: no permission for %s; put this line into "
                            "/etc/udev/rules.d/70-outrider.rules, join group plugdev, replug: "
                            "%s",
                            serial, node, device_rule().c_str());
  }
  if (error == EBUSY) {
    const std::string who = holder(device.node, paths);
    return make_error(Code::kDevice, "usb:%s: %s is in use by %s; end it first", serial, node,
                      who.empty() ? "another program that we may not see" : who.c_str());
  }
  if (error == ENOENT && container)
    return make_error(Code::kDevice,
                      "usb:%s: %s is missing in this container; run it with -v "
                      "/dev/bus/usb:/dev/bus/usb and the device's cgroup rule",
                      serial, node);
  if (error == ENOENT || error == ENODEV || error == ENXIO)
    return make_error(Code::kNotFound, "usb:%s: the device left while it was opened", serial);
  return make_error(Code::kDevice, "usb:%s: cannot open %s: %s", serial, node,
                    std::strerror(error));
}

UsbFacts usb_facts(const SysPaths& paths, const std::string& controllers) {
  UsbFacts facts;
  for (const std::string& name : linux_setup().list(controllers))
    facts.device_controllers.push_back(name + ": " + attribute(controllers + "/" + name, "state"));
  for (const std::string& name : linux_setup().list(paths.devices))
    facts.n_host_buses += name.rfind("usb", 0) == 0;
  facts.devices = find_devices(paths);
  facts.in_container = in_container(paths);
  return facts;
}

}  // namespace outrider::link::usb
