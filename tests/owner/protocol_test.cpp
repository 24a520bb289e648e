// The lines of the lending protocol, as hostile bytes.
#include "owner/borrow/protocol.h"

#include <gtest/gtest.h>

namespace outrider::owner {
namespace {

Reply usb_reply() {
  Reply r;
  r.ok = true;
  r.medium = Medium::kUsb;
  r.gadget = "/sys/kernel/config/usb_gadget/outrider";
  r.mount = "/run/outrider-usb";
  r.controller = "dummy_udc.0";
  r.controllers = "/sys/class/udc";
  r.serial = "S1";
  r.enabled = true;
  r.n_sessions = 7;
  return r;
}

TEST(OwnerProtocol, what_is_written_is_read_back) {
  Request borrow;
  borrow.name = "model";
  const std::string line = to_line(borrow);
  EXPECT_EQ(line, "{\"op\":\"borrow\",\"name\":\"model\"}\n");
  EXPECT_EQ(read_request(std::string_view(line).substr(0, line.size() - 1)).value().name, "model");
  Request server;
  server.op = Op::kServer;
  server.server = {65535, 7 * 24 * 3600, "a \"device\"\\", std::string(256, 'b'), ""};
  std::string text = to_line(server);
  text.pop_back();
  ASSERT_TRUE(read_request(text)) << read_request(text).error().text;
  EXPECT_EQ(read_request(text).value().server, server.server);
  Request back;
  back.op = Op::kReturn;
  back.opened = true;
  back.n_sessions = UINT32_MAX;
  text = to_line(back);
  text.pop_back();
  ASSERT_TRUE(read_request(text)) << read_request(text).error().text;
  EXPECT_TRUE(read_request(text).value().opened);
  EXPECT_FALSE(read_request(text).value().enabled);
  EXPECT_EQ(read_request(text).value().n_sessions, UINT32_MAX);
  text = to_line(usb_reply());
  text.pop_back();
  const auto usb = read_reply(text);
  ASSERT_TRUE(usb) << usb.error().text;
  EXPECT_EQ(usb.value().gadget, usb_reply().gadget);
  EXPECT_EQ(usb.value().n_sessions, 7);
  EXPECT_TRUE(usb.value().enabled);
  EXPECT_FALSE(usb.value().opened);
  for (size_t n = 0; n < text.size(); ++n) EXPECT_FALSE(read_reply(text.substr(0, n))) << n;
}

TEST(OwnerProtocol, fields_out_of_range_are_refused_by_name) {
  const std::pair<const char*, const char*> bad[] = {
      {R"({"op":"server","protocol":65536})", "protocol"},
      {R"({"op":"server","protocol":-1})", "protocol"},
      {R"({"op":"server","protocol":1.5})", "protocol"},
      {R"({"op":"server","protocol":true})", "protocol"},
      {R"({"op":"server","sleep_after":604801})", "sleep_after"},
      {R"({"op":"server","device":5})", "device"},
      {R"({"op":"server","device":"\u0007"})", "device"},
      {R"({"op":"borrow","name":""})", "name"},
      {R"({"op":"borrow","name":7})", "name"},
      {R"({"op":"return","enabled":1})", "enabled"},
      {R"({"op":"return","sessions":4294967296})", "sessions"},
      {R"({"name":"x"})", "op"},
      {R"({"op":"sleep"})", "op"}};
  for (const auto& [text, field] : bad) {
    const auto read = read_request(text);
    ASSERT_FALSE(read) << text;
    EXPECT_NE(std::string(read.error().text).find(field), std::string::npos) << read.error().text;
  }
  EXPECT_FALSE(read_request(R"({"op":"server","device":")" + std::string(257, 'x') + "\"}"));
  for (const char* text : {R"({"ok":1})", R"({"ok":true,"medium":"radio"})",
                           R"({"ok":true,"medium":"usb"})", R"({"ok":true,"medium":"tcp"})",
                           R"({"ok":true,"medium":"tcp","endpoint":7})", R"([true])", "true", ""})
    EXPECT_FALSE(read_reply(text)) << text;
  EXPECT_TRUE(read_reply("{}"));  // says no
  EXPECT_FALSE(read_reply("{}").value().ok);
}

TEST(OwnerProtocol, text_of_strangers_is_written_as_plain_ascii) {
  Reply reply;
  reply.detail = std::string("a\"b\\c\nd\x80\0e", 10) + std::string(400, 'x');
  std::string line = to_line(reply);
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  line.pop_back();
  const auto read = read_reply(line);
  ASSERT_TRUE(read) << read.error().text;
  EXPECT_EQ(read.value().detail.substr(0, 11), "a\"b\\c?d??ex");
  EXPECT_EQ(read.value().detail.size(), kMaxTextBytes);
}

TEST(OwnerProtocol, lines_are_cut_at_newlines_and_bounded) {
  LineReader reader;
  std::string line;
  EXPECT_TRUE(reader.add("ab"));
  EXPECT_FALSE(reader.next(line));
  EXPECT_TRUE(reader.add("c\n\nde\nf"));
  EXPECT_TRUE(reader.next(line));
  EXPECT_EQ(line, "abc");
  EXPECT_TRUE(reader.next(line));
  EXPECT_EQ(line, "");
  EXPECT_TRUE(reader.next(line));
  EXPECT_EQ(line, "de");
  EXPECT_FALSE(reader.next(line));
  LineReader longest;
  EXPECT_TRUE(longest.add(std::string(kMaxLineBytes, 'a')));
  EXPECT_TRUE(longest.add("\n"));
  EXPECT_TRUE(longest.next(line));
  LineReader over;
  EXPECT_FALSE(over.add(std::string(kMaxLineBytes + 1, 'a')));
}

}  // namespace
}  // namespace outrider::owner
