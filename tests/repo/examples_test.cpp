// The example programs run against a real provider, and the two languages agree.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

#include "models/synthetic_pi.h"
#include "repo/docs_files.h"
#include "support/shared_data.h"

namespace outrider::test {
namespace {

struct Ran {
  int status = -1;
  std::string text;  // standard output and standard error
};
Ran run(const std::string& line) {
  Ran ran;
  std::FILE* pipe = popen((line + " 2>&1").c_str(), "r");
  if (pipe == nullptr) return ran;
  char part[512];
  while (std::fgets(part, sizeof part, pipe) != nullptr) ran.text += part;
  const int status = pclose(pipe);
  ran.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return ran;
}

const std::string kLib = std::string(OUTRIDER_BUILD_DIR) + "/lib";

class Examples : public testing::Test {
 protected:
  void SetUp() override {
    const SyntheticPi spec{PiFamily::kPi05, false, DType::kF16, 3};
    const std::string policy = dir_.file("p.gguf"), vision = dir_.file("p-mmproj.gguf");
    const auto written = write_synthetic_pi(spec, policy.c_str(), vision.c_str());
    ASSERT_TRUE(written) << written.error().text;
    sizes_ = synthetic_pi_config(spec);
    const std::string side = std::to_string(sizes_.vision.image_size);
    json_ = R"({"model_family":"pi0","model_path":")" + policy + R"(","mmproj_path":")" + vision +
            R"(","backend":"cpu","n_views":2,"image_height":)" + side + R"(,"image_width":)" +
            side + R"(,"image_channels":3,"action_steps":)" + std::to_string(sizes_.action_steps) +
            R"(,"action_dim":)" + std::to_string(sizes_.action_dim) + "}";
    std::ofstream(dir_.file("p.json")) << json_;
  }
  Ran python(const std::string& arguments) const {
    return run("python3 '" + (kRoot / "examples/tick.py").string() + "' '" + kLib + "' " +
               arguments);
  }
  TempDir dir_;
  PiConfig sizes_;
  std::string json_;
};

// Why Python cannot load this build, or null.
const char* no_python() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return "a sanitizer's library cannot be loaded into a Python that was built without it";
#else
  return run("python3 -c 'import ctypes'").status == 0 ? nullptr : "python3 does not run here";
#endif
}

TEST_F(Examples, c_and_python_compute_the_same_chunk) {
  if (const char* why = no_python()) GTEST_SKIP() << why;
  const Ran c = run("'" + std::string(OUTRIDER_BUILD_DIR) + "/bin/example_tick' '" + kLib +
                    "/provider_gguf.so' '" + json_ + "' 2");
  ASSERT_EQ(c.status, 0) << c.text;
  const Ran py = python("'" + dir_.file("p.json") + "' 'pick up the cup' 0,0,0,0,0,0,0,0");
  ASSERT_EQ(py.status, 0) << py.text;
  const auto rows = lines_of(py.text);
  ASSERT_EQ(static_cast<int64_t>(rows.size()), sizes_.action_steps);
  std::istringstream from_c(c.text.substr(c.text.find("actions:") + 8)), from_py(rows[0]);
  for (int i = 0; i < 8; ++i) {
    double a = 0, b = 1e9;
    ASSERT_TRUE(from_c >> a && from_py >> b) << c.text << py.text;
    EXPECT_NEAR(a, b, 1e-5 * std::max(1.0, std::abs(a))) << i;  // both print 6 digits
  }
}

TEST_F(Examples, python_shows_the_reason_of_a_refusal) {
  if (const char* why = no_python()) GTEST_SKIP() << why;
  const Ran state = python("'" + dir_.file("p.json") + "' 'pick up the cup' nan");
  EXPECT_EQ(state.status, 1);
  EXPECT_NE(state.text.find("state: value 0 is nan"), std::string::npos) << state.text;
  std::string other = json_;
  other.replace(other.find("\"n_views\":2"), 11, "\"n_views\":4");
  std::ofstream(dir_.file("bad.json")) << other;
  const Ran open = python("'" + dir_.file("bad.json") + "' x");
  EXPECT_EQ(open.status, 1);
  EXPECT_NE(open.text.find("n_views is 4, allowed is an integer 1..3"), std::string::npos)
      << open.text;
  EXPECT_EQ(run("python3 '" + (kRoot / "examples/tick.py").string() + "'").status, 2);
}

}  // namespace
}  // namespace outrider::test
