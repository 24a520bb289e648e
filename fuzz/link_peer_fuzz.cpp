// A host's end of one connection against any sequence of messages, with true checksums or without:
// nothing is read outside what came, a runtime sees only whole pictures, and at the end nobody owns
// anything. The first byte chooses in what steps the bytes come.
#include "base/assert.h"
#include "fuzz/link_frames.h"
#include "link/server/peer.h"

namespace outrider::link {
namespace {

const int64_t kPicture[] = {2, 4, 4, 3}, kFree[] = {-1}, kOut[] = {3, 2};
const frt_runtime_port_desc kPorts[] = {
    {"images", FRT_MODALITY_IMAGE, FRT_DTYPE_U8, FRT_LAYOUT_NHWC, FRT_PORT_IN, FRT_UPDATE_STAGED, 1,
     kPicture, 4, 0, nullptr, 0, 0},
    {"prompt", FRT_MODALITY_TEXT, FRT_DTYPE_U8, FRT_LAYOUT_FLAT, FRT_PORT_IN, FRT_UPDATE_STAGED, 1,
     kFree, 1, 0, nullptr, 0, 0},
    {"out", FRT_MODALITY_ACTION, FRT_DTYPE_F32, FRT_LAYOUT_FLAT, FRT_PORT_OUT, FRT_UPDATE_STAGED, 0,
     kOut, 2, 0, nullptr, 0, 0},
};
const frt_generic_stage_desc_v1 kStages[] = {{"infer", FRT_EXECUTOR_OPAQUE, 5, 0, 0, nullptr}};

// Reads every byte that it is handed.
class Reader final : public Runtime {
 public:
  explicit Reader(int& n_alive) : n_alive_(n_alive) {
    ++n_alive_;
    face_.abi_version = 1;
    face_.struct_size = sizeof face_;
    face_.exp = &exp_;
    face_.ports = kPorts;
    face_.n_ports = std::size(kPorts);
    exp_.identity = "frt-runtime-identity-v1\n";
    plan_.abi_version = 1;
    plan_.struct_size = sizeof plan_;
    plan_.stages = kStages;
    plan_.n_stages = std::size(kStages);
  }
  ~Reader() override { --n_alive_; }
  const frt_model_runtime_v1& face() const noexcept override { return face_; }
  const frt_generic_stage_plan_ext_v1* plan() const noexcept override { return &plan_; }
  bool has_step() const noexcept override { return true; }
  int set_input(uint32_t port, const void* data, uint64_t bytes) noexcept override {
    if (port > 1) return FRT_ERR_INVALID;
    read(data, bytes);
    if (port == 1) return bytes == 0 ? FRT_ERR_INVALID : FRT_OK;
    if (bytes != 2 * sizeof(frt_image_view)) return FRT_ERR_INVALID;
    frt_image_view views[2];
    std::memcpy(views, data, sizeof views);
    for (const frt_image_view& view : views) {
      if (view.data == nullptr) return FRT_ERR_INVALID;
      read(view.data, view.bytes);
    }
    return FRT_OK;
  }
  int get_output(uint32_t port, void* out, uint64_t capacity, uint64_t* written) noexcept override {
    if (port != 2 || written == nullptr) return FRT_ERR_INVALID;
    *written = 24;
    if (out == nullptr || capacity < 24) return FRT_ERR_STORAGE;
    std::memset(out, 1, 24);
    return FRT_OK;
  }
  int run(uint32_t executor_ref) noexcept override {
    return executor_ref == 5 ? FRT_OK : FRT_ERR_NOT_FOUND;
  }
  int step() noexcept override { return FRT_OK; }
  int prepare(uint32_t, uint64_t) noexcept override { return FRT_ERR_UNSUPPORTED; }
  const char* last_error() noexcept override { return "refused"; }

 private:
  void read(const void* data, uint64_t bytes) noexcept {
    const auto* at = static_cast<const volatile std::byte*>(data);
    for (uint64_t i = 0; i < bytes; ++i) sum_ += static_cast<unsigned>(at[i]);
  }
  int& n_alive_;
  unsigned sum_ = 0;
  frt_model_runtime_v1 face_{};
  frt_runtime_export_v1 exp_{};
  frt_generic_stage_plan_ext_v1 plan_{};
};

struct Source final : ModelSource {
  explicit Source(int& alive) : n_alive(alive) {}
  Result<std::unique_ptr<Runtime>> open() override {
    return std::unique_ptr<Runtime>(std::make_unique<Reader>(n_alive));
  }
  int& n_alive;
};

void try_peer(std::span<const std::byte> bytes, size_t step) {
  int n_alive = 0;
  const ManualClock clock;
  ServerCounters counters;
  {
    Models models(ModelsLimits{.max_instances = 1}, clock);
    OUTRIDER_ASSERT(models.add("default", std::make_unique<Source>(n_alive), true));
    ServerCore core{models, clock, counters};
    {
      Peer peer(std::make_unique<fuzz::Feed>(bytes, step), core);
      for (int i = 0; i < 2000 && peer.pump(0); ++i) {
      }
      OUTRIDER_ASSERT(!peer.json().empty());
    }
    OUTRIDER_ASSERT(n_alive == 1);
    OUTRIDER_ASSERT(counters.peers == 0);
    OUTRIDER_ASSERT(models.json().find("\"owned\":true") == std::string::npos);
  }
  OUTRIDER_ASSERT(n_alive == 0);
}

// A message of a device that means it, more often than one of any kind.
fuzz::Part device_part(uint64_t seed) {
  constexpr uint8_t kAsk = 1, kEpoch = 1 << 1;
  switch (seed % 8) {
    case 0:
      return fuzz::part_of(wire::Hello());
    case 1: {
      wire::Open open;
      open.model.assign("default");
      return fuzz::part_of(open, kAsk);
    }
    case 2: {
      wire::Input input;
      input.port = 1;
      const uint8_t text[] = {'g', 'o'};
      return fuzz::part_of(input, kAsk | kEpoch, text);
    }
    case 3: {
      wire::Input input;
      input.form = static_cast<uint8_t>(wire::InputForm::kViews);
      for (int i = 0; i < 2; ++i) {
        wire::View& view = input.views.add();
        view.struct_size = sizeof(frt_image_view);
        view.has_data = 1;
        view.width = view.height = 4;
        view.bytes = view.sent_bytes = 48;
      }
      static constexpr uint8_t kPixels[96] = {};
      return fuzz::part_of(input, static_cast<uint8_t>(kEpoch | (seed >> 8 & 1)), kPixels);
    }
    case 4: {
      wire::Run run;
      run.kind = static_cast<uint8_t>(seed >> 8 & 1);
      run.executor_ref = 5;
      run.n_inputs = static_cast<uint32_t>(seed >> 12 & 3);
      run.push = seed >> 16 & 4;
      return fuzz::part_of(run, kAsk | kEpoch);
    }
    case 5: {
      wire::Read read;
      read.port = 2;
      read.capacity = seed >> 8 & 0xFF;
      return fuzz::part_of(read, kAsk | kEpoch);
    }
    default:
      return fuzz::sample_part(seed / 8);
  }
}

}  // namespace
}  // namespace outrider::link

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace outrider::link;
  if (size == 0) return 0;
  const size_t step = size_t{1} << (data[0] & 15);
  if ((data[0] & 0x80) != 0) {
    try_peer(std::as_bytes(std::span(data + 1, size - 1)), step);
    return 0;
  }
  // The hand shake and the open, so that most of what follows is asked of an owner.
  std::vector<fuzz::Part> parts;
  if ((data[0] & 0x40) == 0) parts = {device_part(0), device_part(1)};
  for (fuzz::Part& part : fuzz::parts_of({data + 1, size - 1})) parts.push_back(std::move(part));
  try_peer(fuzz::framed(parts), step);
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned int seed) {
  using namespace outrider::link;
  if (size < 2 || max_size < 64 || seed % 16 == 0) {
    const size_t n = LLVMFuzzerMutate(data, size, max_size);
    if (n > 0 && seed % 32 != 0) data[0] &= 0x7F;
    return n;
  }
  if ((data[0] & 0x80) != 0) return LLVMFuzzerMutate(data, size, max_size);
  return 1 + fuzz::mutate_parts(data + 1, size - 1, max_size - 1, seed / 16, device_part);
}
