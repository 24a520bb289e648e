// Commands on real ONNX files. Skipped where the reference data is absent.
#include <gtest/gtest.h>

#include <fstream>

#include "../support/shared_data.h"
#include "cli/npy.h"
#include "cli/session.h"
#include "support.h"

namespace outrider::cli_test {
namespace {

TEST(OnnxCommands, inspect_tells_ports_operators_and_what_is_missing) {
  OUTRIDER_NEED_SHARED(policy, "data/mujoco_playground_go1_policy.onnx");
  OUTRIDER_NEED_SHARED(open, "data/silero_vad_16k_op15.onnx");
  const Outcome good = run({"inspect", policy, "--json"});
  ASSERT_EQ(good.status, 0) << good.err;
  const Json report = document(good);
  EXPECT_TRUE(report.find("runs")->boolean());
  EXPECT_EQ(report.find("opset")->integer(), 11);
  EXPECT_EQ(report.find("inputs")->items()[0].find("name")->text(), "obs");
  EXPECT_NE(report.find("operators")->find("Gemm"), nullptr);
  const Outcome bad = run({"inspect", open, "--json"});
  EXPECT_EQ(bad.status, 1);
  EXPECT_EQ(document(bad).find("open_dimensions")->items()[0].text(), "sequence");
  EXPECT_NE(bad.err.find("sequence"), std::string::npos) << bad.err;
  EXPECT_EQ(run({"inspect", open, "--set", "dims=batch=1,sequence=512"}).status, 0);
}

TEST(OnnxCommands, run_takes_arrays_by_port_name) {
  OUTRIDER_NEED_SHARED(policy, "data/mujoco_playground_go1_policy.onnx");
  const std::string folder = scratch("onnx_run");
  const std::vector<float> obs(48, 0.1f);
  const int64_t shape[] = {1, 48};
  ASSERT_TRUE(cli::write_npy(folder + "/obs.npy", obs, shape));
  const Outcome good =
      run({"run", policy, "--input", "obs=" + folder + "/obs.npy", "--json", "--threads", "1"});
  ASSERT_EQ(good.status, 0) << good.err;
  const Json report = document(good);
  EXPECT_EQ(report.find("output")->text(), "continuous_actions");
  EXPECT_EQ(report.find("shape")->items()[1].integer(), 12);
  // One input: its name may be left out. An equals sign in the path is no name.
  const Outcome bare = run({"run", policy, "--input", folder + "/obs.npy", "--json"});
  ASSERT_EQ(bare.status, 0) << bare.err;
  EXPECT_EQ(document(bare).find("continuous_actions")->items().size(), 1u);
  ASSERT_TRUE(cli::write_npy(folder + "/a=b.npy", obs, shape));
  EXPECT_EQ(run({"run", policy, "--input", folder + "/a=b.npy"}).status, 0);
  EXPECT_NE(run({"run", policy, "--input", "ob=" + folder + "/obs.npy"}).err.find("no port \"ob\""),
            std::string::npos);
  EXPECT_EQ(run({"run", policy, "--input", folder + "/none.npy"}).status, 2);
  const Outcome missing = run({"run", policy});
  EXPECT_NE(missing.status, 0);
  EXPECT_NE(missing.err.find("obs"), std::string::npos) << missing.err;
}

TEST(OnnxCommands, parity_runs_a_recording_in_order_and_bench_gives_equal_outputs) {
  OUTRIDER_NEED_SHARED(model, "data/silero_vad_16k_op15.onnx");
  OUTRIDER_NEED_SHARED(recording, "data/silero_vad_16k_op15.ref.json");
  const std::string dims = "dims=batch=1,sequence=512";
  const Outcome good = run({"parity", model, recording, "--set", dims, "--json"});
  ASSERT_EQ(good.status, 0) << good.err;
  EXPECT_EQ(document(good).find("stages")->items().size(), 8u);
  EXPECT_EQ(run({"parity", model, recording, "--set", dims, "--tolerance", "1e-12"}).status, 1);
  const Outcome bench =
      run({"bench", model, "--set", dims, "--ticks", "5", "--idle", "0", "--no-limits", "--json"});
  ASSERT_EQ(bench.status, 0) << bench.err;
  EXPECT_EQ(document(bench).find("checksum")->find("outputs_different")->integer(), 0);
}

TEST(OnnxCommands, outputs_of_every_type_are_read_as_numbers) {
  const auto read = [](uint32_t dtype, const auto& values) {
    return cli::numbers_of(dtype, std::as_bytes(std::span(values))).value();
  };
  using Numbers = std::vector<double>;
  EXPECT_EQ(read(FRT_DTYPE_F32, std::vector<float>{-1.5f, 2}), (Numbers{-1.5, 2}));
  EXPECT_EQ(read(FRT_DTYPE_F16, std::vector<uint16_t>{0x3c00, 0xc000}), (Numbers{1, -2}));
  EXPECT_EQ(read(FRT_DTYPE_BF16, std::vector<uint16_t>{0x3f80, 0xc000}), (Numbers{1, -2}));
  EXPECT_EQ(read(FRT_DTYPE_I64, std::vector<int64_t>{-7, 1}), (Numbers{-7, 1}));
  EXPECT_EQ(read(FRT_DTYPE_I32, std::vector<int32_t>{-7, 1}), (Numbers{-7, 1}));
  EXPECT_EQ(read(FRT_DTYPE_U8, std::vector<uint8_t>{0, 255}), (Numbers{0, 255}));
  EXPECT_EQ(cli::numbers_of(99, {}).code(), Code::kUnsupported);
}

TEST(OnnxCommands, parity_refuses_a_recording_that_begins_in_the_middle_of_a_state) {
  OUTRIDER_NEED_SHARED(model, "data/silero_vad_16k_op15.onnx");
  const std::string folder = scratch("onnx_state");
  const int64_t sound[] = {1, 512}, state[] = {2, 1, 128}, one[] = {1, 1};
  ASSERT_TRUE(cli::write_npy(folder + "/sound.npy", std::vector<float>(512), sound));
  ASSERT_TRUE(cli::write_npy(folder + "/out.npy", std::vector<float>(1), one));
  std::vector<float> values(256);
  for (const bool zero : {true, false}) {
    values[255] = zero ? 0.0f : 0.5f;
    ASSERT_TRUE(cli::write_npy(folder + "/state.npy", values, state));
    std::ofstream(folder + "/meta.json")
        << R"({"kind":"onnx","cases":[{"inputs":{"input":"sound.npy","state":"state.npy"},)"
           R"("outputs":{"output":"out.npy"}}]})";
    const Outcome ran = run({"parity", model, folder, "--set", "dims=batch=1,sequence=512"});
    EXPECT_EQ(ran.err.find("begins at zero") == std::string::npos, zero) << ran.err;
    EXPECT_NE(ran.status, 0) << "nothing was computed to compare with, or it was refused";
  }
}

}  // namespace
}  // namespace outrider::cli_test
