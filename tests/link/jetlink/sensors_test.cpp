// Telemetry from made-up trees of /sys.
#include "link/jetlink/server/sensors.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <filesystem>
#include <fstream>

#include "base/json.h"
#include "support/temp_dir.h"

namespace outrider::link::jetlink {
namespace {

class Tree {
 public:
  void put(const std::string& path, const std::string& text) const {
    const std::filesystem::path whole = folder_.file(path);
    std::filesystem::create_directories(whole.parent_path());
    std::ofstream(whole) << text;
  }
  std::string file(const std::string& path) const { return folder_.file(path); }
  std::string root() const { return folder_.path(); }
  std::string read() const { return read_sensors(root()); }

 private:
  test::TempDir folder_;
};

class HandClock final : public Clock {
 public:
  int64_t now_ns() const noexcept override { return now_ns_.load(); }
  std::atomic<int64_t> now_ns_{1};
};

TEST(JetlinkSensors, a_machine_without_sensors_says_an_empty_object) {
  const Tree tree;
  EXPECT_EQ(tree.read(), "{}");
  EXPECT_EQ(read_sensors(tree.file("not there")), "{}");
}

TEST(JetlinkSensors, a_tegra_board_tells_its_inlet_its_gpu_and_its_fan) {
  const Tree tree;
  tree.put("class/thermal/thermal_zone0/temp", "48250\n");
  tree.put("class/thermal/thermal_zone1/temp", "51625\n");
  tree.put("class/thermal/cooling_device0/temp", "99000\n");
  tree.put("class/hwmon/hwmon0/temp1_input", "90000\n");  // zones say enough
  tree.put("class/hwmon/hwmon1/in1_label", "VDD_IN\n");
  tree.put("class/hwmon/hwmon1/in1_input", "19080\n");
  tree.put("class/hwmon/hwmon1/curr1_input", "1200\n");
  tree.put("class/hwmon/hwmon2/fan1_input", "2310\n");
  tree.put("devices/gpu.0/load", "734\n");
  tree.put("class/devfreq/17000000.ga10b/cur_freq", "918000000\n");
  EXPECT_EQ(tree.read(),
            "{\"temp_c\":51.6,\"power_w\":22.9,\"supply_mv\":19080,\"supply_ma\":1200,"
            "\"gpu_load_pct\":73.4,\"gpu_clock_mhz\":918,\"fan_rpm\":2310}");
}

TEST(JetlinkSensors, a_desktop_tells_its_hottest_chip_and_the_power_of_one) {
  const Tree tree;
  tree.put("class/hwmon/hwmon0/temp1_input", "-5500\n");
  tree.put("class/hwmon/hwmon0/temp3_input", "61000\n");
  tree.put("class/hwmon/hwmon1/power1_average", "35500000\n");
  tree.put("class/hwmon/hwmon1/power1_cap", "120000000\n");
  tree.put("class/hwmon/hwmon2/power1_input", "1000000\n");
  EXPECT_EQ(tree.read(), "{\"temp_c\":61,\"power_w\":35.5,\"power_limit_w\":120}");
}

TEST(JetlinkSensors, what_is_no_number_of_such_a_sensor_is_left_out) {
  for (const std::string& text :
       {std::string(), std::string("hot"), std::string("51000 C"), std::string("5e4"),
        std::string("999999"), std::string("-273150"), std::string(1 << 20, '1'),
        std::string("1\0 2", 4), std::string("99999999999999999999999"), std::string("\"},{\"")}) {
    const Tree tree;
    tree.put("class/thermal/thermal_zone0/temp", text);
    EXPECT_EQ(tree.read(), "{}") << text.substr(0, 40);
  }
  const Tree tree;
  std::filesystem::create_directories(tree.file("class/thermal/thermal_zone0/temp"));
  std::filesystem::create_directories(tree.file("class/thermal/thermal_zone1"));
  ASSERT_EQ(::mkfifo(tree.file("class/thermal/thermal_zone1/temp").c_str(), 0600), 0);
  std::filesystem::create_directories(tree.file("class/thermal/thermal_zone2"));
  std::filesystem::create_symlink("temp", tree.file("class/thermal/thermal_zone2/temp"));
  tree.put("class/hwmon", "a file where a folder is expected");
  EXPECT_EQ(tree.read(), "{}");
}

TEST(JetlinkSensors, the_worker_looks_again_and_a_look_of_more_than_a_second_ago_is_none) {
  const Tree tree;
  tree.put("class/thermal/thermal_zone0/temp", "40000\n");
  HandClock clock;
  Sensors sensors(tree.root(), clock);
  const auto comes = [&](const std::string& wanted) {
    for (int i = 0; i < 2000 && sensors.telemetry() != wanted; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return sensors.telemetry();
  };
  EXPECT_EQ(comes("{\"temp_c\":40}"), "{\"temp_c\":40}");
  tree.put("class/thermal/thermal_zone0/temp", "41000\n");
  EXPECT_EQ(comes("{\"temp_c\":41}"), "{\"temp_c\":41}");
  bool old = false;  // at once, unless the worker looks at that very moment
  for (int i = 0; i < 100 && !old; ++i) {
    clock.now_ns_ += Sensors::kTooOldNs + 1;
    old = sensors.telemetry() == "{}";
  }
  EXPECT_TRUE(old);
  EXPECT_EQ(comes("{\"temp_c\":41}"), "{\"temp_c\":41}");
}

}  // namespace
}  // namespace outrider::link::jetlink
