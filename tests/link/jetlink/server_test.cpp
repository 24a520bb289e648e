// Uploads, restarts, version 2, datagrams, hostile peers: a server with scripted models.
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <csignal>
#include <utility>

#include "base/input_file.h"
#include "link/jetlink/datagram.h"
#include "link/jetlink/scripted.h"
#include "support/log_lines.h"

namespace outrider::link::jetlink {
namespace {

// ---- messages ---------------------------------------------------------------------------------

TEST_F(JetlinkServer, answers_what_it_does_not_know_and_goes_on) {
  FarEnd far = connect();
  far.hello();
  for (const uint16_t type : {0, 2, 4, 7, 9, 10, 11, 13, 14, 16, 18, 20, 4711}) {
    const uint32_t seq = far.send(static_cast<Type>(type), "{}");
    EXPECT_EQ(far.next().seq, seq);
    EXPECT_EQ(far.text("error"), "unknown_message") << type;
  }
  far.send(Type::kPing);
  EXPECT_EQ(far.next().type, 16);
}

TEST_F(JetlinkServer, answers_bad_requests_and_goes_on) {
  FarEnd far = connect();
  far.hello();
  const std::string deep = "{\"sha256\":" + std::string(100, '[') + std::string(100, ']') + "}";
  for (const std::string& text :
       {std::string("{"), std::string("[]"), std::string("{}"), std::string("{\"sha256\":1}"), deep,
        std::string(70000, ' '), std::string("\xFF\xFE")}) {
    far.send(Type::kEngineReq, text);
    EXPECT_EQ(far.next().type, 14) << text.substr(0, 40);
    EXPECT_EQ(far.text("error"), "bad_request");
  }
  far.send(Type::kHelloReq, "{\"client\":[1]}");
  far.next();
  EXPECT_EQ(far.text("error"), "bad_request");
  far.send(Type::kPing);
  EXPECT_EQ(far.next().type, 16);
}

TEST_F(JetlinkServer, takes_an_empty_hello) {
  FarEnd far = connect();
  far.send(Type::kHelloReq);
  EXPECT_EQ(far.next().type, 2);
  EXPECT_EQ(far.text("backend"), "script");
  EXPECT_EQ(far.text("engine_state"), "none");
  EXPECT_EQ(far.text("loaded"), "(null)");
}

TEST_F(JetlinkServer, takes_a_leave_without_a_word) {
  FarEnd far = connect();
  far.hello();
  far.send(Type::kLeave, "{\"reason\":\"behind\",\"drops\":1}");
  far.send(Type::kPing);
  EXPECT_EQ(far.next().type, 16) << "nothing came before it";
  far.hello();
}

TEST_F(JetlinkServer, counts_frames_from_the_hello_on) {
  FarEnd far = ready();
  for (uint32_t i = 0; i < 3; ++i) far.infer(FarEnd::frame(i, 0));
  far.send(Type::kStateReq);
  far.next_of(Type::kStateResp);
  EXPECT_EQ(far.text("frames_served"), "3");
  EXPECT_EQ(far.text("engine_state"), "ready");
  EXPECT_EQ(far.text("loaded"), model.id.sha256);
  far.hello();
  far.send(Type::kStateReq, "{}");
  far.next_of(Type::kStateResp);
  EXPECT_EQ(far.text("frames_served"), "0");
  EXPECT_EQ(far.text("engine_state"), "none");
}

TEST_F(JetlinkServer, reports_a_frame_that_fails_and_goes_on) {
  FarEnd far = ready();
  const ReplyHead head = far.infer(FarEnd::frame(8, kWantState, 0, 666));
  EXPECT_EQ(head.status, 3u);
  EXPECT_EQ(head.frame_id, 8u);
  EXPECT_EQ(far.payload.substr(20), "{}") << "no outputs, the state that was asked for";
  EXPECT_EQ(far.infer(FarEnd::frame(9, 0)).status, 0u);
}

// ---- uploads ----------------------------------------------------------------------------------

std::string chunk(uint64_t offset, const std::string& bytes) {
  std::string out(8, '\0');
  write_u64(reinterpret_cast<std::byte*>(out.data()), offset);
  return out + bytes;
}

TEST_F(JetlinkServer, refuses_chunks_without_a_model_or_beyond_its_size) {
  FarEnd far = connect();
  far.hello();
  far.send(Type::kUploadChunk, chunk(0, "x"));
  far.next();
  EXPECT_EQ(far.text("error"), "no_model");
  far.send(Type::kUploadDone, "{}");
  far.next();
  EXPECT_EQ(far.text("error"), "no_model");
  EXPECT_EQ(far.engine(model.id), "need_upload");
  const auto n = static_cast<uint64_t>(model.id.nbytes);
  for (const auto& [offset, size] : {std::pair<uint64_t, size_t>{n, 1},
                                     {n - 1, 2},
                                     {0, n + 1},
                                     {UINT64_MAX, 1},
                                     {UINT64_MAX - 3, 8},
                                     {uint64_t{1} << 63, 1}}) {
    far.send(Type::kUploadChunk, chunk(offset, std::string(size, 'x')));
    far.next();
    EXPECT_EQ(far.text("error"), "bad_upload") << offset;
    EXPECT_FALSE(std::filesystem::exists(model_file(model))) << "nothing was written";
  }
  for (const size_t n_bytes : {0, 1, 7}) {
    far.send(Type::kUploadChunk, std::string(n_bytes, 'x'));
    far.next();
    EXPECT_EQ(far.text("error"), "bad_upload");
  }
  far.make_ready(model.id, model.bytes);
}

TEST_F(JetlinkServer, begins_a_file_anew_at_offset_0) {
  FarEnd far = connect();
  far.hello();
  EXPECT_EQ(far.engine(model.id), "need_upload");
  far.send(Type::kUploadChunk, chunk(0, std::string(900, 'x')));
  far.send(Type::kUploadChunk, chunk(0, "y"));
  EXPECT_EQ(far.engine(model.id), "need_upload");
  EXPECT_EQ(far.text("detail"), "have 1 of the model");
}

TEST_F(JetlinkServer, goes_on_with_a_partial_upload_on_another_connection) {
  {
    FarEnd far = connect();
    far.hello();
    EXPECT_EQ(far.engine(model.id), "need_upload");
    far.send(Type::kUploadChunk, chunk(0, model.bytes.substr(0, 500)));
    far.send(Type::kPing);
    EXPECT_EQ(far.next().type, 16);
  }
  FarEnd far = connect();
  far.hello();
  EXPECT_EQ(far.engine(model.id), "need_upload");
  EXPECT_EQ(far.text("detail"), "have 500 of the model");
  far.send(Type::kUploadChunk, chunk(500, model.bytes.substr(500)));
  far.send(Type::kUploadDone, "{}");
  EXPECT_EQ(far.settled(), "ready");
}

TEST_F(JetlinkServer, does_not_write_to_a_model_in_use) {
  FarEnd far = ready();
  far.send(Type::kUploadChunk, chunk(0, "x"));
  far.next();
  EXPECT_EQ(far.text("error"), "bad_upload");
  EXPECT_EQ(std::filesystem::file_size(model_file(model)), model.bytes.size());
  EXPECT_EQ(far.infer(FarEnd::frame(1, 0)).status, 0u);
}

TEST_F(JetlinkServer, tells_a_failed_build_and_tries_again_when_asked) {
  backend.fail = "the graph has an operator that is not known";
  FarEnd far = connect();
  far.hello();
  EXPECT_EQ(far.engine(model.id), "need_upload");
  far.upload(model.bytes);
  EXPECT_EQ(far.settled(), "failed");
  EXPECT_EQ(far.text("detail"), backend.fail);
  far.send(Type::kStateReq, "{}");
  far.next_of(Type::kStateResp);
  EXPECT_EQ(far.text("engine_state"), "failed");
  backend.fail.clear();
  EXPECT_EQ(far.engine(model.id), "building");
  EXPECT_EQ(far.settled(), "ready");
}

TEST_F(JetlinkServer, forgets_a_failed_build_whose_file_is_gone) {
  backend.fail = "no";
  FarEnd far = connect();
  far.hello();
  far.engine(model.id);
  far.upload(model.bytes);
  EXPECT_EQ(far.settled(), "failed");
  std::filesystem::remove(model_file(model));
  EXPECT_EQ(far.engine(model.id), "need_upload");
}

TEST_F(JetlinkServer, goes_on_to_the_model_its_client_asked_for_meanwhile) {
  std::ofstream(model_file(other)) << other.bytes;
  FarEnd far = connect();
  far.hello();
  far.engine(model.id);
  backend.hold();
  far.upload(model.bytes);
  far.next_of(Type::kEngineResp);
  EXPECT_EQ(far.engine(other.id), "building");
  backend.release();
  EXPECT_EQ(far.settled(), "ready");
  EXPECT_EQ(far.text("sha256"), other.id.sha256);
  EXPECT_EQ(host->loaded(), other.id.sha256);
}

TEST_F(JetlinkServer, attaches_a_client_that_comes_back_during_a_build) {
  backend.hold();
  {
    FarEnd far = connect();
    far.hello();
    far.engine(model.id);
    far.upload(model.bytes);
    far.next_of(Type::kEngineResp);
  }
  FarEnd far = connect();
  far.hello();
  EXPECT_EQ(far.engine(model.id), "building");
  backend.release();
  EXPECT_EQ(far.settled(), "ready");
  EXPECT_EQ(backend.n_builds, 1);
}

// ---- the folder -------------------------------------------------------------------------------

TEST_F(JetlinkServer, loads_what_was_loaded_last_when_it_starts) {
  ready();
  EXPECT_TRUE(std::filesystem::exists(root / "last-loaded.json"));
  stop();
  start();
  for (int i = 0; i < 500 && !host->loaded(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(host->loaded(), model.id.sha256);
  FarEnd far = connect();
  far.hello();
  EXPECT_EQ(far.text("loaded"), model.id.sha256);
}

TEST_F(JetlinkServer, names_its_files_by_16_digits_and_the_backends_tag) {
  ready();
  const std::string stem = model.sha16() + ".script1.cpu";
  EXPECT_TRUE(std::filesystem::exists(model_file(model)));
  EXPECT_TRUE(std::filesystem::exists(root / "engines" / (stem + ".plan")));
  std::ifstream in(root / "engines" / (stem + ".json"));
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  auto record = Json::parse(text);
  ASSERT_TRUE(record) << text;
  EXPECT_EQ(record.value().find("backend")->text(), "script");
  EXPECT_TRUE(spec_from_json(*record.value().find("spec")));
}

TEST_F(JetlinkServer, builds_again_what_is_damaged) {
  ready();
  stop();
  std::ofstream(root / "engines" / (model.sha16() + ".script1.cpu.plan")) << "something else";
  start();
  FarEnd far = connect();
  far.hello();
  EXPECT_EQ(far.json().find("cached_models")->items().size(), 0u);
  far.make_ready(model.id, model.bytes);
  EXPECT_EQ(backend.n_builds, 2);
}

TEST_F(JetlinkServer, keeps_the_six_newest_artifacts_and_every_model) {
  for (uint32_t i = 10; i < 18; ++i) {
    const TestModel m(i);
    FarEnd far = connect();
    far.hello();
    far.make_ready(m.id, m.bytes);
  }
  EXPECT_EQ(n_built(), 6);
  int models = 0;
  for (const auto& entry : std::filesystem::directory_iterator(root / "models"))
    models += entry.is_regular_file() ? 1 : 0;
  EXPECT_EQ(models, 8);
}

TEST_F(JetlinkServer, starts_with_records_that_make_no_sense) {
  ready();
  stop();
  for (const char* text : {"", "{", "{\"spec\":3}", "{\"spec\":{}}", "\xFF"}) {
    std::ofstream(root / "engines" / (model.sha16() + ".script1.cpu.json")) << text;
    std::ofstream(root / "last-loaded.json") << text;
    start();
    FarEnd far = connect();
    far.hello();
    EXPECT_EQ(far.json().find("cached_models")->items().size(), 0u) << text;
    stop();
  }
  start();
}

// ---- a folder with things of somebody else
// --------------------------------------------------------

// Where a link of that name led before, there is what was there before.
TEST_F(JetlinkServer, a_link_in_its_folder_is_not_followed_when_it_writes) {
  ready();
  stop();
  namespace fs = std::filesystem;
  const fs::path stem = root / "engines" / (model.sha16() + ".script1.cpu");
  const fs::path links[] = {root / "last-loaded.json", stem.string() + ".json",
                            stem.string() + ".plan"};
  for (const fs::path& link : links) {
    const fs::path target = link.string() + ".target";
    std::ofstream(target) << "mine";
    fs::remove(link);
    fs::create_symlink(target, link);
  }
  start();
  FarEnd far = ready();
  EXPECT_EQ(far.infer(FarEnd::frame(1, 0)).status, 0u) << "the model is served all the same";
  for (const fs::path& link : links) {
    EXPECT_TRUE(fs::is_symlink(link)) << link;
    EXPECT_EQ(read_file(link.string(), 100).value(), "mine") << link;
  }
}

// A record that cannot be kept costs the next start some time.
TEST_F(JetlinkServer, serves_a_model_whose_record_cannot_be_kept) {
  std::filesystem::create_directories(root / "engines" / (model.sha16() + ".script1.cpu.plan"));
  const test::LogLines log;
  FarEnd far = ready();
  EXPECT_EQ(far.infer(FarEnd::frame(1, 0)).status, 0u);
  EXPECT_NE(log.text().find("is served, but not kept"), std::string::npos) << log.text();
}

TEST_F(JetlinkServer, a_pipe_in_the_place_of_a_model_holds_nobody_and_stays) {
  ASSERT_EQ(::mkfifo(model_file(model).c_str(), 0600), 0);
  const test::LogLines log;
  FarEnd far = connect();
  far.hello();
  EXPECT_EQ(far.engine(model.id), "need_upload");
  far.send(Type::kUploadChunk, chunk(0, model.bytes));
  far.next();
  EXPECT_EQ(far.text("error"), "upload_failed");
  EXPECT_NE(far.text("detail").find("pipe"), std::string::npos) << far.text("detail");
  far.send(Type::kUploadDone, "{}");
  far.next_of(Type::kEngineResp);
  EXPECT_EQ(far.text("state"), "failed");
  EXPECT_TRUE(std::filesystem::is_fifo(model_file(model)));
  far.make_ready(other.id, other.bytes);
}

// ---- uploads that fail
// ----------------------------------------------------------------------------

TEST_F(JetlinkServer, an_upload_that_finds_no_room_leaves_nothing_and_one_line) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto old = std::signal(SIGXFSZ, SIG_IGN);
  const test::LogLines log;
  FarEnd far = connect();
  far.hello();
  EXPECT_EQ(far.engine(model.id), "need_upload");
  // A limit on file size stands in for a full disk.
  const rlimit small{600, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  for (const size_t at : {0, 400, 800}) {
    far.send(Type::kUploadChunk, chunk(at, model.bytes.substr(at, 400)));
    if (at == 0) continue;
    far.next();
    EXPECT_EQ(far.text("error"), "upload_failed") << at;
  }
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, old);
  EXPECT_FALSE(std::filesystem::exists(model_file(model)));
  const std::string text = log.text();
  const size_t first = text.find("upload of " + model.sha16() + " failed");
  ASSERT_NE(first, std::string::npos) << text;
  EXPECT_EQ(text.find("failed", first + 40), std::string::npos) << text;
  EXPECT_EQ(far.engine(model.id), "need_upload");
  far.upload(model.bytes);
  EXPECT_EQ(far.settled(), "ready") << "once there is room";
}

TEST_F(JetlinkServer, an_upload_of_other_bytes_is_told_to_the_far_end_and_in_the_log) {
  const test::LogLines log;
  FarEnd far = connect();
  far.hello();
  EXPECT_EQ(far.engine(model.id), "need_upload");
  far.upload(std::string(model.bytes.size(), 'x'));
  far.next_of(Type::kEngineResp);
  EXPECT_EQ(far.text("state"), "failed");
  EXPECT_NE(log.text().find("upload of " + model.sha16() + " failed: sha256 mismatch"),
            std::string::npos)
      << log.text();
  EXPECT_FALSE(std::filesystem::exists(model_file(model)));
}

// ---- version 2 --------------------------------------------------------------------------------

TEST_F(JetlinkServer, V2_is_served_on_the_same_port_and_answered_in_its_version) {
  FarEnd two = connect(2);
  two.hello();
  EXPECT_EQ(two.text("protocol"), "2");
  EXPECT_EQ(two.stream->version(), 2);
  FarEnd three = connect(3);
  three.hello();
  EXPECT_EQ(three.text("protocol"), "3");
}

TEST_F(JetlinkServer, V2_pings_before_hello_are_answered) {
  FarEnd far = connect(2);
  far.send(Type::kPing);
  EXPECT_EQ(far.next().type, 16);
}

TEST_F(JetlinkServer, V2_sends_the_hidden_state_and_gets_the_whole_vector) {
  FarEnd far = ready(2);
  ReplyHead head = far.infer(FarEnd::frame(1, kResetQueues, 0, 0, 41.0f));
  EXPECT_EQ(head.status, 0u);
  ASSERT_EQ(far.floats.size(), 20u);
  EXPECT_EQ(far.floats[1], 41) << "what the device sent, not what the host kept";
  EXPECT_EQ(far.floats[12], 42);
  head = far.infer(FarEnd::frame(2, kWantHidden, 0, 0, 7.0f));
  EXPECT_EQ(far.floats.size(), 20u) << "WANT_HIDDEN is not known and changes nothing";
  EXPECT_EQ(far.floats[1], 7);
  EXPECT_EQ(far.infer(FarEnd::frame(3, 0)).status, 2u) << "a frame of version 3 is too short";
}

TEST_F(JetlinkServer, V2_frames_that_fail_are_an_error_message) {
  FarEnd far = ready(2);
  const uint32_t seq = far.send(Type::kInferReq, FarEnd::frame(1, 0, 0, 666, 0.0f));
  EXPECT_EQ(far.next().seq, seq);
  EXPECT_EQ(far.text("error"), "RuntimeError");
  EXPECT_EQ(far.text("detail"), "the script says so");
}

TEST_F(JetlinkServer, V2_does_not_know_leave) {
  FarEnd far = connect(2);
  far.hello();
  far.send(Type::kLeave, "{\"reason\":\"behind\"}");
  far.next();
  EXPECT_EQ(far.text("error"), "unknown_message");
}

TEST_F(JetlinkServer, V2_pads_at_1024) {
  FarEnd far = connect(2);
  far.hello();
  // 992 bytes of payload end on 1024 with the header; 480 end on 512 and are not padded.
  for (const size_t n : {size_t{992}, size_t{480}}) {
    far.send(Type::kShutdownReq, "{\"reason\":\"" + std::string(n - 13, 'x') + "\"}");
    EXPECT_EQ(far.next().type, 18);
  }
  far.send(Type::kPing);
  EXPECT_EQ(far.next().type, 16);
}

TEST_F(JetlinkServer, V2_newcomers_wait_where_those_of_version_3_take_over) {
  FarEnd first = connect(3);
  first.hello();
  FarEnd second = connect(2);
  second.send(Type::kPing);
  EXPECT_EQ(second.next(200).type, 0) << "it waits";
  first.send(Type::kPing);
  EXPECT_EQ(first.next().type, 16) << "the served one is served on";
  FarEnd third = connect(3);
  third.hello();
  EXPECT_TRUE(first.ended());
  third.stream->transport().shut();
  EXPECT_EQ(second.next().type, 16) << "its turn";
}

TEST_F(JetlinkServer, V2_and_3_can_be_refused) {
  for (const uint16_t only : {kVersion2, kVersion3}) {
    stop();
    options.version = only;
    start();
    FarEnd good = connect(only);
    good.hello();
    FarEnd bad = connect(only == kVersion2 ? kVersion3 : kVersion2);
    bad.send(Type::kHelloReq);
    EXPECT_TRUE(bad.ended());
    good.send(Type::kPing);
    EXPECT_EQ(good.next().type, 16);
  }
}

// ---- datagrams --------------------------------------------------------------------------------

class JetlinkDatagrams : public JetlinkServer {
 protected:
  void SetUp() override {
    options.datagrams_everywhere = true;
    JetlinkServer::SetUp();
    fd = Fd(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  }
  void offered(FarEnd& far) {
    far.hello();
    const HelloResp hello = read_hello_resp(far.json()).value();
    port = hello.frame_port;
    token = hello.frame_token;
    ASSERT_NE(port, 0);
    ASSERT_NE(token, 0u);
  }
  // Sends the pieces of one frame, without those in `lost`.
  void send_frame(FarEnd& far, const std::string& payload, std::vector<uint32_t> lost = {}) {
    Header header{3, 8, ++far.seq, 0, static_cast<uint32_t>(payload.size())};
    const uint32_t pad = add_pad(header, 1);
    std::string message(kHeaderBytes, '\0');
    encode_header(header, std::as_writable_bytes(std::span(message)));
    message += payload + std::string(pad, '\0');
    const auto total = static_cast<uint32_t>(message.size());
    for (uint32_t i = 0; i < n_pieces(total); ++i) {
      if (std::ranges::find(lost, i) != lost.end()) continue;
      const PieceRange range = piece_range(total, i);
      std::string piece(kPieceHeadBytes, '\0');
      encode(PieceHead{kDatagramMagic, token, header.seq, range.offset, total},
             std::as_writable_bytes(std::span(piece)));
      piece += message.substr(range.offset, range.bytes);
      sockaddr_in to{};
      to.sin_family = AF_INET;
      to.sin_port = htons(port);
      to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      ::sendto(fd.get(), piece.data(), piece.size(), 0, reinterpret_cast<sockaddr*>(&to),
               sizeof to);
    }
  }
  Fd fd;
  uint16_t port = 0;
  uint32_t token = 0;
};

TEST_F(JetlinkDatagrams, I19_a_lost_piece_is_a_frame_that_never_ran) {
  FarEnd far = connect();
  offered(far);
  far.make_ready(model.id, model.bytes);
  send_frame(far, FarEnd::frame(1, 0));
  EXPECT_EQ(far.next_of(Type::kInferResp).seq, far.seq);
  EXPECT_EQ(far.reply().frame_id, 1u);
  EXPECT_EQ(far.floats[0], 1);
  send_frame(far, FarEnd::frame(2, 0), {0});
  EXPECT_EQ(far.next(200).type, 0);
  send_frame(far, FarEnd::frame(3, 0));
  EXPECT_EQ(far.next_of(Type::kInferResp).seq, far.seq);
  EXPECT_EQ(far.reply().frame_id, 3u);
  EXPECT_EQ(far.floats[0], 2) << "the history goes on without it";
  far.send(Type::kPing);
  EXPECT_EQ(far.next().type, 16);
}

TEST_F(JetlinkDatagrams, with_an_old_token_run_nothing) {
  FarEnd far = connect();
  offered(far);
  far.make_ready(model.id, model.bytes);
  const uint32_t old = token;
  offered(far);
  EXPECT_NE(token, old) << "renewed at every hello";
  far.make_ready(model.id, model.bytes);
  const uint32_t fresh = std::exchange(token, old);
  send_frame(far, FarEnd::frame(1, 0));
  EXPECT_EQ(far.next(200).type, 0);
  token = fresh;
  send_frame(far, FarEnd::frame(2, 0));
  EXPECT_EQ(far.next_of(Type::kInferResp).seq, far.seq);
  EXPECT_EQ(far.reply().frame_id, 2u);
  EXPECT_EQ(far.floats[0], 1) << "the first that ran";
}

TEST_F(JetlinkDatagrams, carry_nothing_but_frames) {
  FarEnd far = connect();
  offered(far);
  Header header{3, 17, ++far.seq, 0, 0};
  std::string message(kHeaderBytes, '\0');
  encode_header(header, std::as_writable_bytes(std::span(message)));
  std::string piece(kPieceHeadBytes, '\0');
  encode(PieceHead{kDatagramMagic, token, header.seq, 0, kHeaderBytes},
         std::as_writable_bytes(std::span(piece)));
  piece += message;
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(port);
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ::sendto(fd.get(), piece.data(), piece.size(), 0, reinterpret_cast<sockaddr*>(&to), sizeof to);
  EXPECT_EQ(far.next(200).type, 0) << "a SHUTDOWN_REQ comes by stream or not at all";
  far.make_ready(model.id, model.bytes);
  send_frame(far, FarEnd::frame(1, 0));
  EXPECT_EQ(far.next_of(Type::kInferResp).seq, far.seq) << "the same way, a frame";
}

TEST_F(JetlinkServer, offers_datagrams_on_the_cable_alone) {
  FarEnd far = connect();
  far.hello();
  EXPECT_EQ(far.json().find("frame_port"), nullptr);
}

// ---- hostile peers ----------------------------------------------------------------------------

TEST_F(JetlinkServer, outlives_connections_that_are_cut_at_every_byte) {
  FarEnd far = ready();
  std::string all(kHeaderBytes, '\0');
  const std::string hello = to_json(HelloReq{"cut", "0", "tcp", ""});
  encode_header({3, 1, 1, 0, static_cast<uint32_t>(hello.size())},
                std::as_writable_bytes(std::span(all)));
  all += hello;
  for (size_t n = 1; n < all.size(); ++n) {
    FarEnd cut = connect();
    const Piece pieces[] = {std::as_bytes(std::span(all)).first(n)};
    cut.stream->transport().send(pieces, kForever);
    cut.stream->transport().shut();
  }
  FarEnd next = connect();
  next.hello();
  EXPECT_EQ(next.engine(model.id), "ready");
  EXPECT_EQ(next.infer(FarEnd::frame(1, 0)).status, 0u);
}

TEST_F(JetlinkServer, drops_a_peer_that_does_not_read_when_another_comes) {
  FarEnd deaf = ready();
  const std::string frame = FarEnd::frame(1, kWantHidden);
  const Piece pieces[] = {std::as_bytes(std::span(frame))};
  const auto sent = [&] {
    return deaf.stream->send(Type::kInferReq, ++deaf.seq, pieces, steady_now_ns() + 200'000'000) ==
           Io::kDone;
  };
  // Until the system holds no more of either direction: the host waits for this peer to read.
  int n = 0;
  while (n < 400'000 && sent()) ++n;
  ASSERT_LT(n, 400'000) << "nobody waited for anybody";
  FarEnd next = connect();
  next.hello();
  EXPECT_EQ(next.engine(model.id), "ready");
  EXPECT_EQ(server->takeovers(), 1u);
}

}  // namespace
}  // namespace outrider::link::jetlink
