// The service configuration: strict, and safe by default.
#include "owner/config.h"

#include <gtest/gtest.h>

namespace outrider::owner {
namespace {

std::string why(const std::string& text) {
  const auto read = parse_config(text, "owner.json");
  return read ? "" : read.error().text;
}

TEST(OwnerConfig, nothing_said_is_a_complete_configuration) {
  const auto read = parse_config("{}", "owner.json");
  ASSERT_TRUE(read) << read.error().text;
  EXPECT_EQ(read.value().socket, "/run/outrider/owner.sock");
  EXPECT_EQ(read.value().socket_mode, 0600);
  EXPECT_EQ(read.value().tcp_listen, "tcp://127.0.0.1:5599");
  EXPECT_EQ(read.value().tuning.size(), stock_tuning().size());
  EXPECT_EQ(read.value().keys.big_model, "");
  EXPECT_EQ(read.value().keys.catalog, "");
  EXPECT_TRUE(read.value().provision.empty());
}

TEST(OwnerConfig, every_key_is_read) {
  const std::string digest(64, 'a');
  const auto read = parse_config(
      R"({"socket":"/r/s","socket_mode":432,"status":"/r/st","runtime_record":"/r/rr",
      "power_off_request":"/r/po","state_dir":"/v","params_dir":"/p","log_file":"/l",
      "keys":{"mode":"JetlinkMode","parked":"IsOffroad","charge_phone":"JetlinkChargePhone",
              "big_model":"","catalog":"","spec":"JetlinkSpec","shutdown":"DoShutdown",
              "reboot":"DoReboot","uninstall":"DoUninstall"},
      "usb":{"serial":"S-1","controller":"a600000.dwc3","owner_uid":1000,"owner_gid":1000},
      "tcp":{"listen":"tcp://192.168.60.1:5599","plaintext":true,"key_file":""},
      "tuning":[{"path":"/proc/sys/vm/x","value":"1","at_least":true}],
      "port_current":{"path":"/sys/x","cut":"0"},
      "default_model":{"path":"/m.gguf","sha256":")" +
          digest + R"("},"provision":["p","{model}","{sha256}","{socket}"],"power_off":["q"]})",
      "owner.json");
  ASSERT_TRUE(read) << read.error().text;
  const Config& c = read.value();
  EXPECT_EQ(c.keys.mode, "JetlinkMode");
  EXPECT_EQ(c.usb_controller, "a600000.dwc3");
  EXPECT_EQ(c.usb_owner_uid, 1000);
  ASSERT_EQ(c.tuning.size(), 1u);
  EXPECT_TRUE(c.tuning[0].at_least);
  const std::vector<std::string> wanted = {"p", "/m.gguf", digest, "/r/s"};
  EXPECT_EQ(filled(c.provision, c, digest), wanted);
}

TEST(OwnerConfig, FC48_an_unknown_or_wrong_key_is_refused_with_its_line) {
  EXPECT_NE(why("{\n\"sokcet\":\"/x\"}").find("owner.json:2: unknown key \"sokcet\""),
            std::string::npos);
  const char* bad[] = {"[]",
                       "",
                       "{",
                       R"({"socket":"relative"})",
                       R"({"socket":7})",
                       R"({"socket":""})",
                       R"({"socket":"/a\nb"})",
                       R"({"socket_mode":511})",
                       R"({"socket_mode":"0600"})",
                       R"({"keys":[]})",
                       R"({"keys":{"mode":""}})",
                       R"({"keys":{"mode":"../x"}})",
                       R"({"keys":{"modes":"A"}})",
                       R"({"usb":{"serial":"a b"}})",
                       R"({"usb":{"controller":"../x"}})",
                       R"({"usb":{"owner_uid":-1}})",
                       R"({"usb":{"owner_uid":4294967295}})",
                       R"({"tcp":{"listen":"usb:"}})",
                       R"({"tcp":{"listen":"tcp://nowhere"}})",
                       R"({"tuning":{}})",
                       R"({"tuning":[7]})",
                       R"({"tuning":[{"value":"1"}]})",
                       R"({"tuning":[{"path":"/x","values":"1"}]})",
                       R"({"default_model":{"path":"/m"}})",
                       R"({"default_model":{"path":"/m","sha256":"A"}})",
                       R"({"provision":"p"})",
                       R"({"provision":[""]})",
                       R"({"provision":[7]})",
                       R"({"status":"/a","status":"/b"})"};
  for (const char* text : bad) {
    EXPECT_NE(why(text), "") << text;
    EXPECT_EQ(why(text).rfind("owner.json", 0), 0u) << why(text);
  }
  EXPECT_NE(why(R"({"socket":"/)" + std::string(200, 'x') + "\"}"), "");
  EXPECT_EQ(read_config("/nowhere/owner.json").code(), Code::kNotFound);
}

TEST(OwnerConfig, FC45_a_listener_that_others_reach_needs_a_key_or_a_word) {
  for (const char* host : {"0.0.0.0", "192.168.60.1", "[::]", "device.local"}) {
    const std::string listen = R"("listen":"tcp://)" + std::string(host) + R"(:5599")";
    EXPECT_NE(why("{\"tcp\":{" + listen + "}}"), "") << host;
    EXPECT_EQ(why("{\"tcp\":{" + listen + ",\"key_file\":\"/k\"}}"), "") << host;
    EXPECT_EQ(why("{\"tcp\":{" + listen + ",\"plaintext\":true}}"), "") << host;
    EXPECT_NE(why("{\"tcp\":{" + listen + ",\"plaintext\":true,\"key_file\":\"/k\"}}"), "");
  }
  EXPECT_EQ(why(R"({"tcp":{"listen":"tcp://[::1]:5599"}})"), "");
}

}  // namespace
}  // namespace outrider::owner
