#include "link/transport/usb/gadget_setup.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <span>

#include "base/sha256.h"
#include "link/transport/usb/limits.h"

namespace outrider::link::usb {
namespace {

std::string hex16(unsigned value) {
  char text[8];
  std::snprintf(text, sizeof text, "0x%04x", value);
  return text;
}

struct Paths {
  explicit Paths(const GadgetSettings& s)
      : all(s.configfs + "/usb_gadget"),
        gadget(all + "/" + s.name),
        config(gadget + "/configs/c.1"),
        function(gadget + "/functions/ffs." + s.function),
        link(config + "/ffs." + s.function) {}
  std::string all, gadget, config, function, link;
};

Error refused(const char* step, const std::string& path, int error) {
  const char* next = error == -EACCES || error == -EPERM ? "; making a gadget needs root"
                     : error == -ENODEV ? "; load the module: modprobe libcomposite usb_f_fs"
                                        : "";
  return make_error(Code::kDevice, "usb gadget: cannot %s %s: %s%s", step, path.c_str(),
                    std::strerror(-error), next);
}

Result<std::string> pick_controller(SetupSystem& system, const GadgetSettings& s) {
  const auto all = system.list(s.controllers);
  if (all.empty())
    return make_error(Code::kNotFound,
                      "usb gadget: no device controller in %s; this board has none, its driver is "
                      "not loaded, or the port is in host role",
                      s.controllers.c_str());
  std::string held;
  for (const std::string& name : all) {
    if (!s.controller.empty() && name != s.controller) continue;
    const std::string holder = controller_holder(system, s, name);
    if (holder.empty()) return name;
    held += (held.empty() ? "" : ", ") + name + " is held by " + holder;
  }
  if (held.empty())
    return make_error(Code::kNotFound, "usb gadget: no controller \"%s\", there is %s",
                      s.controller.c_str(), all.front().c_str());
  return make_error(Code::kDevice, "usb gadget: controller %s; release it there first",
                    held.c_str());
}

// Runs the steps of making; the first failure ends it.
class Maker {
 public:
  explicit Maker(SetupSystem& system) : system_(system) {}
  void dir(const std::string& path) {
    step("make", path, [&] { return system_.make_dir(path); });
  }
  void write(const std::string& path, std::string_view text) {
    step("write", path, [&] { return system_.write(path, text); });
  }
  void link(const std::string& target, const std::string& path) {
    step("link", path, [&] { return system_.make_link(target, path); });
  }
  void mount(const GadgetSettings& s) {
    const std::string options = "uid=" + std::to_string(s.owner_uid) +
                                ",gid=" + std::to_string(s.owner_gid) + ",rmode=0500,fmode=0600";
    step("mount", s.mount, [&] { return system_.mount_functionfs(s.function, s.mount, options); });
  }
  Result<void> result;

 private:
  template <class Do>
  void step(const char* what, const std::string& path, Do&& work) {
    if (!result) return;
    if (const int error = work(); error != 0) result = refused(what, path, error);
  }
  SetupSystem& system_;
};

}  // namespace

std::string controller_holder(SetupSystem& system, const GadgetSettings& settings,
                              const std::string& controller) {
  const Paths paths(settings);
  for (const std::string& name : system.list(paths.all)) {
    std::string held, product;
    system.read(paths.all + "/" + name + "/UDC", held);
    if (held != controller) continue;
    system.read(paths.all + "/" + name + "/strings/0x409/product", product);
    return "gadget " + name + (product.empty() ? "" : " (`" + product + "`)");
  }
  return {};
}

Result<GadgetPlace> make_gadget(SetupSystem& system, const GadgetSettings& settings,
                                std::string_view serial) {
  const Paths paths(settings);
  std::string text;
  const auto subsystems = system.list(settings.configfs);
  if (std::find(subsystems.begin(), subsystems.end(), "usb_gadget") == subsystems.end())
    return make_error(
        Code::kUnsupported,
        "usb gadget: no usb_gadget in %s; modprobe libcomposite, and mount -t configfs "
        "none %s",
        settings.configfs.c_str(), settings.configfs.c_str());
  auto controller = pick_controller(system, settings);
  if (!controller) return controller.error();
  // Ours, but bound: another process serves it.
  if (system.read(paths.gadget + "/UDC", text) == 0 && !text.empty())
    return make_error(Code::kDevice, "usb gadget: %s is bound to %s by another process",
                      paths.gadget.c_str(), text.c_str());
  remove_gadget(system, settings);

  Maker make(system);
  const std::string strings = paths.gadget + "/strings/0x409";
  make.dir(paths.gadget);
  make.write(paths.gadget + "/idVendor", hex16(kVendorId));
  make.write(paths.gadget + "/idProduct", hex16(kProductId));
  make.write(paths.gadget + "/bcdUSB", hex16(kUsbRelease));
  make.write(paths.gadget + "/bcdDevice", hex16(kDeviceRelease));
  make.dir(strings);
  make.write(strings + "/manufacturer", kManufacturer);
  make.write(strings + "/product", kProduct);
  make.write(strings + "/serialnumber", serial);
  make.dir(paths.config);
  make.write(paths.config + "/bmAttributes", "0xc0");  // self powered
  make.write(paths.config + "/MaxPower", "8");
  make.dir(paths.function);
  make.link(paths.function, paths.link);
  make.dir(settings.mount);
  make.mount(settings);
  if (!make.result) {
    remove_gadget(system, settings);
    return make.result.error();
  }
  return GadgetPlace{paths.gadget, settings.mount, controller.value(), settings.controllers};
}

void remove_gadget(SetupSystem& system, const GadgetSettings& settings) {
  const Paths paths(settings);
  system.unmount(settings.mount);
  system.remove_link(paths.link);
  system.remove_dir(paths.function);
  system.remove_dir(paths.config);
  system.remove_dir(paths.gadget + "/strings/0x409");
  system.remove_dir(paths.gadget);
  system.remove_dir(settings.mount);
}

std::string machine_serial(SetupSystem& system) {
  std::string text, kept;
  if (system.read("/proc/device-tree/serial-number", text) == 0) {
    for (char c : text)
      if (std::isalnum(static_cast<unsigned char>(c)) && kept.size() < 64) kept += c;
    if (!kept.empty()) return kept;
  }
  if (system.read("/etc/machine-id", text) != 0 || text.empty()) return "0";
  const std::string salted = "outrider usb serial " + text;
  const auto digest = sha256_hex(std::as_bytes(std::span(salted)));
  return digest ? digest.value().substr(0, 16) : "0";
}

}  // namespace outrider::link::usb
