// Making and removing the gadget: configfs directories, one FunctionFS function, its mount.
//
// Order of making (another order is refused or unbinds what was bound):
//   1. pick the controller, and refuse one that another gadget holds: it is never unbound
//   2. usb_gadget/NAME: ids, strings, configs/c.1, its attributes
//   3. functions/ffs.FUNCTION, linked into c.1 before any other function
//   4. mount functionfs (it exists only while an ffs function does: nobody asks for it before)
//   5. ep0: descriptors, then strings (ffs_port.h)
//   6. write the controller's name to UDC (ffs_port.h)
// Removing goes backwards. What an earlier process left behind, unbound, is removed first.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace outrider::link::usb {

// The system calls: configfs and mount, or a script. 0 or -errno.
class SetupSystem {
 public:
  virtual ~SetupSystem() = default;
  virtual int make_dir(const std::string& path) = 0;  // parents too where the kernel has none
  virtual int remove_dir(const std::string& path) = 0;
  virtual int write(const std::string& path, std::string_view text) = 0;
  virtual int read(const std::string& path, std::string& text) = 0;  // trailing newline removed
  virtual int make_link(const std::string& target, const std::string& path) = 0;
  virtual int remove_link(const std::string& path) = 0;
  virtual int mount_functionfs(const std::string& function, const std::string& path,
                               const std::string& options) = 0;
  virtual int unmount(const std::string& path) = 0;
  virtual std::vector<std::string> list(const std::string& path) = 0;  // names, sorted
};
SetupSystem& linux_setup();

struct GadgetSettings {
  std::string configfs = "/sys/kernel/config";
  std::string controllers = "/sys/class/udc";
  std::string name = "outrider";
  std::string function = "outrider_link";
  std::string mount = "/run/outrider-usb";
  std::string controller;                 // empty: the first that nobody holds
  uint32_t owner_uid = 0, owner_gid = 0;  // of the endpoint files
};

struct GadgetPlace {
  std::string gadget;       // directory in configfs
  std::string mount;        // directory with ep0, ep1, ep2
  std::string controller;   // name
  std::string controllers;  // directory of all
};

// [setup] Steps 1 to 4; on failure nothing stays behind. `serial` is 1 to 64 characters of
// [A-Za-z0-9._-]. Errors: kNotFound (no controller), kUnsupported (no gadget support in this
// kernel), kDevice (held, or refused; with path and cause).
Result<GadgetPlace> make_gadget(SetupSystem& system, const GadgetSettings& settings,
                                std::string_view serial);
// [setup] Undoes it, whatever is there of it. The gadget must be unbound.
void remove_gadget(SetupSystem& system, const GadgetSettings& settings);

// "gadget g1 (`outrider`)" of whoever holds the controller; empty when nobody does.
std::string controller_holder(SetupSystem& system, const GadgetSettings& settings,
                              const std::string& controller);

// The serial that this machine presents: the board's own, else one derived from its machine id
// (the id itself is not shown to others), else "0".
std::string machine_serial(SetupSystem& system);

}  // namespace outrider::link::usb
