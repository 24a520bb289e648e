// FC-46: what a host says about itself is JSON of a stranger: deep, huge, of other types than
// expected, with bytes that a terminal would obey.
#include <atomic>
#include <thread>

#include "link_support.h"
#include "support.h"

namespace outrider::cli_test {
namespace {

using namespace link;

// A host that answers HELLO, and STATUS with that text.
class StatusHost {
 public:
  explicit StatusHost(std::string json) : json_(std::move(json)) {
    auto listener = listen_transport(parse_endpoint("tcp://127.0.0.1:0").value());
    EXPECT_GOOD(listener);
    listener_ = std::move(listener.value());
    thread_ = std::thread([this] {
      while (!stop_)
        if (auto peer = listener_->accept(kForever)) serve(std::move(peer.value()));
    });
  }
  ~StatusHost() {
    stop_ = true;
    listener_->shut();
    thread_.join();
  }
  const std::string& endpoint() const { return listener_->endpoint(); }

 private:
  void serve(std::unique_ptr<Transport> transport) {
    wire::Channel channel(std::move(transport), clock_);
    wire::Incoming in;
    while (!stop_) {
      const auto got = channel.receive(in, nullptr, clock_.now_ns() + 20'000'000);
      if (got == wire::Got::kLate) continue;
      if (got != wire::Got::kMessage) return;
      const wire::Outgoing facts = {in.header.request_id, 0, 0, 0};
      const int64_t due = clock_.now_ns() + 1'000'000'000;
      if (in.header.type == wire::type_of<wire::Hello>()) {
        wire::HelloReply hello;
        hello.version = wire::kVersion;
        channel.send(hello, facts, {}, due);
        channel.set_version(hello.version);
      } else if (in.header.type == wire::type_of<wire::Status>()) {
        auto status = std::make_unique<wire::StatusReply>();
        status->json.assign(json_);
        channel.send(*status, facts, {}, due);
      }
    }
  }

  const std::string json_;
  MonotonicClock clock_;
  std::unique_ptr<Listener> listener_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

std::string repeated(const char* text, size_t n) {
  std::string out;
  for (size_t i = 0; i < n; ++i) out += text;
  return out;
}

void expect_harmless(const std::string& text, const std::string& what) {
  for (const char c : text)
    ASSERT_TRUE(c == '\n' || static_cast<unsigned char>(c) >= 0x20) << what << ": " << int{c};
}

TEST(Top, FC46_whatever_a_host_says_about_itself_is_shown_or_left_out) {
  const std::string texts[] = {
      "",
      "null",
      repeated("[", 50'000),
      repeated("{\"a\":", 10'000),
      repeated("[", 63) + repeated("]", 63),
      "{\"models\":" + repeated("[", 60) + repeated("]", 60) + "}",
      "{\"models\":7,\"peers\":\"x\"}",
      "{\"models\":[1,null,\"x\",[]],\"peers\":{\"a\":{\"name\":[]}}}",
      "{\"models\":[{\"name\":{},\"instances\":[1,\"x\",{\"owner\":[],\"epoch\":\"\\u001b[2J\"}]}]"
      "}",
      "{\"name\":\"\\u001b]0;x\\u0007\\r\\u009b2J\",\"uptime_ms\":\"\\u001b[2J\"}",
      "{\"peers\":[{\"peer\":\"a\\nb\",\"received_bytes\":\"\\u001b[2J\",\"busy_ms\":\"\\u0000\"}]"
      "}",
      "{\"name\":\"a\",\"name\":\"b\"}",
      "{\"uptime_ms\":1e999}",
      "{\"uptime_ms\":9223372036854775808}",
      "{\"name\":\"\xff\xfe\"}",
      "{\"name\":\"" + repeated("x", 50'000) + "\"}",
      "{\"peers\":[" + repeated("0,", 20'000) + "0]}"};
  for (const std::string& text : texts) {
    SCOPED_TRACE(text.substr(0, 60));
    const StatusHost host(text);
    const Outcome words = run({"top", host.endpoint()});
    EXPECT_EQ(words.status, 0) << words.err;
    expect_harmless(words.out, "out");
    expect_harmless(words.err, "err");
    const Outcome json = run({"top", host.endpoint(), "--json"});
    EXPECT_EQ(json.status, 0) << json.err;
    EXPECT_NE(document(json).find("counters"), nullptr) << json.out.substr(0, 200);
  }
}

}  // namespace
}  // namespace outrider::cli_test
