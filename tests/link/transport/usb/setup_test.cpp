// The order of making and removing a gadget, against a scripted configfs.
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <set>

#include "link/transport/usb/gadget_setup.h"

namespace outrider::link::usb {
namespace {

// Behaves as configfs does: an ffs function exists after its directory, functionfs mounts only
// then, a directory that is linked or mounted cannot be removed.
class FakeSetup final : public SetupSystem {
 public:
  FakeSetup() { dirs = {"/c", "/c/usb_gadget", "/u", "/u/udc0"}; }
  int step(const std::string& what) {
    steps.push_back(what);
    return int(steps.size()) == fail_at ? -EINVAL : 0;
  }
  int make_dir(const std::string& path) override {
    if (const int error = step("mkdir " + path)) return error;
    dirs.insert(path);
    return 0;
  }
  int remove_dir(const std::string& path) override {
    if (dirs.count(path) == 0) return -ENOENT;
    if (path.find("/functions/") != std::string::npos && (!links.empty() || mounted)) return -EBUSY;
    dirs.erase(path);
    removed.push_back(path);
    return 0;
  }
  int write(const std::string& path, std::string_view text) override {
    if (const int error = step("write " + path)) return error;
    files[path] = text;
    return 0;
  }
  int read(const std::string& path, std::string& text) override {
    text.clear();
    if (files.count(path) == 0) return -ENOENT;
    text = files[path];
    return 0;
  }
  int make_link(const std::string& target, const std::string& path) override {
    if (const int error = step("link " + path)) return error;
    if (dirs.count(target) == 0) return -ENOENT;
    links.insert(path);
    return 0;
  }
  int remove_link(const std::string& path) override { return links.erase(path) ? 0 : -ENOENT; }
  int mount_functionfs(const std::string& function, const std::string& path,
                       const std::string& options) override {
    if (const int error = step("mount " + path)) return error;
    if (dirs.count("/c/usb_gadget/outrider/functions/ffs." + function) == 0) return -ENODEV;
    mount_options = options;
    mounted = true;
    return 0;
  }
  int unmount(const std::string&) override {
    if (!mounted) return -EINVAL;
    mounted = false;
    return 0;
  }
  std::vector<std::string> list(const std::string& path) override {
    std::vector<std::string> names;
    for (const std::string& dir : dirs)
      if (dir.rfind(path + "/", 0) == 0 && dir.find('/', path.size() + 1) == std::string::npos)
        names.push_back(dir.substr(path.size() + 1));
    return names;
  }
  size_t place_of(const std::string& what) const {
    return size_t(std::find(steps.begin(), steps.end(), what) - steps.begin());
  }

  std::set<std::string> dirs, links;
  std::map<std::string, std::string> files;
  std::vector<std::string> steps, removed;
  std::string mount_options;
  bool mounted = false;
  int fail_at = 0;
};

GadgetSettings settings() {
  GadgetSettings s;
  s.configfs = "/c", s.controllers = "/u", s.mount = "/m", s.owner_uid = 1000, s.owner_gid = 44;
  return s;
}

TEST(UsbSetup, steps_come_in_the_one_order_that_works) {
  FakeSetup system;
  const auto place = make_gadget(system, settings(), "S1");
  ASSERT_TRUE(place) << place.error().text;
  EXPECT_EQ(place.value().controller, "udc0");
  const std::string g = "/c/usb_gadget/outrider";
  const size_t order[] = {system.place_of("mkdir " + g),
                          system.place_of("write " + g + "/idVendor"),
                          system.place_of("mkdir " + g + "/strings/0x409"),
                          system.place_of("mkdir " + g + "/configs/c.1"),
                          system.place_of("mkdir " + g + "/functions/ffs.outrider_link"),
                          system.place_of("link " + g + "/configs/c.1/ffs.outrider_link"),
                          system.place_of("mount /m"),
                          system.steps.size()};
  for (size_t i = 0; i + 1 < std::size(order); ++i) EXPECT_LT(order[i], order[i + 1]) << i;
  EXPECT_EQ(system.files[g + "/idVendor"], "0x1209");
  EXPECT_EQ(system.files[g + "/idProduct"], "0x0005");
  EXPECT_EQ(system.files[g + "/bcdUSB"], "0x0320");
  EXPECT_EQ(system.files[g + "/strings/0x409/serialnumber"], "S1");
  EXPECT_EQ(system.files[g + "/configs/c.1/bmAttributes"], "0xc0");
  EXPECT_EQ(system.mount_options.substr(0, 15), "uid=1000,gid=44");
  EXPECT_EQ(system.files.count(g + "/UDC"), 0u) << "binding comes after the descriptors";

  remove_gadget(system, settings());
  EXPECT_EQ(system.dirs, (std::set<std::string>{"/c", "/c/usb_gadget", "/u", "/u/udc0"}));
  EXPECT_FALSE(system.mounted);
  EXPECT_TRUE(system.links.empty());
}

TEST(UsbSetup, any_step_that_fails_leaves_nothing_behind) {
  FakeSetup whole;
  ASSERT_TRUE(make_gadget(whole, settings(), "S1"));
  for (int at = 1; at <= int(whole.steps.size()); ++at) {
    FakeSetup system;
    const auto before = system.dirs;
    system.fail_at = at;
    const auto place = make_gadget(system, settings(), "S1");
    ASSERT_FALSE(place) << at;
    EXPECT_EQ(place.code(), Code::kDevice);
    EXPECT_EQ(system.dirs, before) << at << ": " << place.error().text;
    EXPECT_FALSE(system.mounted) << at;
    EXPECT_EQ(int(system.steps.size()), at) << "nothing is tried after a failure";
  }
}

TEST(UsbSetup, FC41_a_held_controller_is_refused_never_unbound) {
  FakeSetup system;
  system.dirs.insert("/c/usb_gadget/g1");
  system.files["/c/usb_gadget/g1/UDC"] = "udc0";
  system.files["/c/usb_gadget/g1/strings/0x409/product"] = "adb";
  const auto held = make_gadget(system, settings(), "S1");
  EXPECT_EQ(held.code(), Code::kDevice);
  EXPECT_NE(held.error().message().find("udc0 is held by gadget g1 (`adb`)"),
            std::string_view::npos)
      << held.error().text;
  EXPECT_TRUE(system.steps.empty());
  EXPECT_EQ(system.files["/c/usb_gadget/g1/UDC"], "udc0");
  system.dirs.insert("/u/udc1");  // another one is free
  EXPECT_EQ(make_gadget(system, settings(), "S1").value().controller, "udc1");
  GadgetSettings wanted = settings();
  wanted.controller = "udc7";
  EXPECT_EQ(make_gadget(system, wanted, "S1").code(), Code::kNotFound);
}

TEST(UsbSetup, what_a_dead_process_left_is_removed_and_what_a_living_one_has_is_not) {
  FakeSetup system;
  ASSERT_TRUE(make_gadget(system, settings(), "S1"));
  EXPECT_TRUE(make_gadget(system, settings(), "S2")) << "unbound leftovers";
  EXPECT_EQ(system.files["/c/usb_gadget/outrider/strings/0x409/serialnumber"], "S2");
  system.dirs.insert("/u/udc1");
  system.files["/c/usb_gadget/outrider/UDC"] = "udc0";
  const auto busy = make_gadget(system, settings(), "S3");
  EXPECT_EQ(busy.code(), Code::kDevice);
  EXPECT_NE(busy.error().message().find("by another process"), std::string_view::npos);
}

TEST(UsbSetup, says_what_the_machine_lacks) {
  FakeSetup system;
  system.dirs.erase("/u/udc0");
  EXPECT_EQ(make_gadget(system, settings(), "S1").code(), Code::kNotFound);
  system.dirs.erase("/c/usb_gadget");
  const auto none = make_gadget(system, settings(), "S1");
  EXPECT_EQ(none.code(), Code::kUnsupported);
  EXPECT_NE(none.error().message().find("modprobe libcomposite"), std::string_view::npos);
}

TEST(UsbSetup, serial_hides_the_machine_id) {
  FakeSetup system;
  EXPECT_EQ(machine_serial(system), "0");
  system.files["/etc/machine-id"] = "0123456789abcdef0123456789abcdef";
  const std::string serial = machine_serial(system);
  EXPECT_EQ(serial.size(), 16u);
  EXPECT_EQ(system.files["/etc/machine-id"].find(serial), std::string::npos);
  EXPECT_EQ(machine_serial(system), serial) << "the same every time";
  system.files["/proc/device-tree/serial-number"] = "AB-12\x01 34";
  EXPECT_EQ(machine_serial(system), "AB1234");
}

}  // namespace
}  // namespace outrider::link::usb
