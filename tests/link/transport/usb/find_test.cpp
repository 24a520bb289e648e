// FC-41: a device that is there but may not be opened. A made-up sysfs, /dev and /proc.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "link/transport/usb/config_descriptor.h"
#include "link/transport/usb/descriptors.h"
#include "link/transport/usb/host_find.h"
#include "link/transport/usb/link_power.h"
#include "support/temp_dir.h"

namespace outrider::link::usb {
namespace {

namespace fs = std::filesystem;

class UsbFind : public ::testing::Test {
 protected:
  void SetUp() override {
    paths.devices = (root / "devices").string();
    paths.nodes = (root / "nodes").string();
    paths.processes = (root / "proc").string();
    paths.container_marks = {(root / "container").string()};
    for (const char* dir : {"devices", "nodes/001", "proc"}) fs::create_directories(root / dir);
  }

  void put(const fs::path& path, const std::string& text) {
    fs::create_directories((root / path).parent_path());
    std::ofstream(root / path) << text << "\n";
  }
  void add(const std::string& name, const std::string& serial, int devnum, bool usable = true,
           const std::string& product = "0005") {
    const fs::path dir = fs::path("devices") / name;
    put(dir / "idVendor", "1209"), put(dir / "idProduct", product);
    put(dir / "busnum", "1"), put(dir / "devnum", std::to_string(devnum));
    put(dir / "speed", "480");
    if (!serial.empty()) put(dir / "serial", serial);
    const fs::path interface = dir / (name + ":1.0");
    put(interface / "bInterfaceClass", "ff");
    put(interface / "bInterfaceSubClass", usable ? "4f" : "ff");
    put(interface / "bInterfaceProtocol", usable ? "55" : "ff");
  }
  Result<FoundDevice> choose(const char* serial) {
    return choose_device(find_devices(paths), serial, paths);
  }
  static void expect(const Error& error, Code code, const char* part) {
    EXPECT_EQ(error.code, code) << error.text;
    EXPECT_NE(error.message().find(part), std::string_view::npos) << error.text;
  }

  test::TempDir temp;
  fs::path root = temp.path();
  SysPaths paths;
};

TEST_F(UsbFind, FC41_five_situations_have_five_messages_with_the_next_step) {
  expect(choose("").error(), Code::kNotFound, "no device 1209:0005 on any bus; check cable");
  add("1-1", "ALPHA", 7);
  const auto one = choose("");
  ASSERT_TRUE(one);
  EXPECT_EQ(one.value().serial, "ALPHA");
  EXPECT_EQ(one.value().node, paths.nodes + "/001/007");
  EXPECT_EQ(one.value().speed_mbit_s, 480u);
  expect(choose("BETA").error(), Code::kNotFound, "there is ALPHA at 1-1");
  add("1-2.4", "BETA", 9);
  expect(choose("").error(), Code::kInvalid, "2 devices match: ALPHA at 1-1, BETA at 1-2.4");
  EXPECT_EQ(choose("BETA").value().name, "1-2.4");
  add("1-3", "GAMMA", 11, false);
  expect(choose("GAMMA").error(), Code::kDevice, "another mode");
}

TEST_F(UsbFind, FC41_what_open_says_is_explained) {
  add("1-1", "ALPHA", 7);
  const FoundDevice device = choose("").value();
  expect(explain_open(device, EACCES, paths), Code::kDevice, device_rule().c_str());
  expect(explain_open(device, EACCES, paths), Code::kDevice, "join group plugdev");
  expect(explain_open(device, EBUSY, paths), Code::kDevice, "another program that we may not see");
  expect(explain_open(device, ENODEV, paths), Code::kNotFound, "left while it was opened");
  expect(explain_open(device, ENOMEM, paths), Code::kDevice, "cannot open");
  // The holder's name, where it may be read.
  put("proc/812/comm", "flasher");
  fs::create_directories(root / "proc/812/fd");
  fs::create_symlink("/dev/null", root / "proc/812/fd/0");
  fs::create_symlink(device.node, root / "proc/812/fd/5");
  expect(explain_open(device, EBUSY, paths), Code::kDevice, "in use by pid 812 (flasher)");
}

// Whatever errno an open or a claim ends with: one line, the device by name, and a next step or the
// system's words. A permission never reads as absence, absence never as a permission.
TEST_F(UsbFind, FC41_every_errno_is_told_in_one_line_and_none_is_taken_for_another) {
  add("1-1", "ALPHA", 7);
  const FoundDevice device = choose("").value();
  for (const bool in_container : {false, true}) {
    if (in_container) put("container", "");
    for (int error = 1; error < 134; ++error) {
      SCOPED_TRACE(std::to_string(error) + (in_container ? " in a container" : ""));
      const Error told = explain_open(device, error, paths);
      const std::string text(told.message());
      EXPECT_EQ(text.find("usb:ALPHA: "), 0u) << text;
      EXPECT_EQ(text.find('\n'), std::string::npos) << text;
      const bool denied = error == EACCES || error == EPERM;
      const bool missing = error == ENOENT && in_container;
      const bool absent = (error == ENOENT || error == ENODEV || error == ENXIO) && !missing;
      EXPECT_EQ(told.code, absent ? Code::kNotFound : Code::kDevice) << text;
      EXPECT_EQ(text.find(device_rule()) != std::string::npos, denied) << text;
      EXPECT_EQ(text.find("is in use by") != std::string::npos, error == EBUSY) << text;
      EXPECT_EQ(text.find("left while it was opened") != std::string::npos, absent) << text;
      EXPECT_EQ(text.find("is missing in this container") != std::string::npos, missing) << text;
      const bool other = !denied && !absent && !missing && error != EBUSY;
      EXPECT_EQ(text.find(std::strerror(error)) != std::string::npos, other) << text;
    }
  }
}

TEST_F(UsbFind, FC41_inside_a_container_the_advice_is_another) {
  add("1-1", "ALPHA", 7);
  const FoundDevice device = choose("").value();
  put("container", "");
  expect(explain_open(device, EACCES, paths), Code::kDevice, "rule must be on the host");
  expect(explain_open(device, ENOENT, paths), Code::kDevice, "is missing in this container");
  fs::remove_all(root / "devices/1-1");
  fs::remove_all(root / "nodes");
  expect(choose("").error(), Code::kNotFound, "container without /dev/bus/usb");
  EXPECT_TRUE(usb_facts(paths, (root / "udc").string()).in_container);
}

TEST_F(UsbFind, FC41_a_replugged_device_is_found_under_its_new_number) {
  add("1-1", "ALPHA", 7);
  EXPECT_EQ(choose("ALPHA").value().node, paths.nodes + "/001/007");
  fs::remove_all(root / "devices/1-1");
  add("3-2", "ALPHA", 12);
  EXPECT_EQ(choose("ALPHA").value().node, paths.nodes + "/001/012");
}

TEST_F(UsbFind, strange_neighbours_are_passed_over) {
  add("1-1", "OTHER", 3, true, "0001");
  put("devices/1-2/idVendor", "");
  put("devices/1-3/idVendor", "12091209");
  put("devices/usb1/idVendor", "1d6b");
  EXPECT_TRUE(find_devices(paths).empty());
  add("1-4", std::string(500, 'x') + "\x1b[31m", 4);
  const auto found = find_devices(paths);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_LE(found[0].serial.size(), 64u);
  add("1-5", "A\x1b[31m\tB", 5);
  EXPECT_EQ(find_devices(paths)[1].serial, "A?[31m?B");
}

TEST_F(UsbFind, doctor_facts_count_controllers_buses_and_devices) {
  put("udc/fe980000.usb/state", "not attached");
  put("devices/usb1/idVendor", "1d6b");
  add("1-1", "ALPHA", 7);
  const UsbFacts facts = usb_facts(paths, (root / "udc").string());
  ASSERT_EQ(facts.device_controllers.size(), 1u);
  EXPECT_EQ(facts.device_controllers[0], "fe980000.usb: not attached");
  EXPECT_EQ(facts.n_host_buses, 1u);
  EXPECT_EQ(facts.devices.size(), 1u);
  EXPECT_FALSE(facts.in_container);
}

TEST_F(UsbFind, link_power_is_switched_off_and_put_back_as_it_was) {
  const auto read = [&] {
    std::string text;
    std::getline(std::ifstream(root / "dev/port/usb3_lpm_permit") >> std::ws, text);
    return text;
  };
  put("dev/port/usb3_lpm_permit", "u1_u2");
  {
    LinkPower power((root / "dev").string());
    power.switch_off();
    EXPECT_TRUE(power.is_off());
    EXPECT_EQ(read().substr(0, 1), "0");
  }
  EXPECT_EQ(read().substr(0, 5), "u1_u2");
  LinkPower none((root / "nothing").string());
  none.switch_off(), none.restore();
  EXPECT_FALSE(none.is_off());
}

// ---- the configuration descriptor of a foreign device

std::vector<std::byte> bytes_of(std::initializer_list<int> values) {
  std::vector<std::byte> out;
  for (int value : values) out.push_back(std::byte(value));
  return out;
}

std::vector<std::byte> config(int out_address, int in_address, int packet_low, int packet_high) {
  return bytes_of({9,    2, 48,          0, 2,          1,           0,
                   0xC0, 4,  // configuration
                   9,    4, 0,           0, 1,          2,           2,
                   1,    0,                                              // a foreign interface
                   7,    5, 0x83,        2, 0,          2,           0,  // with a bulk endpoint
                   9,    4, 1,           0, 2,          0xFF,        0x4F,
                   0x55, 1,                                              // ours, second in number
                   7,    5, 0x84,        3, 8,          0,           1,  // an interrupt endpoint
                   7,    5, out_address, 2, packet_low, packet_high, 0,
                   7,    5, in_address,  2, packet_low, packet_high, 0});
}

TEST(UsbConfig, finds_the_pair_by_class_and_takes_the_addresses_that_are_there) {
  const auto pair = find_bulk_pair(config(0x05, 0x89, 0, 2));
  ASSERT_TRUE(pair) << pair.error().text;
  EXPECT_EQ(pair.value().interface_number, 1);
  EXPECT_EQ(pair.value().out, 0x05);
  EXPECT_EQ(pair.value().in, 0x89);
  EXPECT_EQ(pair.value().in_packet, 512);
}

TEST(UsbConfig, refuses_what_is_missing_cut_or_impossible) {
  const auto good = config(0x01, 0x82, 0, 2);
  EXPECT_EQ(find_bulk_pair({}).code(), Code::kNotFound);
  EXPECT_EQ(find_bulk_pair(config(0x81, 0x82, 0, 2)).code(), Code::kNotFound) << "two inward";
  EXPECT_EQ(find_bulk_pair(config(0x01, 0x82, 100, 0)).code(), Code::kInvalid) << "packet 100";
  EXPECT_EQ(find_bulk_pair(config(0x01, 0x82, 0, 0)).code(), Code::kInvalid) << "packet 0";
  for (size_t n = 0; n < good.size(); ++n)
    EXPECT_FALSE(find_bulk_pair(std::span(good).first(n))) << n;
  // Every byte changed to every value: an answer or an error, never a read outside.
  for (size_t at = 0; at < good.size(); ++at) {
    for (int value = 0; value < 256; ++value) {
      auto damaged = good;
      damaged[at] = std::byte(value);
      const auto pair = find_bulk_pair(damaged);
      if (pair) {
        EXPECT_EQ(kGridBytes % pair.value().in_packet, 0u);
      }
    }
  }
}

}  // namespace
}  // namespace outrider::link::usb
