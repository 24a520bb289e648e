// Numbers behind the reports: percentiles, differences, work counts, charts, pictures.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "cli/doctor.h"
#include "cli/flops.h"
#include "cli/report/html.h"
#include "cli/report/png.h"
#include "cli/report/svg.h"
#include "cli/request.h"
#include "cli/scene.h"
#include "cli/stats.h"
#include "models/synthetic_pi.h"
#include "vision/image.h"

namespace outrider::cli {
namespace {

TEST(FC51, there_is_no_p99_from_fewer_than_a_hundred_samples) {
  for (size_t n : {1u, 2u, 20u, 99u}) {
    EXPECT_FALSE(percentiles(std::vector<double>(n, 1.0)).p99) << n;
    EXPECT_TRUE(percentiles_report(percentiles(std::vector<double>(n, 1.0)))["p99"].is_null()) << n;
  }
  EXPECT_TRUE(percentiles(std::vector<double>(100, 1.0)).p99);
}

TEST(FC51, percentiles_are_samples_and_tell_how_many_there_were) {
  std::vector<double> samples;
  for (int i = 200; i >= 1; --i) samples.push_back(i);
  const Percentiles p = percentiles(samples);
  EXPECT_EQ(p.n, 200u);
  EXPECT_EQ(p.p50, 100);
  EXPECT_EQ(p.p90, 180);
  EXPECT_EQ(p.p95, 190);
  EXPECT_EQ(*p.p99, 198);
  EXPECT_EQ(p.max, 200);
  EXPECT_TRUE(percentiles_report(percentiles({}))["p50"].is_null());
  const std::vector<double> one = {7};
  EXPECT_EQ(percentiles(one).p50, 7);
  EXPECT_EQ(percentiles(one).max, 7);
}

TEST(Difference, finds_the_worst_value_and_never_hides_one_that_is_not_finite) {
  const std::vector<float> wanted = {1, 2, 3}, near = {1, 2.5f, 3};
  EXPECT_DOUBLE_EQ(difference(near, wanted).max_abs, 0.5);
  EXPECT_EQ(difference(near, wanted).worst_index, 1u);
  EXPECT_DOUBLE_EQ(difference(wanted, wanted).cosine, 1);
  const std::vector<float> broken = {1, std::numeric_limits<float>::quiet_NaN(), 3};
  EXPECT_FALSE(difference(broken, wanted).finite);
}

TEST(ParseCsv, takes_finite_numbers_only) {
  EXPECT_EQ(parse_csv("0.5, -1,2e-1").value(), (std::vector<float>{0.5f, -1.0f, 0.2f}));
  for (const char* bad : {"", ",", "1,", "1,,2", "x", "nan", "inf", "1e39", "1 2", "0x10"})
    EXPECT_EQ(parse_csv(bad).code(), Code::kInvalid) << bad;
}

// Counts of the published table for the base checkpoint: 2 views, 48 text tokens.
TEST(PiWork, counts_the_products_of_the_base_checkpoint) {
  const PiConfig config = synthetic_pi_config({PiFamily::kPi05, true, DType::kBf16, 1});
  const PiWork outer = pi_work(config, {2, 48, false}), needed = pi_work(config, {2, 48, true});
  EXPECT_NEAR(outer.vision.flop * 1e-9, 440, 1);
  EXPECT_NEAR(outer.prefix.flop * 1e-9, 2266, 1);
  EXPECT_NEAR(outer.expert.flop * 1e-9, 359, 1);
  EXPECT_NEAR((outer.prefix.flop - needed.prefix.flop) * 1e-9, 125, 1);
  EXPECT_NEAR(needed.expert.flop * 1e-9, 357, 1);
  EXPECT_NEAR(pi_work(config, {3, 200, false}).prefix.flop * 1e-9, 3975, 2);
}

TEST(PromptOddity, names_a_line_break_at_the_end_and_is_quiet_otherwise) {
  EXPECT_EQ(prompt_oddity("pick up the cup"), "");
  EXPECT_EQ(prompt_oddity("two\nlines"), "");
  for (const char* odd : {"pick\n", "pick\r\n", "pick\r", "pick\n\n"})
    EXPECT_NE(prompt_oddity(odd).find("line break"), std::string::npos) << odd;
  EXPECT_NE(prompt_oddity(" pick"), "");
}

TEST(Png, comes_back_pixel_for_pixel) {
  const Image image = Scene(64, 48).draw(Camera::kFront, 1.0);
  auto png = encode_png(image);
  ASSERT_TRUE(png);
  auto back = decode_image(png.value(), "t");
  ASSERT_TRUE(back);
  EXPECT_EQ(back.value().rgb, image.rgb);
  EXPECT_FALSE(encode_png({3, 3, std::vector<uint8_t>(5)}));
}

TEST(Base64, pads_every_remainder) {
  const char* text = "foob";
  const std::string wanted[] = {"", "Zg==", "Zm8=", "Zm9v", "Zm9vYg=="};
  for (size_t n = 0; n <= 4; ++n)
    EXPECT_EQ(base64({reinterpret_cast<const std::byte*>(text), n}), wanted[n]);
}

TEST(Scene, is_the_same_every_time_and_moves) {
  const Scene scene(32, 32);
  EXPECT_EQ(scene.draw(Camera::kFront, 2).rgb, scene.draw(Camera::kFront, 2).rgb);
  EXPECT_NE(scene.draw(Camera::kFront, 2).rgb, scene.draw(Camera::kFront, 2.4).rgb);
  EXPECT_NE(scene.draw(Camera::kFront, 2).rgb, scene.draw(Camera::kWrist, 2).rgb);
  for (double t = 0; t < 9; t += 0.1)
    for (float value : scene.state(t)) EXPECT_LE(std::abs(value), 1.0f);
}

TEST(Charts, draw_for_no_one_and_equal_samples_without_a_number_that_is_none) {
  for (const std::vector<double>& samples : {std::vector<double>{}, {5.0}, {5.0, 5.0, 5.0}}) {
    const std::string line = line_chart(
        {"x", "y", {{"s", samples, "var(--a)"}}, 0, 1, std::nullopt, "", true, 400, 200});
    const std::string bars = histogram({"x", samples, "var(--a)", 10, 400, 200});
    for (const std::string& svg : {line, bars}) {
      EXPECT_EQ(svg.find("nan"), std::string::npos) << svg;
      EXPECT_EQ(svg.find("inf"), std::string::npos) << svg;
    }
  }
}

TEST(Page, escapes_what_it_is_given_and_loads_nothing) {
  Page page("<script>alert(1)</script>", "a & b");
  page.figures({{"1", "ms", "\"x\"", false}});
  page.section("<b>", "<i>", "<p>kept</p>");
  const std::string html = page.html();
  EXPECT_EQ(html.find("<script>alert"), std::string::npos);
  EXPECT_NE(html.find("&lt;b&gt;"), std::string::npos);
  EXPECT_EQ(html.find("http"), std::string::npos);
}

TEST(Doctor, every_advice_says_what_is_wanted_and_how) {
  Machine poor;
  poor.memlock_bytes = 64 << 10;
  poor.clock_source = "hpet";
  poor.governor = "powersave";
  poor.huge_pages = "never";
  poor.n_allowed = 4;
  poor.quota_cpus = 1.5;
  for (const Check& check : check_machine(poor)) {
    EXPECT_EQ(check.health, Health::kAdvice) << check.name;
    EXPECT_FALSE(check.wanted.empty() || check.fix.empty()) << check.name;
  }
}

TEST(Doctor, FC41_usb_line_names_what_is_there_and_what_to_do) {
  link::usb::UsbFacts usb;
  usb.n_host_buses = 2;
  EXPECT_EQ(check_usb(usb).health, Health::kOk);
  EXPECT_NE(check_usb(usb).found.find("no device controller"), std::string::npos);
  usb.device_controllers = {"fe980000.usb: not attached"};
  EXPECT_EQ(check_usb(usb).found, "device controller fe980000.usb: not attached; 2 host buses");
  link::usb::FoundDevice device;
  device.name = "1-1", device.serial = "ALPHA", device.usable = device.openable = true;
  usb.devices = {device};
  EXPECT_EQ(check_usb(usb).health, Health::kOk);
  EXPECT_NE(check_usb(usb).found.find("Outrider device ALPHA at 1-1"), std::string::npos);
  usb.devices[0].openable = false;
  EXPECT_EQ(check_usb(usb).health, Health::kAdvice);
  EXPECT_NE(check_usb(usb).fix.find("SUBSYSTEM==\"usb\""), std::string::npos);
  usb.devices[0].usable = false;
  EXPECT_NE(check_usb(usb).fix.find("restart the link program"), std::string::npos);
}

}  // namespace
}  // namespace outrider::cli
