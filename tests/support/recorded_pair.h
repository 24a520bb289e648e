// A recorded case of a vision-language pair: its two files, its pictures, the ids it answers with.
#pragma once
#include "base/json.h"
#include "support/reference_files.h"

namespace outrider::test {

inline constexpr const char* kRecordedPairs[] = {
    "mllm_gemma3",          "mllm_gemma3_resize", "mllm_qwen25vl_one", "mllm_qwen25vl_pair_f16",
    "mllmx_qwen25vl_text",  "mllmx_qwen25vl_two", "mllmx_smolvlm_one", "mllmx_smolvlm_chat",
    "mllmx_smolvlm_two_f16"};

struct RecordedPair {
  struct Shown {
    int32_t width = 0, height = 0;
    std::vector<uint8_t> rgb;
  };
  std::string absent;  // why the case cannot run here; "": it can
  std::string folder, text_path, vision_path;
  Json meta;
  std::vector<Shown> pictures;
  std::vector<int32_t> greedy;
  bool clips = false;  // equal neighbours are one clip

  RecordedPair() = default;
  explicit RecordedPair(const std::string& name) : folder(shared_path("golden/" + name)) {
    if (folder.empty()) {
      absent = "shared reference data is absent: golden/" + name;
      return;
    }
    const auto bytes = read_reference<char>(folder + "/meta.json");
    meta = std::move(Json::parse({bytes.data(), bytes.size()}).value());
    text_path = file_of("model");
    vision_path = file_of("vision");
    greedy = read_reference<int32_t>(folder + "/greedy.bin");
    clips = name.find("pair") != std::string::npos;
    read_pictures();
  }

 private:
  std::string file_of(const char* which) {
    const Json& model = *meta.find(which);
    const std::string dir = reference_files(model.find("make_gguf")->text());
    if (dir.empty()) absent = "the reference generator does not run here (python3-numpy missing?)";
    return dir + "/" + model.find("file")->text();
  }
  void read_pictures() {
    const auto side = [](const Json& value) { return static_cast<int32_t>(value.integer()); };
    if (const Json* given = meta.find("sizes"))
      for (const Json& size : given->items())
        pictures.push_back({side(size.items()[0]), side(size.items()[1]), {}});
    else
      pictures.assign(static_cast<size_t>(meta.find("views")->integer()),
                      {side(*meta.find("width")), side(*meta.find("height")), {}});
    if (pictures.empty()) return;
    const auto all = read_reference<uint8_t>(folder + "/images.u8");
    auto at = all.begin();
    for (Shown& picture : pictures) {
      const auto n = std::ptrdiff_t{picture.width} * picture.height * 3;
      ASSERT_LE(n, all.end() - at) << folder;
      picture.rgb.assign(at, at + n);
      at += n;
    }
    EXPECT_EQ(at, all.end()) << folder;
  }
};

}  // namespace outrider::test
