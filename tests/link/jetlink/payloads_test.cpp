#include "link/jetlink/payloads.h"

#include <gtest/gtest.h>

#include <cmath>

#include "link/jetlink/bytes.h"

namespace outrider::link::jetlink {
namespace {

Json parsed(const std::string& text) {
  auto json = parse_payload(std::as_bytes(std::span(text)));
  EXPECT_TRUE(json) << text << ": " << json.error().text;
  return json ? std::move(json.value()) : Json();
}

TEST(JetlinkPayload, may_be_empty_and_must_be_an_object) {
  EXPECT_TRUE(parse_payload({}));
  for (const std::string text : {"[]", "3", "\"x\"", "{", "{}x", "null"})
    EXPECT_FALSE(parse_payload(std::as_bytes(std::span(text)))) << text;
  const std::string deep = "{\"a\":" + std::string(40, '[') + std::string(40, ']') + "}";
  EXPECT_FALSE(parse_payload(std::as_bytes(std::span(deep))));
}

TEST(JetlinkHello, carries_name_nonce_and_link) {
  const HelloReq in{"modeld", "0123abcd", "cable", "high-speed"};
  const HelloReq out = read_hello_req(parsed(to_json(in))).value();
  EXPECT_EQ(out.name, "modeld");
  EXPECT_EQ(out.nonce, "0123abcd");
  EXPECT_EQ(out.kind, "cable");
  EXPECT_EQ(out.usb_speed, "high-speed");
  EXPECT_TRUE(read_hello_req(parsed("{}")));
  EXPECT_FALSE(read_hello_req(parsed("{\"client\":3}")));
}

TEST(JetlinkHello, answer_has_every_key_a_device_reads) {
  HelloResp in;
  in.backend = "outrider";
  in.loaded = std::string(64, 'a');
  in.cached_models = {std::string(64, 'a'), std::string(64, 'b')};
  const std::string text = to_json(in);
  const Json json = parsed(text);
  for (const char* key : {"protocol", "backend", "runtime_version", "device", "engine_state",
                          "loaded", "frames_served", "cached_models", "telemetry", "sleep_after"})
    EXPECT_NE(json.find(key), nullptr) << key;
  EXPECT_EQ(json.find("frame_port"), nullptr) << "no offer, no key";
  EXPECT_TRUE(json.find("telemetry")->is_object());
  const HelloResp out = read_hello_resp(json).value();
  EXPECT_EQ(out.loaded, in.loaded);
  EXPECT_EQ(out.cached_models, in.cached_models);
  EXPECT_EQ(out.sleep_after, 0.0);
}

TEST(JetlinkHello, answer_without_sleep_after_means_one_second) {
  EXPECT_EQ(read_hello_resp(parsed("{}")).value().sleep_after, 1.0);
}

TEST(JetlinkHello, offer_of_datagrams_needs_a_token) {
  HelloResp in;
  in.frame_port = 5600;
  in.frame_token = 0x89ABCDEF;
  const HelloResp out = read_hello_resp(parsed(to_json(in))).value();
  EXPECT_EQ(out.frame_port, 5600);
  EXPECT_EQ(out.frame_token, 0x89ABCDEF);
  EXPECT_EQ(read_hello_resp(parsed("{\"frame_port\":5600}")).value().frame_port, 0);
}

TEST(JetlinkEngineReq, takes_a_digest_a_size_and_a_frame_skip_of_4_when_left_out) {
  const std::string sha(64, '0');
  const ModelId id = read_engine_req(parsed("{\"sha256\":\"" + sha + "\",\"nbytes\":7}")).value();
  EXPECT_EQ(id.frame_skip, 4u);
  EXPECT_EQ(id.nbytes, 7);
  const ModelId again = read_engine_req(parsed(to_json(ModelId{sha, 0, 2}))).value();
  EXPECT_EQ(again.frame_skip, 2u);
}

TEST(JetlinkEngineReq, is_refused_when_a_field_is_out_of_range) {
  const auto refused = [](const std::string& sha, const char* rest) {
    return !read_engine_req(parsed("{\"sha256\":\"" + sha + "\"" + rest + "}"));
  };
  const std::string sha(64, 'f');
  EXPECT_TRUE(refused(sha, ""));
  EXPECT_TRUE(refused(sha, ",\"nbytes\":-1"));
  EXPECT_TRUE(refused(sha, ",\"nbytes\":1e3"));
  EXPECT_TRUE(refused(sha, ",\"nbytes\":\"7\""));
  EXPECT_TRUE(refused(sha, ",\"nbytes\":7,\"frame_skip\":0"));
  EXPECT_TRUE(refused(sha, ",\"nbytes\":7,\"frame_skip\":-4"));
  EXPECT_TRUE(refused(std::string(64, 'F'), ",\"nbytes\":7"));
  EXPECT_TRUE(refused(std::string(63, 'f'), ",\"nbytes\":7"));
  EXPECT_TRUE(refused(std::string(65, 'f'), ",\"nbytes\":7"));
  EXPECT_TRUE(refused("../" + std::string(61, 'a'), ",\"nbytes\":7"));
}

TEST(JetlinkEngineResp, comes_back_as_it_went_in_every_state) {
  for (const EngineState state :
       {EngineState::kNone, EngineState::kNeedUpload, EngineState::kBuilding, EngineState::kReady,
        EngineState::kFailed}) {
    EngineResp in;
    in.state = state;
    in.detail = "have 7 of the \"model\"\n";
    if (state == EngineState::kReady) in.spec = tiny_queued();
    const Json json = parsed(to_json(in));
    EXPECT_TRUE(json.find("sha256")->is_null());
    const EngineResp out = read_engine_resp(json).value();
    EXPECT_EQ(out.state, state);
    EXPECT_EQ(out.chunk, 4u << 20);
    EXPECT_EQ(out.spec.has_value(), state == EngineState::kReady);
  }
  EXPECT_FALSE(read_engine_resp(parsed("{\"state\":\"other\"}")));
  EXPECT_FALSE(read_engine_resp(parsed("{}")));
  EXPECT_EQ(read_engine_resp(parsed("{\"state\":\"none\",\"chunk\":99999999999}")).value().chunk,
            kMaxPayloadBytes - 8);
}

TEST(JetlinkProgress, has_four_places) {
  EXPECT_EQ(to_json(Progress{"load", 1.0 / 3, "x"}),
            "{\"stage\":\"load\",\"frac\":0.3333,\"msg\":\"x\"}");
  EXPECT_EQ(parsed(to_json(Progress{"load", NAN, ""})).find("frac")->number(), 0);
  EXPECT_EQ(parsed(to_json(Progress{"load", 7, ""})).find("frac")->number(), 1);
}

TEST(JetlinkState, puts_the_telemetry_beside_the_rest) {
  StateResp in;
  in.telemetry = "{\"temp_c\":51}";
  in.state = EngineState::kReady;
  const Json json = parsed(to_json(in));
  EXPECT_EQ(json.find("temp_c")->integer(), 51);
  EXPECT_EQ(json.find("engine_state")->text(), "ready");
  in.telemetry = "{}";
  EXPECT_EQ(parsed(to_json(in)).find("frames_served")->integer(), 0);
}

TEST(JetlinkLeave, is_told_with_its_numbers) {
  const Json json = parsed("{\"reason\":\"behind\",\"drops\":2,\"p99_ms\":41.25,\"x\":\"y\"}");
  EXPECT_EQ(leave_text(json), "behind, drops 2, p99_ms 41.25");
  EXPECT_EQ(read_reason(parsed("{\"reason\":\"car\\u0007 battery\"}")), "car? battery");
  EXPECT_EQ(read_reason(parsed("{}")), "");
}

TEST(JetlinkText, is_always_json_whatever_bytes_it_has) {
  std::string all;
  for (int i = 0; i < 256; ++i) all += static_cast<char>(i);
  const ErrorResp out = read_error(parsed(to_json(ErrorResp{"bad_request", all}))).value();
  EXPECT_EQ(out.error, "bad_request");
  EXPECT_EQ(out.detail.size(), 256u);
  EXPECT_EQ(read_error(parsed(to_json(ErrorResp{"x", "Größe"}))).value().detail, "Größe");
}

}  // namespace
}  // namespace outrider::link::jetlink
