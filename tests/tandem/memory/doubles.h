// Doubles of what a Linux box lacks: a device with programmable attributes, a compiled warp that
// remembers its addresses, imports that pin what was there.
#pragma once
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <new>
#include <set>
#include <vector>

#include "base/log.h"
#include "base/rng.h"
#include "outrider/frt_v1.h"
#include "tandem/memory/host_memory.h"
#include "tandem/memory/load.h"

namespace outrider::memory::test {

inline constexpr int64_t kMs = 1000000;
inline constexpr size_t kFrameBytes = 393216;  // two views of 6 x 128 x 256

// Grants what the test says, whatever is asked. Reading written-combined memory takes time.
class FakeDevice final : public MemoryDevice {
 public:
  explicit FakeDevice(uint32_t grants, ManualClock* clock = nullptr)
      : grants_(grants), clock_(clock) {}
  ~FakeDevice() override { EXPECT_TRUE(live_.empty()) << "a buffer outlived its device"; }
  const char* name() const override { return "fake"; }

  Result<BufferRef> allocate(size_t bytes, uint32_t wanted) override {
    asked.push_back(wanted);
    if (refuse) return make_error(Code::kNoMemory, "fake: no memory");
    auto* data = static_cast<std::byte*>(::operator new (bytes, std::align_val_t{64}));
    std::memset(data, 0xEE, bytes);
    live_[data] = bytes;
    ++n_allocations;
    const bool both = (grants_ & attribute::kSendable) == attribute::kSendable;
    const bool cached = (grants_ & attribute::kWriteBack) != 0;
    const Domain domain = both     ? Domain::kHostCoherent
                          : cached ? Domain::kHostCached
                                   : Domain::kHostWriteCombined;
    return std::make_shared<FrameBuffer>(
        BufferFacts{data, bytes, domain, grants_, ++generation_, -1}, *this);
  }
  Code copy_out(const FrameBuffer& from, std::span<std::byte> to) noexcept override {
    ++n_copies;
    copy_from_write_combined(to.data(), from.data(), to.size());
    if (clock_ != nullptr) clock_->advance_ns(copy_ns);
    return fail_copies ? Code::kDevice : Code::kOk;
  }
  void set_grants(uint32_t grants) { grants_ = grants; }
  bool owns(const void* at) const {
    const auto* data = static_cast<const std::byte*>(at);
    for (const auto& [block, bytes] : live_)
      if (data >= block && data < block + bytes) return true;
    return false;
  }

  std::vector<uint32_t> asked;
  int64_t n_allocations = 0, n_frees = 0, n_copies = 0;
  int64_t copy_ns = 2900000;  // 393,216 bytes at 7.4 ns a byte
  bool refuse = false, fail_copies = false;

 private:
  void release(const BufferFacts& facts) noexcept override {
    EXPECT_EQ(live_.erase(facts.data), 1u) << "freed twice";
    ++n_frees;
    ::operator delete (facts.data, std::align_val_t{64});
  }
  uint32_t grants_;
  ManualClock* clock_;
  uint64_t generation_ = 0;
  std::map<std::byte*, size_t> live_;
};

// The byte pattern that stands for the warp: every byte of the output depends on both frames, on a
// scalar and on the queues.
inline void pattern(std::span<const std::byte> road, std::span<const std::byte> wide,
                    std::span<const float> scalars, std::span<const std::byte> queues,
                    std::span<std::byte> out) {
  uint32_t turn = 0;
  for (const float scalar : scalars) {
    uint32_t bits;
    std::memcpy(&bits, &scalar, sizeof bits);
    turn = turn * 31 + bits;
  }
  for (const std::byte b : queues) turn = turn * 31 + static_cast<uint32_t>(b);
  for (size_t i = 0; i < out.size(); ++i) {
    const auto a = static_cast<uint32_t>(road[i % road.size()]);
    const auto b = static_cast<uint32_t>(wide[(i * 7 + turn) % wide.size()]);
    out[i] = static_cast<std::byte>(a + 3 * b + i + (turn >> (i % 24)));
  }
}

// Imports keep the pages that lay at an address when they were made, as a device does: a mapping of
// its own of the same memory.
class PinningImporter final : public Importer {
 public:
  std::function<int(const void*)>
      fd_of;  // -1: no shared memory there, the address is used as it is
  ~PinningImporter() override { EXPECT_TRUE(pins_.empty()) << "an import was not dropped"; }
  Result<uint64_t> import(const ImportKey& key) override;
  void drop(uint64_t handle) noexcept override;
  std::span<const std::byte> bytes_of(uint64_t handle) const { return pins_.at(handle).bytes; }
  std::vector<ImportKey> imported;
  bool refuse = false;

 private:
  struct Pin {
    std::span<const std::byte> bytes;
    bool mapped = false;
  };
  std::map<uint64_t, Pin> pins_;
  uint64_t next_ = 1;
};

// A compiled warp. Its faults are those that were met in the field.
class PatternGraph final : public CompiledGraph {
 public:
  struct Behaviour {
    int stale_every = 0;      // every so many runs it shows the content before
    int64_t stale_most = 0;   // of 400 runs, so many are stale (the cache that was not coherent)
    bool alternates = false;  // writes another buffer every second run
    bool fails = false;
    int64_t run_ns = 0;
  };
  struct Counts {
    int64_t links = 0, runs = 0, destroyed = 0;
    const std::byte* linked_at = nullptr;
    std::vector<std::string_view> names;  // of the last call
  };

  PatternGraph(Counts& counts, Behaviour& behaviour, size_t frame_bytes, size_t output_bytes,
               size_t n_scalars, size_t queue_bytes, const PinningImporter* importer,
               ManualClock* clock)
      : counts_(counts), behaviour_(behaviour), importer_(importer), clock_(clock) {
    const auto spec = [&](const char* name, uint32_t dtype, size_t n, size_t bytes) {
      captured_.push_back({name, dtype, {static_cast<int64_t>(n)}, bytes});
    };
    spec("frame_road", FRT_DTYPE_U8, frame_bytes, frame_bytes);
    spec("frame_wide", FRT_DTYPE_U8, frame_bytes, frame_bytes);
    spec("scalars", FRT_DTYPE_F32, n_scalars, n_scalars * sizeof(float));
    if (queue_bytes > 0) spec("queues", FRT_DTYPE_U8, queue_bytes, queue_bytes);
    fresh_.resize(output_bytes);
    before_.resize(output_bytes);
    other_.resize(output_bytes);
    counts_.names.reserve(8);
  }
  ~PatternGraph() override { ++counts_.destroyed; }

  std::span<const ArgumentSpec> captured() const override { return captured_; }
  size_t output_bytes() const override { return fresh_.size(); }
  Result<void> link(std::byte* output) override {
    ++counts_.links;
    counts_.linked_at = output_ = output;
    return {};
  }
  const std::byte* replay(std::span<const Argument> arguments) noexcept override {
    if (behaviour_.fails) return nullptr;
    ++counts_.runs;
    counts_.names.clear();
    for (const Argument& a : arguments) counts_.names.push_back(a.name);
    const auto bytes = [&](const Argument& a) -> std::span<const std::byte> {
      if (importer_ != nullptr && a.import != 0) return importer_->bytes_of(a.import);
      return {static_cast<const std::byte*>(a.data), a.bytes};
    };
    std::swap(fresh_, before_);
    pattern(bytes(arguments[0]), bytes(arguments[1]),
            {static_cast<const float*>(arguments[2].data), arguments[2].bytes / sizeof(float)},
            arguments.size() > 3 ? bytes(arguments[3]) : std::span<const std::byte>{}, fresh_);
    const bool every = behaviour_.stale_every > 0 && counts_.runs % behaviour_.stale_every == 0;
    stale_ = every || counts_.runs % 400 >= 400 - behaviour_.stale_most;
    if (clock_ != nullptr) clock_->advance_ns(behaviour_.run_ns);
    return behaviour_.alternates && counts_.runs % 2 == 0 ? other_.data() : output_;
  }
  Code wait() noexcept override {
    if (behaviour_.fails) return Code::kDevice;
    const std::vector<std::byte>& shown = stale_ ? before_ : fresh_;
    std::memcpy(output_, shown.data(), shown.size());
    return Code::kOk;
  }

 private:
  Counts& counts_;
  Behaviour& behaviour_;
  const PinningImporter* importer_;
  ManualClock* clock_;
  std::vector<ArgumentSpec> captured_;
  std::vector<std::byte> fresh_, before_, other_;
  std::byte* output_ = nullptr;
  bool stale_ = false;
};

// The lines of the log while this lives.
class LogLines {
 public:
  LogLines() {
    set_log_level(LogLevel::kDebug);
    set_log_sink([](void* self, LogLevel,
                    const char* line) { static_cast<LogLines*>(self)->lines.emplace_back(line); },
                 this);
  }
  ~LogLines() {
    set_log_sink(nullptr, nullptr);
    set_log_level(LogLevel::kWarn);
  }
  std::vector<std::string> lines;
};

// A small model with its warp, two camera frames, and everything a load asks for.
struct Rig {
  struct Options {
    uint32_t grants = attribute::kSendable;
    size_t frame_bytes = 6000, output_bytes = 4096, n_scalars = 18, queue_bytes = 64;
    bool imports = false;
  };
  Rig() : Rig(Options{}) {}
  explicit Rig(const Options& options)
      : o(options), own(0, &clock), device(options.grants, &clock), cache(importer) {
    scalars.resize(o.n_scalars, 1.0f);
    queues.resize(o.queue_bytes);
    for (size_t i = 0; i < 2; ++i) {
      frames[i].resize(o.frame_bytes);
      fill(static_cast<uint32_t>(i) + 1, frames[i]);
    }
    clock.advance_ns(kMs);
  }
  static void fill(uint64_t seed, std::span<std::byte> to) {
    const UniformStream noise(seed);
    for (size_t i = 0; i < to.size(); ++i) to[i] = static_cast<std::byte>(noise.bits(i));
  }

  // The program's own memory is written-combined: what a driver gives by default.
  std::shared_ptr<Program> program() {
    auto graph = std::make_unique<PatternGraph>(counts, behaviour, o.frame_bytes, o.output_bytes,
                                                o.n_scalars, o.queue_bytes,
                                                o.imports ? &importer : nullptr, &clock);
    auto made = Program::make(std::move(graph), own.allocate(o.output_bytes, 0).value());
    EXPECT_TRUE(made) << made.error().text;
    return made.value();
  }
  WarpState state() {
    WarpState s;
    s.program = program();
    s.imports = o.imports ? &cache : nullptr;
    s.scalars = scalars;
    s.queues = queues;
    return s;
  }
  CameraFrame frame(uint32_t view) const {
    return {view, frames[view].data(), frames[view].size(), 1};
  }
  std::vector<std::byte> expected(const WarpState& s) const {
    std::vector<std::byte> out(o.output_bytes);
    pattern(frames[0], frames[1], s.scalars, s.queues, out);
    return out;
  }
  ProbeParts probe() {
    ProbeParts parts;
    parts.frames = &probe_memory;
    parts.frame_bytes = o.frame_bytes;
    parts.fill = [](int round, uint32_t view, std::span<std::byte> to) {
      fill(static_cast<uint64_t>(round) * 2 + view + 100, to);
    };
    parts.reference = [this](std::span<const std::byte> road, std::span<const std::byte> wide,
                             std::span<std::byte> out) {
      pattern(road, wide, scalars, queues, out);
    };
    return parts;
  }
  Artifact artifact() {
    Artifact a;
    a.runtime_id = "native02e";
    a.check_digest = [this]() -> Result<void> {
      if (bad_digest) return make_error(Code::kFailed, "digest: other than expected");
      return {};
    };
    a.identity = [this] { return identity; };
    a.construct = [this]() -> Result<std::unique_ptr<WarpState>> {
      return std::make_unique<WarpState>(state());
    };
    a.warm_up = [this](WarpState& s) -> Result<void> {
      if (on_warm_up) on_warm_up(s);
      const std::vector<std::byte> zeros(o.frame_bytes);
      const CameraFrame frame{0, zeros.data(), zeros.size(), 0};
      if (warp_frames(s, frame, frame) != Code::kOk || s.program->wait() != Code::kOk)
        return make_error(Code::kDevice, "warm-up: %s", s.program->last_error().c_str());
      if (s.imports != nullptr) s.imports->clear();
      return {};
    };
    return a;
  }
  LoadOptions options() {
    LoadOptions l;
    l.link_on = true;
    l.runtime_id = "native02e";
    l.trace = &trace;
    l.hooks.coherent_warp = [this]() -> Mover {
      ++n_asked;
      return [this](Program& p) { return make_sendable(p, device); };
    };
    return l;
  }

  Options o;
  ManualClock clock;
  FakeDevice own, device;
  FakeDevice probe_memory{attribute::kSendable};
  PinningImporter importer;
  ImportCache cache;
  PatternGraph::Counts counts;
  PatternGraph::Behaviour behaviour;
  std::vector<float> scalars;
  std::vector<std::byte> queues, frames[2];
  std::vector<LoadStep> trace;
  std::string identity = "inode 7";
  bool bad_digest = false;
  std::function<void(WarpState&)> on_warm_up;
  int n_asked = 0;
};

}  // namespace outrider::memory::test
