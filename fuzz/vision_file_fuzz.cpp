// A vision file (projector) with bytes changed. The first byte chooses: the input itself is the
// file, or it changes a good file of one of the three kinds, by steps of (place, length, bytes)
// that reach keys, names, sizes and the tensor table alike.
//
// Properties: a refusal has a code and one line; a file that is read promises sizes that hold:
// every matrix lies inside the file, a picture of any size gets a plan whose numbers agree with
// each other; now and then the tower is built and shown a picture.
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/assert.h"
#include "kernels/cpu_ops.h"
#include "models/synthetic_vlm.h"
#include "models/vlm_model.h"
#include "models/vlm_picture.h"
#include "models/vlm_tower.h"

namespace outrider {
namespace {

constexpr VlmKind kKinds[] = {VlmKind::kGemma3, VlmKind::kQwen25Vl, VlmKind::kIdefics3};

struct Good {
  std::vector<std::byte> bytes;
  size_t head = 0;  // keys and tensor table: what changes reach
};

Good good_file(VlmKind kind) {
  const std::string path = std::filesystem::temp_directory_path() /
                           ("vision-fuzz-" + std::to_string(::getpid()) + ".gguf");
  const auto written = write_synthetic_vision({.kind = kind}, path.c_str());
  OUTRIDER_ASSERT(written);
  std::ifstream in(path, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  std::filesystem::remove(path);
  Good good;
  good.bytes.resize(text.size());
  std::memcpy(good.bytes.data(), text.data(), text.size());
  const auto parsed = GgufFile::parse(good.bytes, "good");
  OUTRIDER_ASSERT(parsed && read_vlm_weights(parsed.value()));
  const std::byte* first = good.bytes.data() + good.bytes.size();
  for (const GgufTensor& tensor : parsed.value().tensors()) first = std::min(first, tensor.data);
  good.head = static_cast<size_t>(first - good.bytes.data());
  return good;
}

// A good file while its head is changed; put back at the end.
class Changed {
 public:
  Changed(Good& good, std::span<const uint8_t> steps) : good_(good) {
    kept_.assign(good.bytes.begin(), good.bytes.begin() + static_cast<ptrdiff_t>(good.head));
    while (steps.size() >= 4) {
      const size_t at = (steps[0] | size_t{steps[1]} << 8) * 3 % good.head, n = steps[2] % 9;
      steps = steps.subspan(3);
      for (size_t i = 0; i < n && i < steps.size() && at + i < good.head; ++i)
        good.bytes[at + i] = std::byte{steps[i]};
      steps = steps.subspan(std::min(std::max<size_t>(n, 1), steps.size()));
    }
  }
  ~Changed() { std::copy(kept_.begin(), kept_.end(), good_.bytes.begin()); }
  Changed(const Changed&) = delete;
  Changed& operator=(const Changed&) = delete;

 private:
  Good& good_;
  std::vector<std::byte> kept_;
};

void require_inside(std::span<const std::byte> whole, const Matrix& m) {
  if (m.n_out == 0) return;
  const auto* data = static_cast<const std::byte*>(m.data);
  const size_t n = static_cast<size_t>(m.n_out) * row_bytes(m.dtype, m.n_in);
  OUTRIDER_ASSERT(data >= whole.data() && n <= whole.size() &&
                  static_cast<size_t>(data - whole.data()) <= whole.size() - n);
}

void plan_pictures(const VlmConfig& config) {
  for (const auto& [w, h] :
       {std::pair<int64_t, int64_t>{1, 1}, {65535, 1}, {1, 65535}, {640, 480}, {65535, 65535}}) {
    const PicturePlan plan = plan_picture(config, w, h);
    OUTRIDER_ASSERT(plan.frame_width > 0 && plan.frame_height > 0 && plan.frame_tokens > 0);
    OUTRIDER_ASSERT(plan.frame_tokens <= config.most_tokens());
    OUTRIDER_ASSERT(plan.n_frames() >= 1 && plan.n_bytes() > 0 && plan.n_tokens() > 0);
    OUTRIDER_ASSERT(plan.frame_tokens % plan.token_columns == 0);
  }
}

void show_a_picture(const VlmWeights& weights) {
  const VlmConfig& config = weights.config;
  if (config.most_tokens() > 4096 || config.image_size > 256 || config.patch_size > 32) return;
  const PicturePlan plan = plan_picture(config, 20, 30);
  if (plan.n_bytes() > (1 << 20) || plan.frame_tokens > 64) return;
  auto ops = make_cpu_ops({.n_threads = 1});
  OUTRIDER_ASSERT(ops && ops.value()->reserve(VlmTower::limits(config, plan.frame_tokens)));
  auto model = VlmModel::build(weights, Precision::kStored, *ops.value(), {});
  if (!model) return;
  auto tower = VlmTower::make(model.value(), *ops.value(), plan.frame_tokens);
  OUTRIDER_ASSERT(tower);
  const std::vector<uint8_t> rgb(20 * 30 * 3, 90);
  std::vector<uint8_t> pixels(static_cast<size_t>(plan.n_bytes()));
  read_picture(config, plan, {PixelFormat::kRgb8, rgb.data(), rgb.size(), 20, 30, 0},
               pixels.data());
  std::vector<float> out(static_cast<size_t>(plan.frame_tokens * config.out_width));
  tower.value()->encode(frame_at(plan, pixels.data(), plan.n_frames() - 1),
                        {out.data(), plan.frame_tokens, config.out_width});
}

void check(std::span<const std::byte> bytes, bool show) {
  const auto file = GgufFile::parse(bytes, "fuzz");
  if (!file) return;
  const auto weights = read_vlm_weights(file.value());
  if (!weights) {
    OUTRIDER_ASSERT(weights.code() != Code::kOk && !weights.error().message().empty());
    OUTRIDER_ASSERT(weights.error().message().find('\n') == std::string_view::npos);
    return;
  }
  const VlmWeights& w = weights.value();
  OUTRIDER_ASSERT(static_cast<int64_t>(w.layers.size()) == w.config.n_layers);
  for (const LinearRef* l : {&w.patch, &w.patch2, &w.merger1, &w.merger2})
    require_inside(bytes, l->w);
  require_inside(bytes, w.projector);
  for (const VlmLayerRef& layer : w.layers)
    for (const LinearRef* l : {&layer.q, &layer.k, &layer.v, &layer.out, &layer.fc1, &layer.fc2,
                               &layer.gate, &layer.up, &layer.down})
      require_inside(bytes, l->w);
  plan_pictures(w.config);
  if (show) show_a_picture(w);
}

}  // namespace
}  // namespace outrider

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t n_bytes) {
  using namespace outrider;
  if (n_bytes == 0) return 0;
  static Good good[] = {good_file(kKinds[0]), good_file(kKinds[1]), good_file(kKinds[2])};
  const std::span<const uint8_t> rest(data + 1, n_bytes - 1);
  const size_t which = data[0] % 4;
  if (which == 3) {
    check(std::as_bytes(rest), false);
    return 0;
  }
  const Changed changed(good[which], rest);
  check(good[which].bytes, data[0] >= 248);
  return 0;
}
