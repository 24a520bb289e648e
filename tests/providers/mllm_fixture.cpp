#include "providers/mllm_fixture.h"

#include <map>

#include "support/shared_data.h"

namespace outrider::test {

const PairPaths& tiny_pair(VlmKind kind, DType dtype) {
  static const TempDir dir;
  static std::map<std::pair<VlmKind, DType>, PairPaths> pairs;
  PairPaths& paths = pairs[{kind, dtype}];
  if (paths.text.empty()) {
    const std::string stem = dir.file("pair" + std::to_string(pairs.size()));
    paths = {stem + ".gguf", stem + "-mmproj.gguf"};
    const auto written = write_synthetic_vlm({.kind = kind, .dtype = dtype}, paths.text.c_str(),
                                             paths.vision.c_str());
    EXPECT_TRUE(written) << written.error().text;
  }
  return paths;
}

MllmSpec tiny_mllm(VlmKind kind, std::string extra) {
  MllmSpec spec;
  spec.model = tiny_pair(kind).text;
  spec.mmproj = tiny_pair(kind).vision;
  spec.extra = std::move(extra);
  return spec;
}

std::string config_json(const MllmSpec& spec) {
  LlmSpec text = {.model = spec.model,
                  .n_ctx = spec.n_ctx,
                  .n_threads = spec.n_threads,
                  .max_tokens = spec.max_tokens,
                  .seed = spec.seed,
                  .top_k = spec.top_k,
                  .temp = spec.temp,
                  .top_p = spec.top_p,
                  .extra = R"("mmproj_path":")" + spec.mmproj + '"' +
                           (spec.extra.empty() ? "" : "," + spec.extra)};
  std::string json = config_json(text);
  return json.replace(json.find("\"llm\""), 5, "\"mllm\"");
}

Picture Picture::make(int32_t width, int32_t height, uint32_t seed) {
  Picture picture = {width, height, std::vector<uint8_t>(size_t(width) * size_t(height) * 3)};
  size_t at = 0;
  for (int32_t y = 0; y < height; ++y)
    for (int32_t x = 0; x < width; ++x)
      for (int32_t c = 0; c < 3; ++c)
        picture.rgb[at++] = static_cast<uint8_t>(uint32_t(x) * (2 + seed % 3) + uint32_t(y) * 3 +
                                                 uint32_t(c) * 60 + seed * 41);
  return picture;
}

frt_image_view Picture::view() const {
  frt_image_view view{};
  view.struct_size = sizeof view;
  view.pixel_format = FRT_PIXEL_RGB8;
  view.data = rgb.data();
  view.bytes = rgb.size();
  view.width = width;
  view.height = height;
  return view;
}

int MllmProvider::images(const std::vector<Picture>& pictures) const {
  std::vector<frt_image_view> views;
  for (const Picture& picture : pictures) views.push_back(picture.view());
  return set(kImages, views.data(), views.size() * sizeof(frt_image_view));
}

}  // namespace outrider::test
