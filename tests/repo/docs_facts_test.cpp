// Numbers and names that the reference pages repeat are those of the code.
#include <gtest/gtest.h>

#include <map>

#include "outrider/ext/status.h"
#include "outrider/ext/taps.h"
#include "outrider/frt_v1.h"
#include "outrider/host.h"
#include "repo/docs_files.h"

namespace outrider::test {
namespace {

namespace fs = std::filesystem;

// The row of a Markdown table whose first cell is `name`, or "".
std::string row_of(const std::string& page, const std::string& name) {
  for (const std::string& line : lines_of(page))
    if (line.rfind("| `" + name + "` |", 0) == 0) return line;
  return {};
}

std::string number_of(const std::string& literal) {
  static const std::map<std::string, std::string> kNamed = {
      {"UINT32_MAX", "4294967295"}, {"INT32_MIN", "-2147483648"}, {"INT32_MAX", "2147483647"}};
  const auto named = kNamed.find(literal);
  return named == kNamed.end() ? literal : named->second;
}

TEST(ConfigPage, has_a_row_for_every_key_of_the_reader) {
  const std::string page = read_text(kRoot / "docs/reference/config.md");
  const std::string code = read_text(kRoot / "src/providers/gguf/pi_open_config.cpp");
  const auto keys = all_matches(code, R"re(_row\(\s*"([a-z0-9_]+)")re");
  EXPECT_GE(keys.size(), 17u);
  for (const std::string& key : keys) EXPECT_FALSE(row_of(page, key).empty()) << key;
}

TEST(ConfigPage, has_a_row_for_every_key_and_counter_of_text_models) {
  const std::string page = read_text(kRoot / "docs/reference/config.md");
  const std::string section = page.substr(page.find("model_family \"llm\""));
  const std::string code = read_text(kRoot / "src/providers/gguf/llm_open_config.cpp");
  const auto keys = all_matches(code, R"re(_row\(\s*"([a-z0-9_]+)")re");
  EXPECT_GE(keys.size(), 16u);
  for (const std::string& key : keys)
    EXPECT_NE(section.find("`" + key + "`"), std::string::npos) << key;
  const std::string extensions = read_text(kRoot / "docs/reference/extensions.md");
  const auto counters = all_matches(read_text(kRoot / "src/providers/gguf/llm_provider.cpp"),
                                    R"re(\{"([a-z_]+)", &c\.)re");
  EXPECT_GE(counters.size(), 16u);
  for (const std::string& counter : counters)
    EXPECT_NE(extensions.find("`" + counter + "`"), std::string::npos) << counter;
}

TEST(ConfigPage, tells_the_range_of_every_integer_key) {
  const std::string page = read_text(kRoot / "docs/reference/config.md");
  const std::string code = read_text(kRoot / "src/providers/gguf/pi_open_config.cpp");
  const std::regex row(
      R"re(integer_row\(\s*"([a-z_]+)",\s*(true|false),\s*([\w-]+),\s*([\w-]+),)re");
  int n = 0;
  for (std::sregex_iterator it(code.begin(), code.end(), row), end; it != end; ++it, ++n) {
    const std::string range = number_of((*it)[3].str()) + ".." + number_of((*it)[4].str());
    EXPECT_NE(row_of(page, (*it)[1].str()).find(range), std::string::npos)
        << (*it)[1].str() << " is " << range;
  }
  EXPECT_GE(n, 9);
}

TEST(ConfigPage, tells_every_choice_of_the_choice_keys) {
  const std::string page = read_text(kRoot / "docs/reference/config.md");
  for (const char* choice :
       {"reference", "jetson-pi", "auto", "f32", "bf16", "int8", "stored", "on", "off"})
    EXPECT_NE(page.find("`\"" + std::string(choice) + "\"`"), std::string::npos) << choice;
}

TEST(ConfigPage, has_a_row_for_every_key_of_family_onnx) {
  const std::string page = read_text(kRoot / "docs/reference/config.md");
  const std::string code = read_text(kRoot / "src/providers/onnx/onnx_open_config.cpp");
  const auto keys = all_matches(code, R"re(_row\("([a-z0-9_]+)")re");
  EXPECT_GE(keys.size(), 8u);
  for (const std::string& key : keys) EXPECT_FALSE(row_of(page, key).empty()) << key;
  const std::string onnx = read_text(kRoot / "docs/reference/onnx.md");
  const auto counters = all_matches(read_text(kRoot / "src/providers/onnx/provider.cpp"),
                                    R"re(\{"([a-z_]+)", &c\.)re");
  EXPECT_GE(counters.size(), 8u);
  for (const std::string& counter : counters)
    EXPECT_NE(onnx.find("`" + counter + "`"), std::string::npos) << counter;
}

TEST(ConfigPage, has_every_key_of_family_camera) {
  const std::string page = read_text(kRoot / "docs/reference/config.md");
  const std::string section = page.substr(page.find("model_family \"camera\""));
  const std::string code = read_text(kRoot / "src/providers/camera/camera_config.cpp");
  const size_t begin = code.find("CameraKey kKeys[]");
  const auto keys = all_matches(code.substr(begin, code.find("};", begin) - begin),
                                R"re(\{"([a-z_]+)",)re");
  EXPECT_GE(keys.size(), 10u);
  for (const std::string& key : keys)
    EXPECT_NE(section.find("`" + key + "`"), std::string::npos) << key;
  const std::string extensions = read_text(kRoot / "docs/reference/extensions.md");
  const auto counters = all_matches(read_text(kRoot / "src/providers/camera/provider.cpp"),
                                    R"re(\{"([a-z_]+)", &c\.)re");
  EXPECT_GE(counters.size(), 5u);
  for (const std::string& counter : counters)
    EXPECT_NE(extensions.find("`" + counter + "`"), std::string::npos) << counter;
}

TEST(AbiPage, has_the_size_of_every_struct) {
  const std::string page = read_text(kRoot / "docs/reference/abi.md");
  const std::map<std::string, size_t> sizes = {
      {"frt_runtime_stream_desc", sizeof(frt_runtime_stream_desc)},
      {"frt_runtime_graph_desc", sizeof(frt_runtime_graph_desc)},
      {"frt_runtime_buffer_desc", sizeof(frt_runtime_buffer_desc)},
      {"frt_runtime_region_desc", sizeof(frt_runtime_region_desc)},
      {"frt_runtime_export_v1", sizeof(frt_runtime_export_v1)},
      {"frt_image_view", sizeof(frt_image_view)},
      {"frt_runtime_port_desc", sizeof(frt_runtime_port_desc)},
      {"frt_runtime_stage_desc", sizeof(frt_runtime_stage_desc)},
      {"frt_generic_stage_desc_v1", sizeof(frt_generic_stage_desc_v1)},
      {"frt_generic_stage_plan_ext_v1", sizeof(frt_generic_stage_plan_ext_v1)},
      {"frt_model_runtime_verbs", sizeof(frt_model_runtime_verbs)},
      {"frt_model_runtime_v1", sizeof(frt_model_runtime_v1)},
  };
  for (const auto& [name, size] : sizes) {
    EXPECT_NE(row_of(page, name).find("| `" + name + "` | " + std::to_string(size) + " |"),
              std::string::npos)
        << name << " has " << size << " bytes";
  }
}

TEST(AbiPage, has_a_row_for_every_status_code) {
  const std::string page = read_text(kRoot / "docs/reference/abi.md");
  for (const char* name :
       {"FRT_OK", "FRT_ERR_INVALID", "FRT_ERR_NOT_FOUND", "FRT_ERR_UNSUPPORTED", "FRT_ERR_SHAPE",
        "FRT_ERR_STORAGE", "FRT_ERR_BACKEND", "FRT_ERR_NOT_READY", "FRT_ERR_FAILED"})
    EXPECT_FALSE(row_of(page, name).empty()) << name;
}

TEST(ExtensionsPage, names_both_ids_and_every_counter_of_the_provider) {
  const std::string page = read_text(kRoot / "docs/reference/extensions.md");
  for (const char* id : {"0x4F55000000000001", "0x4F55000000000002"})
    EXPECT_NE(page.find(id), std::string::npos) << id;
  const std::string code = read_text(kRoot / "src/providers/gguf/provider.cpp");
  const auto counters = all_matches(code, R"re(\{"([a-z_]+)", &c\.)re");
  EXPECT_GE(counters.size(), 10u);
  for (const std::string& counter : counters)
    EXPECT_FALSE(row_of(page, counter).empty()) << counter;
}

TEST(DependenciesPage, has_a_row_for_every_package) {
  const std::string page = read_text(kRoot / "docs/design/dependencies.md");
  int n = 0;
  for (const std::string& line : lines_of(read_text(kRoot / "tools/packages.txt"))) {
    std::istringstream in(line);
    std::string need, package;
    if (line.empty() || line[0] == '#' || !(in >> need >> package)) continue;
    ++n;
    EXPECT_NE(page.find("`" + package + "`"), std::string::npos) << package;
  }
  EXPECT_GT(n, 10);
}

TEST(LayersPage, shows_the_table_that_is_tested) {
  const std::string page = read_text(kRoot / "docs/design/layers.md");
  for (const std::string& line : lines_of(read_text(kRoot / "cmake/layers.txt"))) {
    if (line.empty() || line[0] == '#') continue;
    EXPECT_NE(page.find("\n" + line + "\n"), std::string::npos) << line;
  }
}

TEST(FieldCases, all_51_have_a_row_and_every_test_named_there_names_its_case) {
  const std::string page = read_text(kRoot / "docs/reference/field-cases.md");
  int n_covered = 0;
  for (int i = 1; i <= 51; ++i) {
    char name[8], test[8];
    std::snprintf(name, sizeof name, "FC-%02d", i);
    std::snprintf(test, sizeof test, "FC%02d", i);
    std::string row;
    int n_rows = 0;
    for (const std::string& line : lines_of(page)) {
      if (line.rfind(std::string("| ") + name + " |", 0) != 0) continue;
      ++n_rows;
      row = line;
    }
    EXPECT_EQ(n_rows, 1) << name;
    const auto files = all_matches(row, R"(`(tests/[a-z0-9_/]+\.cpp)`)");
    n_covered += !files.empty();
    for (const std::string& file : files)
      EXPECT_NE(read_text(kRoot / file).find(test), std::string::npos) << file << " lacks " << test;
  }
  EXPECT_GE(n_covered, 20);
}

}  // namespace
}  // namespace outrider::test
