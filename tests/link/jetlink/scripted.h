// A backend whose models are scripts, a server in front of it, and the far end of a connection,
// message by message.
#pragma once
#include <gtest/gtest.h>

#include <cmath>
#include <condition_variable>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <mutex>

#include "base/sha256.h"
#include "link/jetlink/bytes.h"
#include "link/jetlink/server/server.h"
#include "support/temp_dir.h"

namespace outrider::link::jetlink {

// outputs[0] frames since the last reset, [1] the hidden state it was given, [2] packed[0], [3] the
// sum of the picture, [12..16) the new hidden state: one more than the last one that was kept.
// packed[0] infinite: not finite. packed[1] 666: fails.
class ScriptedEngine final : public Engine {
 public:
  explicit ScriptedEngine(const ModelSpec& spec) : sizes_(sizes_of(spec).value()) {
    outputs_.resize(sizes_.output);
  }
  Answer run(const Frame& frame) noexcept override {
    ++n_runs;
    if (frame.reset) reset();
    float packed[2];
    std::memcpy(packed, frame.packed.data(), sizeof packed);
    ++count_;
    float given = hidden_;
    if (!frame.prev_feat.empty()) std::memcpy(&given, frame.prev_feat.data(), sizeof given);
    if (packed[1] == 666) return {};
    std::fill(outputs_.begin(), outputs_.end(), 0.25f);
    outputs_[0] = static_cast<float>(count_);
    outputs_[1] = given;
    outputs_[2] = packed[0];
    outputs_[3] = 0;
    for (const std::byte b : frame.warped)
      outputs_[3] += static_cast<float>(std::to_integer<int>(b));
    for (uint64_t i = sizes_.hidden_start; i < sizes_.hidden_stop; ++i) outputs_[i] = given + 1;
    const bool finite = std::isfinite(packed[0]);
    if (finite) hidden_ = given + 1;
    return {finite ? Status::kOk : Status::kNotFinite, false, 1'000'000, 2'000'000, outputs_};
  }
  void forget_hidden() noexcept override { hidden_ = 0; }
  void reset() noexcept override { count_ = 0, hidden_ = 0; }
  std::string last_error() const override { return "the script says so"; }
  static inline std::atomic<int> n_runs{0};

 private:
  Sizes sizes_;
  std::vector<float> outputs_;
  int count_ = 0;
  float hidden_ = 0;
};

class ScriptedBackend final : public Backend {
 public:
  ScriptedBackend() { facts_ = {"script", "1", "cpu", "script1.cpu"}; }
  const BackendFacts& facts() const override { return facts_; }
  Result<ModelSpec> build(const std::string&, const ModelId& id, const Report& report) override {
    ++n_builds;
    std::unique_lock hold(lock_);
    wake_.wait(hold, [this] { return !held_; });
    report("build", 0.5, "half");
    if (!fail.empty()) return make_error(Code::kNotFound, "%s", fail.c_str());
    ModelSpec spec = tiny_queued();
    spec.id = id;
    return spec;
  }
  Result<std::unique_ptr<Engine>> load(const std::string&, const ModelSpec& spec,
                                       const Report&) override {
    ++n_loads;
    return std::unique_ptr<Engine>(std::make_unique<ScriptedEngine>(spec));
  }
  void hold() {
    std::scoped_lock at(lock_);
    held_ = true;
  }
  void release() {
    std::scoped_lock at(lock_);
    held_ = false;
    wake_.notify_all();
  }
  std::string fail;
  std::atomic<int> n_builds{0}, n_loads{0};

 private:
  BackendFacts facts_;
  std::mutex lock_;
  std::condition_variable wake_;
  bool held_ = false;
};

// The far end: sends what it is told to, shows what comes.
class FarEnd {
 public:
  FarEnd(const std::string& endpoint, uint16_t version = 3) {
    auto transport =
        connect_transport(parse_endpoint(endpoint).value(), steady_now_ns() + 5'000'000'000);
    EXPECT_TRUE(transport) << transport.error().text;
    stream = std::make_unique<Stream>(std::move(transport.value()), version);
  }
  uint32_t send(Type type, const std::string& body = "", uint32_t as_seq = 0) {
    if (as_seq == 0) as_seq = ++seq;
    const Piece pieces[] = {std::as_bytes(std::span(body))};
    EXPECT_EQ(stream->send(type, as_seq, pieces, steady_now_ns() + 5'000'000'000), Io::kDone);
    return as_seq;
  }
  // The next message; type 0 when none came.
  Header next(int64_t wait_ms = 5000) {
    Message message;
    payload.clear();
    got = stream->read(message, steady_now_ns() + wait_ms * 1'000'000);
    if (got != Got::kMessage) return {};
    payload.assign(reinterpret_cast<const char*>(message.payload.data()), message.payload.size());
    return message.header;
  }
  // The next message of this type, whatever comes before.
  Header next_of(Type type) {
    for (int i = 0; i < 1000; ++i) {
      const Header header = next();
      if (header.type == 0 || header.type == static_cast<uint16_t>(type)) return header;
    }
    return {};
  }
  Json json() const {
    auto read = parse_payload(std::as_bytes(std::span(payload)));
    EXPECT_TRUE(read) << payload;
    return read ? std::move(read.value()) : Json();
  }
  std::string text(const char* key) const {
    const Json all = json();
    const Json* value = all.find(key);
    return value == nullptr ? "(missing)" : value->is_null() ? "(null)" : value->text();
  }
  bool ended() {  // the connection is over soon
    for (int i = 0; i < 1000; ++i)
      if (next().type == 0) return got == Got::kEnded;
    return false;
  }

  std::string hello() {
    const uint32_t asked = send(Type::kHelloReq, to_json(HelloReq{"test", "00000000", "tcp", ""}));
    const Header header = next_of(Type::kHelloResp);
    EXPECT_EQ(header.seq, asked);
    return payload;
  }
  // State of the answer to an ENGINE_REQ.
  std::string engine(const ModelId& id) {
    const uint32_t asked = send(Type::kEngineReq, to_json(id));
    for (int i = 0; i < 100; ++i) {
      const Header header = next_of(Type::kEngineResp);
      if (header.type == 0 || header.seq == asked) break;
    }
    return text("state");
  }
  void upload(const std::string& bytes, size_t chunk = 400) {
    for (size_t at = 0; at < bytes.size(); at += chunk) {
      std::string piece(8, '\0');
      write_u64(reinterpret_cast<std::byte*>(piece.data()), at);
      send(Type::kUploadChunk, piece + bytes.substr(at, chunk));
    }
    send(Type::kUploadDone, "{}");
  }
  // Until an unasked ENGINE_RESP says ready or failed.
  std::string settled() {
    for (int i = 0; i < 100; ++i) {
      const Header header = next_of(Type::kEngineResp);
      if (header.type == 0) return "(nothing)";
      if (text("state") == "ready" || text("state") == "failed") return text("state");
    }
    return "(never)";
  }
  void make_ready(const ModelId& id, const std::string& bytes) {
    std::string state = engine(id);
    if (state == "need_upload") {
      upload(bytes);
      state = "building";
    }
    EXPECT_EQ(state == "ready" ? state : settled(), "ready");
  }

  static std::string frame(uint32_t id, uint32_t flags, float desire0 = 0, float desire1 = 0,
                           std::optional<float> prev_feat = std::nullopt) {
    const Sizes sizes = sizes_of(tiny_queued()).value();
    std::string out(kFrameHeadBytes + sizes.warped_bytes, '\1');
    encode(FrameHead{id, flags}, std::as_writable_bytes(std::span(out)));
    std::vector<float> packed(sizes.packed());
    packed[0] = desire0;
    packed[1] = desire1;
    if (prev_feat) packed.resize(packed.size() + sizes.prev_feat, *prev_feat);
    return out.append(reinterpret_cast<const char*>(packed.data()), packed.size() * 4);
  }
  // Sends and reads one frame; the reply's head, its floats in `floats`.
  ReplyHead infer(const std::string& request) {
    const uint32_t asked = send(Type::kInferReq, request);
    const Header header = next_of(Type::kInferResp);
    EXPECT_EQ(header.seq, asked);
    return reply();
  }
  ReplyHead reply() {
    floats.clear();
    if (payload.size() < kReplyHeadBytes) return {9999, 9999, 0, 0, 0};
    const size_t n = (payload.size() - kReplyHeadBytes) / 4;
    floats.resize(n);
    if (n > 0) std::memcpy(floats.data(), payload.data() + kReplyHeadBytes, n * 4);
    return decode_reply_head(std::as_bytes(std::span(payload)));
  }

  std::unique_ptr<Stream> stream;
  uint32_t seq = 0;
  std::string payload;
  std::vector<float> floats;
  Got got = Got::kMessage;
};

// Bytes of a model and what names them.
struct TestModel {
  explicit TestModel(uint32_t seed, uint32_t frame_skip = 4) : bytes(1000 + seed, '\0') {
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 31 + seed);
    id.sha256 = sha256_hex(std::as_bytes(std::span(bytes))).value();
    id.nbytes = static_cast<int64_t>(bytes.size());
    id.frame_skip = frame_skip;
  }
  std::string sha16() const { return id.sha256.substr(0, 16); }
  std::string bytes;
  ModelId id;
};

class JetlinkServer : public testing::Test {
 protected:
  void SetUp() override {
    options.listen = parse_endpoint("tcp://127.0.0.1:0").value();
    start();
  }
  void TearDown() override { stop(); }
  void start(bool preload = true) {
    auto cache = Cache::open(root.string(), backend.facts());
    ASSERT_TRUE(cache) << cache.error().text;
    host = std::make_unique<Host>(std::move(cache.value()), backend, clock);
    if (preload) host->preload();
    auto started = Server::start(options, *host, clock);
    ASSERT_TRUE(started) << started.error().text;
    server = std::move(started.value());
  }
  void stop() {
    server.reset();
    host.reset();
  }
  FarEnd connect(uint16_t version = 3) { return FarEnd(server->endpoint(), version); }
  FarEnd ready(uint16_t version = 3) {
    FarEnd far = connect(version);
    far.hello();
    far.make_ready(model.id, model.bytes);
    return far;
  }
  std::filesystem::path model_file(const TestModel& of) const {
    return root / "models" / (of.sha16() + ".onnx");
  }
  int n_built() const {
    int n = 0;
    for (const auto& entry : std::filesystem::directory_iterator(root / "engines"))
      n += entry.path().extension() == ".json" ? 1 : 0;
    return n;
  }

  MonotonicClock clock;
  test::TempDir folder;
  std::filesystem::path root = folder.path();
  ScriptedBackend backend;
  ServerOptions options;
  std::unique_ptr<Host> host;
  std::unique_ptr<Server> server;
  TestModel model{1}, other{2};
};

}  // namespace outrider::link::jetlink
