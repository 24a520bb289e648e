// provider_link.so as a host program loads it, in front of the server with scripted models: the
// commands from outside.
#include "cli/support.h"
#include "link/jetlink/scripted.h"
#include "link/serve_process.h"

namespace outrider::link::jetlink {
namespace {

using cli_test::Outcome;

const std::string kProvider = OUTRIDER_BUILD_DIR "/lib/provider_link.so";

class JetlinkRemote : public JetlinkServer {
 protected:
  std::string config(const std::string& more = "") {
    const std::string path = (root / "remote.json").string();
    return cli_test::write(path,
                           "{\"model_family\":\"remote\",\"dialect\":\"jetlink\",\"endpoint\":\"" +
                               server->endpoint() + "\",\"deadline_ms\":5000" + more + "}");
  }
};

TEST_F(JetlinkRemote, passes_the_conformance_suite) {
  ready();
  const Outcome outcome = cli_test::run({"conform", kProvider, config(",\"model\":\"default\"")});
  EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  EXPECT_NE(outcome.out.find(", 0 failed"), std::string::npos) << outcome.out;
}

TEST_F(JetlinkRemote, uploads_the_file_it_is_given) {
  const std::string file = cli_test::write((root / "model.onnx").string(), model.bytes);
  const Outcome outcome =
      cli_test::run({"conform", kProvider, config(",\"model\":\"" + file + "\"")});
  EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  EXPECT_EQ(host->loaded(), model.id.sha256);
}

TEST_F(JetlinkRemote, refuses_a_configuration_that_does_not_fit_the_dialect) {
  ready();
  const std::pair<const char*, const char*> rows[] = {
      {R"(,"model":"default","key_file":"x")", R"("key_file" does not go with dialect "jetlink")"},
      {R"(,"model":"default","build_ms":0)", R"("build_ms" is 0, allowed: a whole number)"},
      {R"(,"model":"default","frame_skip":65)", R"("frame_skip" is 65, allowed: a whole number)"},
      {R"(,"model":"default","desire":"x")", R"("desire" is "x", allowed: "level" or "pulse")"},
      {"", R"("model" is missing)"},
      {R"(,"model":"default","wire":3)", R"(unknown key "wire")"}};
  for (const auto& [more, says] : rows) {
    const Outcome outcome = cli_test::run({"conform", kProvider, config(more)});
    EXPECT_NE(outcome.status, 0) << more;
    EXPECT_NE((outcome.out + outcome.err).find(says), std::string::npos)
        << more << "\n"
        << outcome.out << outcome.err;
  }
}

// ---- the command, with tiny driving graphs -----------------------------------------------------

class JetlinkCommand : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    folder = cli_test::scratch(std::string("jetlink-") + GetParam());
    model = folder + "/driving.onnx";
    const Outcome made =
        cli_test::run({"make-model", "driving", model, "--size", "tiny", "--layout", GetParam()});
    ASSERT_EQ(made.status, 0) << made.err;
  }
  std::vector<std::string> words(std::vector<std::string> more = {}) const {
    std::vector<std::string> all = {"--backend", "ort",     "--device",       "cpu",
                                    "--listen",  "--host",  "127.0.0.1",      "--port",
                                    "0",         "--cache", folder + "/cache"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  std::string remote(const std::string& endpoint, const std::string& of) const {
    return cli_test::write(folder + "/remote.json",
                           "{\"model_family\":\"remote\",\"dialect\":\"jetlink\",\"endpoint\":\"" +
                               endpoint + "\",\"deadline_ms\":5000,\"model\":\"" + of + "\"}");
  }
  ModelId id() const {
    const std::string bytes = cli_test::read(model);
    return {sha256_hex(std::as_bytes(std::span(bytes))).value(), static_cast<int64_t>(bytes.size()),
            4};
  }
  std::string folder, model;
};

TEST_P(JetlinkCommand, serves_what_a_device_uploads_and_passes_conform) {
  here::ServeProcess serve(words());
  ASSERT_TRUE(serve.is_there()) << serve.line();
  const Outcome outcome = cli_test::run({"conform", kProvider, remote(serve.endpoint(), model)});
  EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  EXPECT_NE(outcome.out.find(", 0 failed"), std::string::npos) << outcome.out;
  FarEnd far(serve.endpoint());
  far.hello();
  EXPECT_EQ(far.text("backend"), "ort");
  EXPECT_EQ(far.text("loaded"), id().sha256);
  EXPECT_EQ(serve.end(), 0) << "SIGTERM ends it in order";
}

TEST_P(JetlinkCommand, serves_both_versions_the_same_numbers) {
  here::ServeProcess serve({model, "--jetlink", "--port", "0", "--cache", folder + "/cache2"});
  ASSERT_TRUE(serve.is_there()) << serve.line();
  std::vector<float> outputs[2];
  for (const uint16_t version : {kVersion3, kVersion2}) {
    FarEnd far(serve.endpoint(), version);
    far.hello();
    const std::string state = far.engine(id());
    EXPECT_EQ(state == "ready" ? state : far.settled(), "ready");
    ASSERT_EQ(far.engine(id()), "ready");
    auto spec = spec_from_json(*far.json().find("spec"));
    ASSERT_TRUE(spec) << spec.error().text;
    const Sizes sizes = sizes_of(spec.value()).value();
    std::string request(sizes.request_bytes(version), '\0');
    for (size_t i = kFrameHeadBytes; i < kFrameHeadBytes + sizes.warped_bytes; ++i)
      request[i] = static_cast<char>(i * 7 % 251);
    std::vector<float> hidden;
    for (uint32_t frame = 1; frame < 8; ++frame) {
      encode(FrameHead{frame, (frame == 1 ? kResetQueues : 0) | kWantHidden},
             std::as_writable_bytes(std::span(request)));
      if (version == kVersion2 && sizes.prev_feat != 0 && !hidden.empty())
        std::memcpy(request.data() + request.size() - 4 * hidden.size(), hidden.data(),
                    4 * hidden.size());
      const ReplyHead head = far.infer(request);
      ASSERT_EQ(head.status, 0u);
      EXPECT_EQ(head.frame_id, frame);
      ASSERT_EQ(far.floats.size(), sizes.output);
      hidden.assign(far.floats.begin() + static_cast<long>(sizes.hidden_start),
                    far.floats.begin() + static_cast<long>(sizes.hidden_stop));
    }
    outputs[version - 2] = far.floats;
  }
  EXPECT_EQ(outputs[0], outputs[1]);
}

INSTANTIATE_TEST_SUITE_P(Layouts, JetlinkCommand, testing::Values("queued", "stateful"));

TEST(JetlinkWords, says_what_does_not_go_together) {
  const std::string folder = cli_test::scratch("jetlink-words");
  const std::pair<std::vector<std::string>, const char*> rows[] = {
      {{"serve"}, "serve: "},
      {{"serve", "--jetlink", "--key-file", "x"}, "--key-file does not go with --jetlink"},
      {{"serve", "--jetlink", "--backend", "trt"}, "--backend trt: allowed with --jetlink"},
      {{"serve", "--jetlink", "--device", "cuda"}, "--device cuda: allowed with --jetlink"},
      {{"serve", "--jetlink", "--port", "65536"}, "--port"},
      {{"serve", "--jetlink", "--wire", "1"}, "--wire"},
      {{"serve", "--jetlink", "--listen", "usb:"}, "usb:"},
      {{"serve", "--jetlink", "--listen", "tcp://0.0.0.0:0", "--cache", folder}, "--plaintext"}};
  for (const auto& [line, says] : rows) {
    const Outcome outcome = cli_test::run(line);
    EXPECT_EQ(outcome.status, 2) << line.back() << ": " << outcome.err;
    EXPECT_NE(outcome.err.find(says), std::string::npos) << line.back() << ": " << outcome.err;
  }
  for (const char* flag : {"--usb", "--dial=192.168.60.1"}) {
    const Outcome outcome = cli_test::run({"serve", "--jetlink", flag});
    EXPECT_EQ(outcome.status, 1) << flag << ": cannot serve, and no mistake";
    EXPECT_NE(outcome.err.find("serves Jetlink over TCP alone"), std::string::npos) << outcome.err;
  }
}

}  // namespace
}  // namespace outrider::link::jetlink
