#include "host/provider_path.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "fake_provider.h"
#include "support/temp_dir.h"

namespace outrider::test {
namespace {

class ProviderPath : public ::testing::Test {
 protected:
  void TearDown() override { unsetenv("OUTRIDER_PLUGIN_PATH"); }
  std::string touch(const std::string& name) {
    const auto path = folder_ / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path).put('x');
    return path.string();
  }
  TempDir temp_;
  std::filesystem::path folder_ = temp_.path();
};

TEST_F(ProviderPath, every_family_has_its_file) {
  for (const char* family : {"pi0", "llm", "mllm"})
    EXPECT_EQ(host::provider_file(family).value(), "provider_gguf.so");
  EXPECT_EQ(host::provider_file("onnx").value(), "provider_onnx.so");
  EXPECT_EQ(host::provider_file("remote").value(), "provider_link.so");
  EXPECT_EQ(host::provider_file("tandem").value(), "provider_tandem.so");
  EXPECT_EQ(host::provider_file("camera").value(), "provider_camera.so");
  for (const char* family : {"", "pi05", "PI0", "pi0 ", "../pi0"}) {
    auto file = host::provider_file(family);
    EXPECT_EQ(file.code(), Code::kUnsupported) << family;
    EXPECT_HAS(file.error().text, std::string("\"") + family + "\"");
    EXPECT_HAS(file.error().text, "pi0, llm, mllm, onnx, remote, tandem");
  }
}

TEST_F(ProviderPath, the_plugin_path_comes_first_in_its_own_order) {
  const std::string second = touch("b/provider_tandem.so");
  setenv("OUTRIDER_PLUGIN_PATH",
         (folder_.string() + "/a::" + folder_.string() + "/b:" + folder_.string() + "/c").c_str(),
         1);
  EXPECT_EQ(host::find_provider("tandem").value(), second);
  const std::string first = touch("a/provider_tandem.so");
  EXPECT_EQ(host::find_provider("tandem").value(), first);
}

TEST_F(ProviderPath, a_folder_with_the_right_name_is_no_provider) {
  std::filesystem::create_directories(folder_ / "a" / "provider_tandem.so");
  const std::string file = touch("b/provider_tandem.so");
  setenv("OUTRIDER_PLUGIN_PATH", (folder_.string() + "/a:" + folder_.string() + "/b").c_str(), 1);
  EXPECT_EQ(host::find_provider("tandem").value(), file);
}

TEST_F(ProviderPath, what_lies_beside_the_program_is_found_and_the_library_folder_wins) {
  // This program is in build/<preset>/bin, the providers are in build/<preset>/lib.
  const std::filesystem::path lib = OUTRIDER_BUILD_DIR "/lib/provider_link.so",
                              bin = OUTRIDER_BUILD_DIR "/bin/provider_link.so";
  if (std::filesystem::exists(lib)) GTEST_SKIP() << "the real provider is built";
  std::ofstream(bin).put('x');
  auto beside = host::find_provider("remote");
  std::ofstream(lib).put('x');
  auto library = host::find_provider("remote");
  std::filesystem::remove(bin);
  std::filesystem::remove(lib);
  ASSERT_TRUE(beside) << beside.error().text;
  EXPECT_TRUE(std::filesystem::path(beside.value()).parent_path() ==
              std::filesystem::path(bin).parent_path())
      << beside.value();
  ASSERT_TRUE(library) << library.error().text;
  EXPECT_EQ(std::filesystem::path(library.value()).lexically_normal(), lib.lexically_normal());
}

TEST_F(ProviderPath, an_absent_provider_says_where_it_was_looked_for) {
  if (std::filesystem::exists(OUTRIDER_BUILD_DIR "/lib/provider_onnx.so"))
    GTEST_SKIP() << "the real provider is built";
  setenv("OUTRIDER_PLUGIN_PATH", folder_.c_str(), 1);
  auto path = host::find_provider("onnx");
  EXPECT_EQ(path.code(), Code::kNotFound);
  EXPECT_HAS(path.error().text, "provider_onnx.so");
  EXPECT_HAS(path.error().text, folder_.string());
  EXPECT_HAS(path.error().text, "bin/../lib");
  EXPECT_HAS(path.error().text, "OUTRIDER_PLUGIN_PATH");
}

TEST_F(ProviderPath, the_family_is_read_from_a_strict_configuration) {
  EXPECT_EQ(host::config_family(R"({"backend":"cpu","model_family":"pi0"})").value(), "pi0");
  for (const char* bad : {"", "{}", "[]", R"({"model_family":1})", R"({"backend":"cpu"})",
                          R"({"model_family":"pi0","model_family":"llm"})",
                          R"({"model_family":"pi0"} x)", R"({"model_family":{"a":1}})"})
    EXPECT_EQ(host::config_family(bad).code(), Code::kInvalid) << bad;
}

}  // namespace
}  // namespace outrider::test
