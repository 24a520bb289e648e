// provider_camera.so: cameras before a runtime that reads model frames.
#include <gtest/gtest.h>
#include <unistd.h>

#include "fixture.h"
#include "host/conform.h"
#include "hot_counter.h"

namespace outrider::camera::test {
namespace {

namespace hot_counter = outrider::test::hot_counter;

TEST(CameraProvider, a_tick_reads_what_both_cameras_show) {
  for (const char* sampling : {"nearest", "bilinear"}) {
    Cameras c(std::string(R"("sampling":")") + sampling + "\"");
    ASSERT_NO_FATAL_FAILURE(c.open());
    ASSERT_NO_FATAL_FAILURE(c.stage_all());
    ASSERT_TRUE(c.session->tick());
    EXPECT_EQ(c.planes(), c.wanted(parse_warp_sampling(sampling).value())) << sampling;
  }
}

TEST(CameraProvider, ports_are_those_behind_with_transforms_for_the_frames_and_two_frames_more) {
  Cameras c;
  ASSERT_NO_FATAL_FAILURE(c.open());
  std::vector<std::string> names;
  for (const auto& p : c.session->ports()) names.emplace_back(p.name);
  EXPECT_EQ(names, (std::vector<std::string>{"gain", "transforms", "seen", "planes", "next_seen",
                                             "frame_narrow", "frame_wide"}));
  const auto& frame = c.session->ports()[5];
  EXPECT_EQ(frame.dtype, uint32_t{FRT_DTYPE_U8});
  EXPECT_EQ(frame.rank, 1u);
  EXPECT_EQ(frame.shape[0], static_cast<int64_t>(kLayout.least_bytes()));
  EXPECT_NE(c.session->identity().find("64x48 stride 72 uv 3600"), std::string::npos)
      << c.session->identity();
}

TEST(CameraProvider, passes_the_contract_suite) {
  Cameras c("", R"("state_pairs":"seen:next_seen")");
  host::ConformOptions options;
  options.strict = true;
  const auto report = host::conform(camera_path(), c.config, options);
  EXPECT_GT(report.passed, 40);
  EXPECT_EQ(report.failed, 0) << host::to_text(report);
}

// Frames are warped when they come: a calibration that comes after them must not be missed.
TEST(CameraProvider, transforms_that_differ_drop_the_frames_and_equal_ones_do_not) {
  Cameras c;
  ASSERT_NO_FATAL_FAILURE(c.open());
  ASSERT_NO_FATAL_FAILURE(c.stage_all());
  ASSERT_TRUE(c.session->tick());
  ASSERT_TRUE(c.transforms(c.m[0], c.m[1]));
  EXPECT_TRUE(c.session->tick()) << "the same calibration again";
  EXPECT_EQ(c.planes(), c.wanted());
  c.m[1][2] += 1;
  ASSERT_TRUE(c.transforms(c.m[0], c.m[1]));
  const auto late = c.session->tick();
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, Code::kInvalid);
  EXPECT_NE(late.error().message().find("frame_wide: not staged with these transforms"),
            std::string::npos)
      << late.error().text;
  EXPECT_EQ(c.counter("dropped_frames"), 1) << "the narrow frame is as it was";
  ASSERT_TRUE(c.set("frame_wide", c.wide));
  ASSERT_TRUE(c.session->tick());
  EXPECT_EQ(c.planes(), c.wanted());
}

TEST(CameraProvider, nothing_runs_before_transforms_and_both_frames_are_there) {
  Cameras c;
  ASSERT_NO_FATAL_FAILURE(c.open());
  ASSERT_TRUE(c.set("gain", std::vector<float>{1}));
  ASSERT_TRUE(c.set("seen", std::vector<float>{0}));
  const auto refused = [&](const char* why) {
    const auto ran = c.session->tick();
    ASSERT_FALSE(ran) << why;
    EXPECT_EQ(ran.error().code, Code::kInvalid);
    EXPECT_NE(ran.error().message().find(why), std::string::npos) << ran.error().text;
  };
  refused("transforms: not staged");
  ASSERT_TRUE(c.transforms({}, {}));  // as before the first calibration
  refused("frame_narrow: not staged");
  ASSERT_TRUE(c.set("frame_narrow", c.narrow));
  refused("frame_wide: not staged");
  ASSERT_TRUE(c.set("frame_wide", c.wide));
  ASSERT_TRUE(c.session->tick());
  const auto planes = c.planes();
  for (size_t i = 0; i < 4 * 128; ++i) ASSERT_EQ(planes[i], c.narrow[0]);
}

TEST(CameraProvider, an_input_of_the_runtime_behind_that_nobody_staged_is_named_with_what_to_do) {
  Cameras c;
  ASSERT_NO_FATAL_FAILURE(c.open());
  ASSERT_TRUE(c.transforms({}, {}));
  ASSERT_TRUE(c.set("frame_narrow", c.narrow));
  ASSERT_TRUE(c.set("frame_wide", c.wide));
  ASSERT_TRUE(c.set("seen", std::vector<float>{0}));
  const auto ran = c.session->tick();
  ASSERT_FALSE(ran);
  EXPECT_EQ(ran.error().code, Code::kInvalid);
  EXPECT_NE(ran.error().message().find("gain: not staged; stage every required input first"),
            std::string::npos)
      << ran.error().text;
  ASSERT_TRUE(c.set("gain", std::vector<float>{1}));
  EXPECT_TRUE(c.session->tick());
}

TEST(CameraProvider, FC14_a_frame_of_any_other_size_is_refused_and_not_used) {
  Cameras c;
  ASSERT_NO_FATAL_FAILURE(c.open());
  ASSERT_NO_FATAL_FAILURE(c.stage_all());
  ASSERT_TRUE(c.session->tick());
  const size_t n = kLayout.least_bytes();
  for (const size_t bytes : {size_t{0}, size_t{1}, n - 1, n + 1, 2 * n}) {
    std::vector<uint8_t> other(bytes + 1);
    other.pop_back();
    const auto set = c.set("frame_narrow", other);
    ASSERT_FALSE(set) << bytes;
    if (bytes > 0) {
      EXPECT_NE(
          set.error().message().find(std::to_string(bytes) + " bytes, wanted " + std::to_string(n)),
          std::string::npos)
          << set.error().text;
    }
    EXPECT_FALSE(c.session->tick()) << "the old frame is gone";
    EXPECT_FALSE(c.session->get_raw(c.port("planes")));
    ASSERT_TRUE(c.set("frame_narrow", c.narrow));
    ASSERT_TRUE(c.session->tick());
  }
  EXPECT_EQ(c.counter("refused_frames"), 5);
  for (const float bad : {HUGE_VALF, -HUGE_VALF, std::nanf("")}) {
    Matrix3 m = c.m[0];
    m[4] = bad;
    EXPECT_FALSE(c.transforms(c.m[1], m));
    EXPECT_FALSE(c.session->tick());
    ASSERT_TRUE(c.transforms(c.m[0], c.m[1]));
    ASSERT_TRUE(c.session->tick());
  }
}

TEST(CameraProvider, a_tick_takes_no_heap_no_lock_and_one_plan_for_every_calibration) {
  Cameras c;
  ASSERT_NO_FATAL_FAILURE(c.open());
  ASSERT_NO_FATAL_FAILURE(c.stage_all());
  ASSERT_TRUE(c.session->tick());
  const uint32_t transforms = c.port("transforms"), narrow = c.port("frame_narrow"),
                 wide = c.port("frame_wide");
  std::vector<float> both(c.m[0].begin(), c.m[0].end());
  both.insert(both.end(), c.m[1].begin(), c.m[1].end());
  for (int i = 0; i < 50; ++i) {
    hot_counter::arm();
    const bool staged = c.session->set_raw(transforms, std::as_bytes(std::span(both))) &&
                        c.session->set_raw(narrow, std::as_bytes(std::span(c.narrow))) &&
                        c.session->set_raw(wide, std::as_bytes(std::span(c.wide)));
    const bool ran = staged && c.session->tick();
    const auto counts = hot_counter::disarm();
    ASSERT_TRUE(ran);
    ASSERT_EQ(counts.total(), 0u) << hot_counter::describe(counts);
  }
  EXPECT_EQ(c.counter("warps"), 102);
  EXPECT_EQ(c.counter("transforms_computed"), 2);
  EXPECT_EQ(c.counter("runs"), 51) << "counters of what stands behind follow";
}

TEST(CameraProvider, a_history_behind_is_reset_as_without_cameras) {
  Cameras c("", R"("state_pairs":"seen:next_seen")");
  ASSERT_NO_FATAL_FAILURE(c.open());
  ASSERT_NO_FATAL_FAILURE(c.stage_all());
  const auto infer = c.session->stage_by_name("infer"), reset = c.session->stage_by_name("reset");
  ASSERT_TRUE(infer && reset);
  const auto after = [&](float runs) {  // what the graph gives behind so many runs since a reset
    std::vector<float> all;
    for (const uint8_t byte : c.wanted()) all.push_back(static_cast<float>(byte) + runs);
    return all;
  };
  for (int drive = 0; drive < 2; ++drive) {
    for (const float runs : {0.0f, 1.0f, 2.0f}) {
      ASSERT_TRUE(c.session->run_stage(infer.value()));
      EXPECT_EQ(c.values(), after(runs)) << "drive " << drive;
    }
    ASSERT_TRUE(c.session->run_stage(reset.value()));
  }
  Cameras bare("", R"("state_pairs":"seen:next_seen")");
  ASSERT_NO_FATAL_FAILURE(bare.open());
  ASSERT_TRUE(bare.session->run_stage(reset.value())) << "needs no frame";
}

// ---- configuration
// -------------------------------------------------------------------------------

Error open_error(const std::string& config) {
  auto opened = host::Session::open(camera_path(), config);
  EXPECT_FALSE(opened) << config;
  return opened ? Error{} : opened.error();
}

TEST(CameraProvider, refuses_configurations_in_one_line_that_names_the_key) {
  Cameras c;
  const std::string head = R"({"model_family":"camera","runtime":")" + c.disk.file("graph.json");
  const struct {
    std::string keys;
    Code code;
    const char* says;
  } cases[] = {
      {R"("width":64)", Code::kInvalid, "\"height\" is missing"},
      {R"("height":48)", Code::kInvalid, "\"width\" is missing"},
      {R"("width":64,"height":48,"colour":1)", Code::kInvalid, "unknown key \"colour\""},
      {R"("width":"64","height":48)", Code::kInvalid, "width is \"64\""},
      {R"("width":0,"height":48)", Code::kInvalid, "width is \"0\""},
      {R"("width":-64,"height":48)", Code::kInvalid, "width is \"-64\""},
      {R"("width":63,"height":48)", Code::kInvalid, "width 63"},
      {R"("width":64,"height":47)", Code::kInvalid, "height 47"},
      {R"("width":64.5,"height":48)", Code::kInvalid, "width is"},
      {R"("width":9000,"height":48)", Code::kInvalid, "width 9000"},
      {R"("width":64,"height":48,"stride":63)", Code::kInvalid, "stride 63"},
      {R"("width":64,"height":48,"uv_offset":6143)", Code::kInvalid, "byte 6143"},
      {R"("width":64,"height":48,"uv_offset":2147483000)", Code::kShape, "below 2^31"},
      {R"("width":64,"height":48,"frame_bytes":100)", Code::kInvalid, "frame_bytes is 100"},
      {R"("width":64,"height":48,"sampling":"cubic")", Code::kInvalid, "'cubic'"},
      {R"("width":64,"height":48,"kernels":"sse9")", Code::kUnsupported, "'sse9'"},
      {R"("width":64,"height":48,"port":"img")", Code::kInvalid, "has no port img"},
      {R"("width":64,"height":48,"port":"gain")", Code::kShape, "U8 {2,6,h,w}"},
      {R"("width":64,"height":48,"port":"planes")", Code::kShape, "U8 {2,6,h,w}"},
  };
  for (const auto& k : cases) {
    const Error error = open_error(head + "\"," + k.keys + "}");
    EXPECT_EQ(error.code, k.code) << k.keys << ": " << error.text;
    EXPECT_NE(error.message().find(k.says), std::string::npos) << k.keys << ": " << error.text;
  }
  EXPECT_NE(open_error(R"({"model_family":"camera","width":64,"height":48})")
                .message()
                .find("\"runtime\" is missing"),
            std::string::npos);
  EXPECT_EQ(open_error(R"({"model_family":"camera","runtime":"/nowhere.json","width":64,)"
                       R"("height":48})")
                .code,
            Code::kNotFound);
}

TEST(CameraProvider, refuses_a_camera_before_a_camera_and_ports_of_its_own_names) {
  Cameras inner;
  const std::string path = inner.disk.file("camera.json");
  std::ofstream(path) << inner.config;
  const Error twice =
      open_error(R"({"model_family":"camera","runtime":")" + path + R"(","width":64,"height":48})");
  EXPECT_EQ(twice.code, Code::kUnsupported);
  EXPECT_NE(twice.message().find("a camera before a camera"), std::string::npos) << twice.text;
  const Cameras own(R"("port":"frame_wide")", R"("state_pairs":"none")", echo("frame_wide"));
  EXPECT_NE(open_error(own.config).message().find("a name that a camera adds"), std::string::npos);
  for (const std::vector<int64_t>& dims :
       {std::vector<int64_t>{1, 6, 8, 16}, {2, 5, 8, 16}, {2, 6, 8}, {2, 6, 8, 2049}}) {
    const Cameras odd("", R"("state_pairs":"none")", echo("new_img", dims));
    EXPECT_EQ(open_error(odd.config).code, Code::kShape);
  }
}

TEST(CameraProvider, before_a_tandem_the_suite_skips_what_it_skips_for_the_tandem_alone) {
  Cameras c;
  const std::string both = c.disk.file("both.json"), graph = c.disk.file("graph.json");
  std::ofstream(both) << R"({"model_family":"tandem","standby":")" << graph << R"(","lead":")"
                      << graph << "\"}";
  const auto report = host::conform(
      camera_path(), R"({"model_family":"camera","runtime":")" + both + "\"," + kLayoutKeys + "}",
      host::ConformOptions{});
  EXPECT_EQ(report.failed, 0) << host::to_text(report);
  EXPECT_NE(host::to_text(report).find("a tandem answers every tick"), std::string::npos)
      << host::to_text(report);
}

// Every way back to a file that is being opened is found before anything is opened.
TEST(CameraProvider, refuses_a_chain_of_configurations_that_never_ends) {
  Cameras c;
  const auto put = [&](const char* name, const std::string& text) {
    std::ofstream(c.disk.file(name)) << text;
    return c.disk.file(name);
  };
  const auto camera = [](const std::string& behind) {
    return R"({"model_family":"camera","runtime":")" + behind + "\"," + kLayoutKeys + "}";
  };
  const auto tandem = [](const std::string& standby, const std::string& lead) {
    return R"({"model_family":"tandem","standby":")" + standby + R"(","lead":")" + lead + "\"}";
  };
  const auto refused = [](const std::string& config, const char* says) {
    const Error error = open_error(config);
    EXPECT_EQ(error.code, Code::kUnsupported) << error.text;
    EXPECT_NE(std::string(error.text).find(says), std::string::npos) << error.text;
  };
  const std::string cam = c.disk.file("cam.json"), both = c.disk.file("both.json"),
                    graph = c.disk.file("graph.json"), link = c.disk.file("link.json");
  put("cam.json", camera(both));
  put("both.json", tandem(cam, graph));
  refused(camera(both), "cam.json");  // camera, tandem, the same camera
  put("both.json", tandem(graph, cam));
  refused(camera(both), "stands behind itself");
  ASSERT_EQ(symlink(cam.c_str(), link.c_str()), 0);
  put("both.json", tandem(graph, link));  // under another name
  refused(camera(both), "stands behind itself");
  put("both.json", tandem(graph, both));
  refused(camera(both), "stands behind itself");
  // Ends, but only after more files than anybody needs.
  put("both.json", tandem(c.disk.file("a0.json"), graph));
  for (int i = 0; i < 8; ++i)
    put(("a" + std::to_string(i) + ".json").c_str(),
        camera(c.disk.file("a" + std::to_string(i + 1) + ".json")));
  put("a8.json", tandem(graph, graph));
  refused(camera(both), "stand behind each other");
}

TEST(CameraProvider, a_device_layout_follows_from_the_size) {
  Cameras c;
  c.config = R"({"model_family":"camera","runtime":")" + c.disk.file("graph.json") +
             R"(","width":1928,"height":1208})";
  ASSERT_NO_FATAL_FAILURE(c.open());
  EXPECT_EQ(c.session->ports()[c.port("frame_wide")].shape[0], 3735552);
  c.config.back() = ',';
  c.config += R"("frame_bytes":4804608})";  // whole allocations are handed in
  ASSERT_NO_FATAL_FAILURE(c.open());
  EXPECT_EQ(c.session->ports()[c.port("frame_wide")].shape[0], 4804608);
}

}  // namespace
}  // namespace outrider::camera::test
