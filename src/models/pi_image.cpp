#include "models/pi_image.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <utility>
#include <vector>

#include "base/block_sum.h"
#include "base/fnv.h"
#include "models/checked_file.h"

namespace outrider {
namespace {

// All that build makes of the weights, in one fixed order. The lists have their lengths already.
template <class Model, class Visitor>
void visit_parts(Model& m, Visitor& visit) {
  const auto linear = [&](auto& part) {
    visit.weight(part.w);
    visit.floats(part.bias);
  };
  const auto norm = [&](auto& part) {
    visit.floats(part.weight);
    visit.floats(part.bias);
  };
  const auto gemma = [&](auto& layers) {
    for (auto& layer : layers) {
      visit.floats(layer.norm1);
      visit.floats(layer.norm2);
      for (auto* w : {&layer.qkv, &layer.o, &layer.gate_up, &layer.down}) visit.weight(*w);
    }
  };
  const auto modulation = [&](auto& part) {
    visit.floats(part.rows);
    visit.number(part.width);
  };
  linear(m.patch);
  visit.floats(m.position);
  for (auto& layer : m.vision) {
    norm(layer.ln1);
    norm(layer.ln2);
    for (auto* part : {&layer.qkv, &layer.out, &layer.fc1, &layer.fc2}) linear(*part);
  }
  norm(m.post_ln);
  linear(m.projector);
  gemma(m.backbone);
  gemma(m.expert);
  for (auto* part : {&m.action_in, &m.action_out, &m.state, &m.action_time_out}) linear(*part);
  visit.weight(m.action_time_in);
  visit.floats(m.action_time_bias);
  visit.floats(m.expert_norm);
  for (auto& part : m.modulation1) modulation(part);
  for (auto& part : m.modulation2) modulation(part);
  modulation(m.final_modulation);
  visit.floats(m.times);
  visit.floats(m.backbone_norm);
  visit.weight(m.head);
}

// Notes every part of a model.
struct Collector {
  std::span<const std::byte> packed;
  std::vector<int64_t> numbers;
  std::vector<float> values;

  void number(int64_t n) { numbers.push_back(n); }
  void floats(const std::vector<float>& part) {
    number(static_cast<int64_t>(part.size()));
    values.insert(values.end(), part.begin(), part.end());
  }
  void weight(const Weight& w) {
    const auto* data = static_cast<const std::byte*>(w.data);
    OUTRIDER_ASSERT(data == nullptr ||
                    (data >= packed.data() && data < packed.data() + packed.size()));
    for (const int64_t n : {w.n_out, w.n_in, static_cast<int64_t>(w.format),
                            data == nullptr ? int64_t{-1} : data - packed.data()})
      number(n);
  }
};

// Gives every part back. What does not fit makes ok() false and leaves the part empty.
class Restorer {
 public:
  explicit Restorer(const CheckedParts& parts) : parts_(parts) {}
  // All was there and all was used.
  bool ok() const {
    return ok_ && at_number_ == parts_.numbers.size() && at_float_ == parts_.floats.size();
  }

  void number(int64_t& n) { n = next(); }
  void floats(std::vector<float>& part) {
    const int64_t n = next();
    if (n < 0 || static_cast<uint64_t>(n) > parts_.floats.size() - at_float_) {
      ok_ = false;
      return;
    }
    const auto from = parts_.floats.subspan(at_float_, static_cast<size_t>(n));
    part.assign(from.begin(), from.end());
    at_float_ += from.size();
  }
  void weight(Weight& w) {
    w.n_out = next();
    w.n_in = next();
    const int64_t format = next(), offset = next();
    w.format = static_cast<uint32_t>(format);
    ok_ = ok_ && w.n_out >= 0 && w.n_in >= 0 && format >= 0 && format <= UINT32_MAX;
    if (offset == -1) return;
    if (offset < 0 || static_cast<uint64_t>(offset) >= parts_.bytes.size() || offset % 64 != 0) {
      ok_ = false;
      return;
    }
    w.data = parts_.bytes.data() + offset;
  }

 private:
  int64_t next() {
    if (at_number_ < parts_.numbers.size()) return parts_.numbers[at_number_++];
    ok_ = false;
    return 0;
  }
  const CheckedParts& parts_;
  size_t at_number_ = 0, at_float_ = 0;
  bool ok_ = true;
};

uint64_t sum_of_packed(const Weight& w, std::span<const std::byte> storage, uint64_t sum) {
  const int64_t facts[] = {w.n_out, w.n_in, w.format, static_cast<int64_t>(storage.size())};
  for (const uint64_t part : {block_sum(std::as_bytes(std::span(facts))), block_sum(storage)}) {
    char text[24];
    std::snprintf(text, sizeof text, "%016" PRIx64, part);
    sum = fnv1a64(text, sum);
  }
  return sum;
}

// A sum over what packing makes of small matrices: changes with the layout, whatever the layout is.
Result<uint64_t> layout_sum(Ops& ops) {
  constexpr int64_t kOut = 37, kIn = 512;  // outputs that fill no panel; whole blocks of any type
  constexpr DType kTypes[] = {DType::kF32,  DType::kF16,  DType::kBf16, DType::kQ8_0,
                              DType::kQ4_0, DType::kQ4_K, DType::kQ6_K};
  std::vector<std::byte> source(kOut * kIn * sizeof(float));
  // Small bytes: read as any element type they are finite numbers.
  for (size_t i = 0; i < source.size(); ++i) source[i] = static_cast<std::byte>(i * 37 % 59);
  uint64_t sum = kFnv1a64Start;
  // All precisions: a model may mix them.
  for (const Precision precision :
       {Precision::kF32, Precision::kBf16, Precision::kInt8, Precision::kStored}) {
    for (const DType type : kTypes) {
      const Matrix parts[] = {{type, kOut, kIn, source.data()}, {type, kOut, kIn, source.data()}};
      for (const Stack stack : {Stack::kRows, Stack::kPaired}) {
        const auto bytes = ops.packed_bytes(parts, stack, precision);
        if (bytes.code() == Code::kUnsupported) continue;
        if (!bytes) return bytes.error();
        Arena storage;
        OUTRIDER_TRY(storage.reserve(Arena::cost<std::byte>(bytes.value()), false));
        const auto taken = storage.take<std::byte>(bytes.value());
        auto packed = ops.pack(parts, stack, precision, taken);
        if (!packed) return packed.error();
        sum = sum_of_packed(packed.value(), taken, sum);
      }
    }
  }
  return sum;
}

void size_lists(const PiConfig& config, PiModel& m) {
  const auto n = [](int64_t count) { return static_cast<size_t>(count); };
  m.vision.resize(n(config.vision.n_layers));
  m.backbone.resize(n(config.backbone.n_layers));
  m.expert.resize(n(config.expert.n_layers));
  if (config.family != PiFamily::kPi05) return;
  m.modulation1.resize(m.expert.size());
  m.modulation2.resize(m.expert.size());
}

struct Kept {
  CheckedFile file;
  std::shared_ptr<const void> other;
};

}  // namespace

Result<PiImageName> pi_image_name(const PiConfig& config, const PiOptions& options, Ops& ops,
                                  const std::string& weights_key) {
  auto layout = layout_sum(ops);
  if (!layout) return layout.error();
  // rope_bf16 and quick_gelu_by_flag decide about runs, not about what is packed.
  char text[128];
  std::snprintf(text, sizeof text, "\nprecision %d\nsteps %lld\nexact_times %d\nkernels %s\n",
                static_cast<int>(options.precision), static_cast<long long>(config.n_denoise_steps),
                options.numerics.exact_times, ops.kernel_table());
  PiImageName name;
  name.key = "outrider packed " + std::string(pi_family_name(config.family)) + "\nweights " +
             weights_key + text;
  char file[48];
  std::snprintf(file, sizeof file, "packed-%016" PRIx64 ".bin", fnv1a64(name.key));
  name.file = file;
  std::snprintf(text, sizeof text, "revision %d\nlayout %016" PRIx64 "\n", kPiImageRevision,
                layout.value());
  name.key += text;
  return name;
}

Result<void> write_pi_image(const PiModel& model, const std::string& dir, const PiImageName& name) {
  Collector collector{model.packed(), {}, {}};
  visit_parts(model, collector);
  return CheckedFile::write(dir, name.file,
                            {name.key, collector.numbers, collector.packed, collector.values});
}

Result<std::shared_ptr<const PiModel>> read_pi_image(const std::string& dir,
                                                     const PiImageName& name,
                                                     const PiConfig& config,
                                                     const PiOptions& options, const Matrix& embed,
                                                     std::shared_ptr<const void> keep_alive) {
  auto file = CheckedFile::open(dir + "/" + name.file, name.key);
  if (!file) return file.error();
  auto kept = std::make_shared<Kept>(Kept{std::move(file.value()), std::move(keep_alive)});
  auto model = std::make_shared<PiModel>();
  model->config = config;
  model->options = options;
  OUTRIDER_TRY(model->take_embedding(embed, {}));
  size_lists(config, *model);
  Restorer restorer(kept->file.parts());
  visit_parts(*model, restorer);
  if (!restorer.ok())
    return make_error(Code::kInvalid, "it is damaged: its parts are not those of this model");
  model->keep(kept->file.parts().bytes, kept);
  return std::shared_ptr<const PiModel>(model);
}

}  // namespace outrider
