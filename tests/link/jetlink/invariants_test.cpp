// What every server of this protocol does, over real sockets. The numbers are those of the list of
// invariants in docs/reference/jetlink.md.
#include "link/jetlink/scripted.h"

namespace outrider::link::jetlink {
namespace {

TEST_F(JetlinkServer, I01_a_wrong_magic_version_or_length_ends_the_connection) {
  for (const auto& [at, value] : {std::pair<size_t, uint8_t>{0, 0}, {4, 7}, {19, 0xFF}}) {
    for (const bool first : {true, false}) {
      FarEnd far = connect();
      if (!first) far.hello();
      std::array<std::byte, kHeaderBytes> bytes;
      encode_header({3, 15, 9, 0, 0}, bytes);
      bytes[at] = std::byte{value};
      const Piece pieces[] = {bytes};
      ASSERT_EQ(far.stream->transport().send(pieces, kForever).io, Io::kDone);
      EXPECT_TRUE(far.ended()) << at;
    }
  }
  FarEnd next = connect();
  next.hello();
  EXPECT_EQ(next.text("protocol"), "3") << "and the next one is served";
}

TEST_F(JetlinkServer, I02_a_message_that_would_end_on_512_carries_one_pad_byte) {
  FarEnd far = ready();
  // The far end's own stream pads; 480 bytes of JSON make 512 with the header.
  std::string reason = "{\"reason\":\"" + std::string(480 - 13, 'x') + "\"}";
  ASSERT_EQ(reason.size(), 480u);
  far.send(Type::kShutdownReq, reason);
  EXPECT_EQ(far.next_of(Type::kShutdownResp).type, 18);
  far.send(Type::kPing);
  EXPECT_EQ(far.next_of(Type::kPong).type, 16) << "the stream is in step behind the pad byte";
}

TEST_F(JetlinkServer, I03_a_repeated_seq_is_dropped_and_a_hello_always_answered) {
  FarEnd far = connect();
  far.seq = 5000;
  far.hello();
  far.send(Type::kPing, "", 5002);
  EXPECT_EQ(far.next().type, 16);
  far.send(Type::kPing, "", 5002);
  far.send(Type::kPing, "", 4000);
  EXPECT_EQ(far.next(200).type, 0) << "both are repetitions";
  far.seq = 0;
  far.hello();  // seq 1
  far.send(Type::kPing, "", 1);
  EXPECT_EQ(far.next(200).type, 0) << "the hello's own number";
  far.send(Type::kPing, "", 2);
  EXPECT_EQ(far.next().seq, 2u);
}

TEST_F(JetlinkServer, I04_a_ping_before_hello_or_engine_req_is_no_hello) {
  FarEnd far = connect();
  const uint32_t seq = far.send(Type::kPing);
  EXPECT_EQ(far.next().seq, seq);
  EXPECT_EQ(far.text("error"), "no_hello");
  EXPECT_EQ(far.engine(model.id), "need_upload");
  far.send(Type::kPing);
  EXPECT_EQ(far.next().type, 16) << "an ENGINE_REQ makes it known too";
}

TEST_F(JetlinkServer, I05_an_engine_req_is_answered_resident_running_built_whole_missing) {
  FarEnd far = connect();
  far.hello();
  EXPECT_EQ(far.engine(model.id), "need_upload");
  EXPECT_EQ(far.text("detail"), "have 0 of the model");
  EXPECT_EQ(far.text("chunk"), "4194304");
  backend.hold();
  far.upload(model.bytes);
  EXPECT_EQ(far.next_of(Type::kEngineResp).type, 4);
  EXPECT_EQ(far.text("state"), "building");
  EXPECT_EQ(far.engine(model.id), "building") << "its own job runs";
  EXPECT_EQ(far.engine(other.id), "building") << "another job runs";
  EXPECT_EQ(far.text("detail"), "another build is in progress (" + model.sha16() + ")");
  EXPECT_EQ(far.engine(model.id), "building");
  backend.release();
  EXPECT_EQ(far.settled(), "ready");
  EXPECT_EQ(far.engine(model.id), "ready") << "resident";
  EXPECT_NE(far.json().find("spec"), nullptr);
  ModelId skip = model.id;
  skip.frame_skip = 2;
  EXPECT_EQ(far.engine(skip), "building") << "another frame_skip is another engine";
  EXPECT_EQ(far.settled(), "ready");
  EXPECT_EQ(backend.n_builds, 2);
  // Whole on the disk, never built: no upload.
  std::ofstream(model_file(other)) << other.bytes;
  EXPECT_EQ(far.engine(other.id), "building");
  EXPECT_EQ(far.settled(), "ready");
}

TEST_F(JetlinkServer,
       I05_what_was_built_is_loaded_without_building_and_a_state_req_starts_nothing) {
  ready();
  stop();
  start(false);
  EXPECT_EQ(backend.n_builds, 1);
  FarEnd far = connect();
  far.hello();
  EXPECT_EQ(far.json().find("cached_models")->items().size(), 1u);
  const int loads = backend.n_loads;
  far.send(Type::kStateReq, "{}");
  far.next_of(Type::kStateResp);
  EXPECT_EQ(far.text("engine_state"), "none");
  EXPECT_EQ(backend.n_loads, loads);
  EXPECT_EQ(far.engine(model.id), "building");
  EXPECT_EQ(far.settled(), "ready");
  EXPECT_EQ(backend.n_builds, 1);
  EXPECT_EQ(backend.n_loads, loads + 1);
}

TEST_F(JetlinkServer, I06_a_partial_file_is_need_upload_and_never_read) {
  std::ofstream(model_file(model)) << model.bytes.substr(0, 600);
  FarEnd far = connect();
  far.hello();
  EXPECT_EQ(far.engine(model.id), "need_upload");
  EXPECT_EQ(far.text("detail"), "have 600 of the model");
  EXPECT_EQ(backend.n_builds, 0);
}

TEST_F(JetlinkServer, I07_a_wrong_hash_deletes_the_file) {
  FarEnd far = connect();
  far.hello();
  EXPECT_EQ(far.engine(model.id), "need_upload");
  std::string wrong = model.bytes;
  wrong[500] = static_cast<char>(wrong[500] ^ 1);
  far.upload(wrong);
  far.next_of(Type::kEngineResp);
  EXPECT_EQ(far.text("state"), "failed");
  EXPECT_EQ(far.text("detail"), "sha256 mismatch after upload");
  EXPECT_FALSE(std::filesystem::exists(model_file(model)));
  EXPECT_EQ(backend.n_builds, 0);
  far.make_ready(model.id, model.bytes);
}

TEST_F(JetlinkServer, I07_a_file_of_the_right_size_and_another_content_is_not_run_either) {
  std::string wrong = model.bytes;
  wrong[0] = static_cast<char>(wrong[0] ^ 1);
  std::ofstream(model_file(model)) << wrong;
  FarEnd far = connect();
  far.hello();
  EXPECT_EQ(far.engine(model.id), "building");
  // The client hears of it, and that the file is gone.
  for (int i = 0; i < 10 && far.text("state") != "need_upload"; ++i) far.next_of(Type::kEngineResp);
  EXPECT_EQ(far.text("state"), "need_upload");
  EXPECT_FALSE(std::filesystem::exists(model_file(model)));
  EXPECT_EQ(backend.n_builds, 0);
}

TEST_F(JetlinkServer, I08_what_nobody_asked_for_has_seq_0) {
  FarEnd far = connect();
  far.hello();
  const uint32_t asked = far.send(Type::kEngineReq, to_json(model.id));
  far.next_of(Type::kEngineResp);
  far.upload(model.bytes);
  const uint32_t done = far.seq;
  int progress = 0, answers = 0;
  for (int i = 0; i < 50; ++i) {
    const Header header = far.next();
    ASSERT_NE(header.type, 0);
    if (header.type == 7) {
      EXPECT_EQ(header.seq, 0u);
      ++progress;
    } else {
      ASSERT_EQ(header.type, 4);
      EXPECT_EQ(header.seq, answers == 0 ? done : 0u);
      ++answers;
      if (far.text("state") == "ready") break;
    }
  }
  EXPECT_GT(progress, 0);
  EXPECT_EQ(answers, 2);
  EXPECT_NE(asked, done);
}

TEST_F(JetlinkServer, I09_frame_skip_is_part_of_which_engine_it_is) {
  FarEnd far = ready();
  EXPECT_EQ(far.infer(FarEnd::frame(1, 0)).status, 0u);
  ModelId skip = model.id;
  skip.frame_skip = 2;
  backend.hold();
  EXPECT_EQ(far.engine(skip), "building");
  EXPECT_EQ(far.infer(FarEnd::frame(2, 0)).status, 1u) << "NOT_READY";
  backend.release();
  EXPECT_EQ(far.settled(), "ready");
  EXPECT_EQ(far.infer(FarEnd::frame(3, 0)).status, 0u);
}

TEST_F(JetlinkServer, I10_a_frame_of_another_length_is_bad_shape_and_runs_nothing) {
  FarEnd far = ready();
  const std::string good = FarEnd::frame(7, 0);
  const int runs = ScriptedEngine::n_runs;
  for (const size_t n : {size_t{0}, size_t{7}, size_t{8}, good.size() - 1}) {
    const ReplyHead head = far.infer(good.substr(0, n));
    EXPECT_EQ(head, (ReplyHead{0, 2, 0, 0, 0})) << n;
    EXPECT_TRUE(far.floats.empty());
  }
  EXPECT_EQ(far.infer(good + "x").status, 2u);
  EXPECT_EQ(far.infer(good + std::string(4096, 'x')).status, 2u);
  EXPECT_EQ(ScriptedEngine::n_runs, runs);
  EXPECT_EQ(far.infer(good).frame_id, 7u);
  EXPECT_EQ(far.floats[0], 1) << "the history knows of none of them";
}

TEST_F(JetlinkServer, I11_reset_clears_before_the_frame) {
  FarEnd far = ready();
  for (uint32_t i = 1; i < 4; ++i) {
    far.infer(FarEnd::frame(i, 0));
    EXPECT_EQ(far.floats[0], static_cast<float>(i));
    EXPECT_EQ(far.floats[1], static_cast<float>(i - 1));
  }
  far.infer(FarEnd::frame(4, kResetQueues));
  EXPECT_EQ(far.floats[0], 1);
  EXPECT_EQ(far.floats[1], 0);
}

TEST_F(JetlinkServer, I12_a_hello_keeps_the_queues_and_zeroes_the_hidden_state) {
  FarEnd far = ready();
  for (uint32_t i = 1; i < 4; ++i) far.infer(FarEnd::frame(i, 0));
  far.hello();
  EXPECT_EQ(far.infer(FarEnd::frame(4, 0)).status, 1u) << "the hello forgot what was asked for";
  EXPECT_EQ(far.engine(model.id), "ready");
  far.infer(FarEnd::frame(5, 0));
  EXPECT_EQ(far.floats[0], 4);
  EXPECT_EQ(far.floats[1], 0);
}

TEST_F(JetlinkServer, I13_not_finite_is_told_with_its_outputs_and_keeps_the_last_good_hidden) {
  FarEnd far = ready();
  far.infer(FarEnd::frame(1, 0));
  const ReplyHead head = far.infer(FarEnd::frame(2, 0, INFINITY));
  EXPECT_EQ(head.status, 4u);
  EXPECT_EQ(head.frame_id, 2u);
  EXPECT_EQ(far.floats.size(), 16u);
  far.infer(FarEnd::frame(3, 0));
  EXPECT_EQ(far.floats[1], 1) << "that of frame 1";
  EXPECT_EQ(far.floats[0], 3) << "what was pushed stays pushed";
}

TEST_F(JetlinkServer, I14_a_reply_has_the_hidden_state_and_telemetry_only_when_asked) {
  stop();
  options.session.telemetry = [] { return std::string("{\"temp_c\":51}"); };
  start();
  FarEnd far = ready();
  const std::string state = "{\"temp_c\":51}";
  EXPECT_EQ(far.infer(FarEnd::frame(1, kResetQueues)).status, 0u);
  EXPECT_EQ(far.payload.size(), 20u + 16 * 4);
  const std::vector<float> compact = far.floats;
  far.infer(FarEnd::frame(2, kResetQueues | kWantHidden));
  EXPECT_EQ(far.payload.size(), 20u + 20 * 4);
  std::vector<float> cut = far.floats;
  cut.erase(cut.begin() + 12, cut.begin() + 16);
  EXPECT_EQ(cut, compact);
  far.infer(FarEnd::frame(3, kWantState));
  EXPECT_EQ(far.payload.substr(20 + 16 * 4), state);
  far.infer(FarEnd::frame(4, kWantState | kWantHidden));
  EXPECT_EQ(far.payload.substr(20 + 20 * 4), state);
  const ReplyHead head = far.infer(FarEnd::frame(5, 0));
  EXPECT_EQ(head.queue_us, 1000u);
  EXPECT_EQ(head.gpu_us, 2000u);
}

TEST_F(JetlinkServer, I16_replies_come_in_the_order_of_the_requests) {
  FarEnd far = ready();
  const uint32_t first = far.seq + 1;
  for (uint32_t i = 0; i < 50; ++i) far.send(Type::kInferReq, FarEnd::frame(i, 0));
  for (uint32_t i = 0; i < 50; ++i) {
    const Header header = far.next();
    ASSERT_EQ(header.type, 9);
    EXPECT_EQ(header.seq, first + i);
    EXPECT_EQ(far.reply().frame_id, i);
  }
}

TEST_F(JetlinkServer, I17_a_shutdown_is_answered_before_the_host_goes_down) {
  stop();
  std::atomic<int> asked{0};
  std::string who;
  options.session.power_off = [&](const std::string&, const std::string& reason) {
    who = reason;
    ++asked;
  };
  start();
  FarEnd far = connect();
  const uint32_t seq = far.send(Type::kShutdownReq, reason_json("car battery"));
  EXPECT_EQ(far.next().seq, seq) << "no hello is needed";
  EXPECT_TRUE(far.json().find("ok")->boolean());
  far.hello();
  EXPECT_EQ(asked, 1) << "and the session goes on";
  EXPECT_EQ(who, "car battery");
}

TEST_F(JetlinkServer, I17_without_the_option_it_says_ok_and_stays_up) {
  FarEnd far = connect();
  far.send(Type::kShutdownReq, "");
  EXPECT_EQ(far.next().type, 18);
  EXPECT_TRUE(far.json().find("ok")->boolean());
  far.hello();
}

TEST_F(JetlinkServer, I18_a_new_connection_takes_over) {
  FarEnd old = ready();
  FarEnd fresh = connect();
  fresh.hello();
  EXPECT_EQ(fresh.text("loaded"), model.id.sha256);
  EXPECT_TRUE(old.ended());
  EXPECT_EQ(server->takeovers(), 1u);
  EXPECT_EQ(fresh.engine(model.id), "ready");
  EXPECT_EQ(fresh.infer(FarEnd::frame(1, 0)).status, 0u);
}

TEST_F(JetlinkServer, I18_connections_that_say_nothing_disturb_nobody) {
  FarEnd far = ready();
  std::vector<std::unique_ptr<FarEnd>> silent;
  for (size_t i = 0; i < 2 * kMaxWaiting; ++i)
    silent.push_back(std::make_unique<FarEnd>(server->endpoint()));
  EXPECT_EQ(far.infer(FarEnd::frame(1, 0)).status, 0u);
  EXPECT_EQ(server->takeovers(), 0u);
  FarEnd fresh = connect();
  fresh.hello();
  EXPECT_TRUE(far.ended()) << "and keep nobody out";
}

}  // namespace
}  // namespace outrider::link::jetlink
