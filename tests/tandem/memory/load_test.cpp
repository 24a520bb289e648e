// Loading, probing and handing over. R3 to R5, R21 to R25, R28, R29.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tandem/memory/doubles.h"

namespace outrider::memory::test {
namespace {

const std::vector<LoadStep> kOrder = {LoadStep::kDigest, LoadStep::kConstruct, LoadStep::kMove,
                                      LoadStep::kWarmUp, LoadStep::kIdentity,  LoadStep::kPublish};

TEST(MemoryLoad, R3_the_hook_is_asked_once_and_only_where_there_is_something_to_move) {
  enum Hook { kGives, kMissing, kThrows };
  for (const bool link_on : {false, true}) {
    for (const char* runtime : {"legacy9d", "native02e", "native99z"}) {
      for (const Hook hook : {kGives, kMissing, kThrows}) {
        Rig rig;
        LoadOptions options = rig.options();
        options.link_on = link_on;
        options.runtime_id = runtime;
        if (hook == kMissing) options.hooks.coherent_warp = nullptr;
        if (hook == kThrows)
          options.hooks.coherent_warp = [&]() -> Mover {
            ++rig.n_asked;
            throw std::runtime_error("no such attribute");
          };
        LogLines log;
        auto loaded = load_warp(rig.artifact(), options);
        ASSERT_TRUE(loaded) << loaded.error().text;
        const bool wanted = link_on && options.runtime_id != "legacy9d";
        const bool moved = wanted && hook == kGives;
        EXPECT_EQ(rig.n_asked, wanted && hook != kMissing ? 1 : 0) << link_on << runtime << hook;
        EXPECT_EQ(loaded.value().asked, wanted);
        EXPECT_EQ(loaded.value().state->program->output()->sendable(), moved);
        EXPECT_EQ(loaded.value().why_not.empty(), moved);
        if (!link_on) {
          EXPECT_EQ(log.lines.size(), 0u);
          continue;
        }
        const auto warp =
            warp_for_link(*loaded.value().state, loaded.value().why_not, rig.probe(), rig.clock);
        ASSERT_TRUE(warp);
        ASSERT_EQ(log.lines.size(), 1u) << "the route, and in it why";
        const char* why = !wanted            ? "not moved on the stock runtime"
                          : hook == kGives   ? "sent from where it is"
                          : hook == kMissing ? "no coherent_warp hook"
                                             : "coherent_warp: no such attribute";
        EXPECT_NE(log.lines[0].find(why), std::string::npos) << log.lines[0];
      }
    }
  }
}

TEST(MemoryLoad, R4_the_steps_of_a_load_have_one_order) {
  Rig rig;
  ASSERT_TRUE(load_warp(rig.artifact(), rig.options()));
  EXPECT_EQ(rig.trace, kOrder);
  EXPECT_EQ(rig.counts.linked_at != nullptr, true);

  // The link finds the moved buffer: at the warm-up the output is already where it will stay.
  Rig moved;
  bool seen = false;
  moved.on_warm_up = [&](WarpState& s) {
    seen = true;
    EXPECT_EQ(s.program->state(), Program::State::kUnlinked);
    EXPECT_TRUE(s.program->output()->sendable());
  };
  ASSERT_TRUE(load_warp(moved.artifact(), moved.options()));
  EXPECT_TRUE(seen);

  // A move after the warm-up cannot be: R1.
  Rig late;
  auto loaded = load_warp(late.artifact(), late.options());
  ASSERT_TRUE(loaded);
  EXPECT_FALSE(make_sendable(*loaded.value().state->program, late.device));
}

TEST(MemoryLoad, R4_whatever_fails_publishes_nothing_and_frees_everything) {
  struct Case {
    const char* what;
    std::function<void(Rig&, Artifact&)> spoil;
    size_t steps;
  };
  const Case cases[] = {
      {"digest", [](Rig& r, Artifact&) { r.bad_digest = true; }, 1},
      {"digest throws",
       [](Rig&, Artifact& a) { a.check_digest = []() -> Result<void> { throw 1; }; }, 1},
      {"construct",
       [](Rig&, Artifact& a) {
         a.construct = []() -> Result<std::unique_ptr<WarpState>> { throw std::bad_alloc(); };
       },
       2},
      {"construct gives nothing",
       [](Rig&, Artifact& a) {
         a.construct = []() -> Result<std::unique_ptr<WarpState>> {
           return std::make_unique<WarpState>();
         };
       },
       2},
      {"warm-up", [](Rig& r, Artifact&) { r.behaviour.fails = true; }, 4},
      {"warm-up runs nothing",
       [](Rig&, Artifact& a) { a.warm_up = [](WarpState&) { return Result<void>(); }; }, 4},
      {"replaced meanwhile",
       [](Rig& r, Artifact&) { r.on_warm_up = [&r](WarpState&) { r.identity = "inode 8"; }; }, 5},
  };
  for (const Case& c : cases) {
    Rig rig;
    Artifact artifact = rig.artifact();
    c.spoil(rig, artifact);
    EXPECT_FALSE(load_warp(artifact, rig.options())) << c.what;
    ASSERT_EQ(rig.trace.size(), c.steps) << c.what;
    EXPECT_TRUE(std::equal(rig.trace.begin(), rig.trace.end(), kOrder.begin())) << c.what;
    EXPECT_EQ(rig.device.n_frees, rig.device.n_allocations) << c.what;
    EXPECT_EQ(rig.own.n_frees, rig.own.n_allocations) << c.what;
  }
}

TEST(MemoryLoad, R5_the_stock_warp_is_moved_by_the_same_mover_in_the_same_order) {
  Rig model, stock;
  auto loaded = load_warp(model.artifact(), model.options());
  ASSERT_TRUE(loaded);
  LoadOptions options = stock.options();
  options.hooks.model_warp = [] { return nullptr; };
  const LinkSide side =
      attach_warp(stock.artifact(), loaded.value(), options, stock.probe(), stock.clock);
  ASSERT_NE(side.warp, nullptr) << side.reason;
  EXPECT_EQ(model.trace, kOrder);
  EXPECT_EQ(stock.trace, kOrder);
  EXPECT_EQ(stock.n_asked, 1);
  EXPECT_EQ(side.warp->route().route, SendRoute::kDirect);
  EXPECT_EQ(side.warp->send_view().data(), stock.counts.linked_at);
}

TEST(MemoryLoad, R21_the_probe_takes_two_frames_and_gives_both_back) {
  for (const int stale_every : {0, 3}) {  // also when it refuses
    Rig rig;
    rig.behaviour.stale_every = stale_every;
    auto loaded = load_warp(rig.artifact(), rig.options());
    ASSERT_TRUE(loaded);
    auto warp = LinkWarp::make(*loaded.value().state, route_of(*loaded.value().state->program, ""),
                               rig.clock);
    ASSERT_TRUE(warp);
    EXPECT_EQ(static_cast<bool>(probe_warp(*warp.value(), rig.probe())), stale_every == 0);
    EXPECT_EQ(rig.probe_memory.n_allocations, 2);
    EXPECT_EQ(rig.probe_memory.n_frees, 2);
  }
}

// Buffers that come to lie at an address that was free before.
class FixedMemory final : public MemoryDevice {
 public:
  static constexpr size_t kSlotBytes = 1 << 16;
  FixedMemory() {
    base_ = static_cast<std::byte*>(
        mmap(nullptr, 2 * kSlotBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  }
  ~FixedMemory() override { munmap(base_, 2 * kSlotBytes); }
  const char* name() const override { return "fixed"; }
  Result<BufferRef> allocate(size_t bytes, uint32_t) override {
    const size_t slot = fds_[0] < 0 ? 0 : 1;
    if (fds_[slot] >= 0) return make_error(Code::kNoMemory, "fixed: both slots are taken");
    const int fd = memfd_create("fixed", MFD_CLOEXEC);
    EXPECT_EQ(ftruncate(fd, kSlotBytes), 0);
    auto* at = static_cast<std::byte*>(mmap(base_ + slot * kSlotBytes, kSlotBytes,
                                            PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0));
    fds_[slot] = fd;
    return std::make_shared<FrameBuffer>(
        BufferFacts{at, bytes, Domain::kHostCached, attribute::kSendable, 0, fd}, *this);
  }
  Code copy_out(const FrameBuffer& from, std::span<std::byte> to) noexcept override {
    std::memcpy(to.data(), from.data(), to.size());
    return Code::kOk;
  }
  int fd_of(const void* address) const {
    const auto offset = static_cast<const std::byte*>(address) - base_;
    return offset < 0 || offset >= 2 * static_cast<ptrdiff_t>(kSlotBytes)
               ? -1
               : fds_[offset / static_cast<ptrdiff_t>(kSlotBytes)];
  }

 private:
  void release(const BufferFacts& facts) noexcept override {
    const auto slot = (facts.data - base_) / static_cast<ptrdiff_t>(kSlotBytes);
    mmap(facts.data, kSlotBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    close(facts.fd);
    fds_[slot] = -1;
  }
  std::byte* base_ = nullptr;
  int fds_[2] = {-1, -1};
};

TEST(MemoryLoad, R22_no_import_of_the_probe_is_left_for_a_camera_buffer_to_hit) {
  FixedMemory memory;  // no generations: the address is all there is, as in the field
  Rig::Options options;
  options.imports = true;
  Rig rig(options);
  rig.importer.fd_of = [&](const void* at) { return memory.fd_of(at); };
  auto loaded = load_warp(rig.artifact(), rig.options());
  ASSERT_TRUE(loaded);
  ProbeParts probe = rig.probe();
  probe.frames = &memory;
  const auto warp = warp_for_link(*loaded.value().state, "", probe, rig.clock);
  ASSERT_TRUE(warp) << warp.error().text;
  ASSERT_GE(rig.importer.imported.size(), 2u) << "the probe's frames were imported";
  const void* probe_address = rig.importer.imported.back().address;
  EXPECT_EQ(rig.cache.size(), 0u);

  const auto road = memory.allocate(options.frame_bytes, 0).value(),
             wide = memory.allocate(options.frame_bytes, 0).value();
  ASSERT_TRUE(probe_address == road->data() || probe_address == wide->data())
      << "not the address of the probe: proves nothing";
  Rig::fill(900, {road->data(), road->bytes()});
  Rig::fill(901, {wide->data(), wide->bytes()});
  const CameraFrame frames[2] = {{0, road->data(), road->bytes(), 0},
                                 {1, wide->data(), wide->bytes(), 0}};
  ASSERT_EQ(warp.value()->start(frames[0], frames[1]), Code::kOk);
  ASSERT_EQ(warp.value()->wait(), Code::kOk);
  std::vector<std::byte> wanted(options.output_bytes);
  pattern({road->data(), road->bytes()}, {wide->data(), wide->bytes()}, rig.scalars, rig.queues,
          wanted);
  EXPECT_EQ(std::memcmp(warp.value()->send_view().data(), wanted.data(), wanted.size()), 0)
      << "what the camera sees, not what the probe saw";
  rig.cache.clear();
}

TEST(MemoryLoad, R23_a_hook_that_throws_is_one_line_and_the_small_model_drives_on) {
  Rig rig;
  auto loaded = load_warp(rig.artifact(), rig.options());
  ASSERT_TRUE(loaded);
  LoadOptions options = rig.options();
  options.hooks.model_warp = []() -> WarpState* {
    throw std::runtime_error("output is not read live");
  };
  LogLines log;
  const LinkSide side =
      attach_warp(rig.artifact(), loaded.value(), options, rig.probe(), rig.clock);
  EXPECT_EQ(side.warp, nullptr);
  EXPECT_NE(side.reason.find("output is not read live"), std::string::npos);
  for (int i = 0; i < 100; ++i) {
    ASSERT_EQ(warp_frames(*loaded.value().state, rig.frame(0), rig.frame(1)), Code::kOk);
    ASSERT_EQ(loaded.value().state->program->wait(), Code::kOk);
  }
  ASSERT_EQ(log.lines.size(), 1u);
  EXPECT_NE(log.lines[0].find("the small model drives alone"), std::string::npos);
}

TEST(MemoryLoad,
     R24_an_artifact_of_another_runtime_is_a_reason_and_the_models_own_warp_takes_over) {
  Rig rig;
  auto loaded = load_warp(rig.artifact(), rig.options());
  ASSERT_TRUE(loaded);
  Artifact stock = rig.artifact();
  stock.runtime_id = "legacy9d";
  LogLines log;
  LinkSide side = attach_warp(stock, loaded.value(), rig.options(), rig.probe(), rig.clock);
  EXPECT_EQ(side.warp, nullptr);
  EXPECT_EQ(
      side.reason,
      "the stock warp was made for runtime legacy9d, this one is native02e; offer model_warp");
  EXPECT_EQ(log.lines.size(), 1u);
  LoadOptions options = rig.options();
  options.hooks.model_warp = [&] { return loaded.value().state.get(); };
  side = attach_warp(stock, loaded.value(), options, rig.probe(), rig.clock);
  ASSERT_NE(side.warp, nullptr) << side.reason;
  EXPECT_EQ(side.reason, "");
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(side.warp->start(rig.frame(0), rig.frame(1)), Code::kOk);
    ASSERT_EQ(side.warp->wait(), Code::kOk);
  }
}

TEST(MemoryLoad, R25_an_adapter_without_the_hook_gets_the_stock_warp) {
  Rig rig;
  auto loaded = load_warp(rig.artifact(), rig.options());
  ASSERT_TRUE(loaded);
  LoadOptions options = rig.options();
  options.hooks = {};  // an older adapter: no hook at all
  const LinkSide side =
      attach_warp(rig.artifact(), loaded.value(), options, rig.probe(), rig.clock);
  ASSERT_NE(side.warp, nullptr) << side.reason;
  EXPECT_NE(side.stock, nullptr);
  EXPECT_EQ(side.warp->route().route, SendRoute::kStaged) << "nobody moved it";
}

TEST(MemoryLoad, R28_a_view_that_once_shows_old_bytes_refuses_the_warp) {
  const struct {
    const char* what;
    int every;
    int64_t most;
  } cases[] = {{"always one behind", 1, 0},
               {"one in eight", 8, 0},
               {"one in five", 5, 0},
               {"396 of 400", 0, 396}};
  for (const auto& c : cases) {
    Rig rig;
    auto loaded = load_warp(rig.artifact(), rig.options());
    ASSERT_TRUE(loaded);
    rig.behaviour.stale_every = c.every;
    rig.behaviour.stale_most = c.most;
    LogLines log;
    LoadOptions options = rig.options();
    options.hooks.model_warp = [&] { return loaded.value().state.get(); };
    const LinkSide side =
        attach_warp(rig.artifact(), loaded.value(), options, rig.probe(), rig.clock);
    EXPECT_EQ(side.warp, nullptr) << c.what;
    EXPECT_NE(side.reason.find("not read live"), std::string::npos)
        << c.what << ": " << side.reason;
    EXPECT_EQ(log.lines.size(), 1u) << c.what;
  }
}

// What the device shows on the direct route is stale, what it copies out is not: the fallback.
TEST(MemoryLoad, R28_a_stale_direct_route_falls_back_to_the_staged_one) {
  class Incoherent final : public MemoryDevice {  // says it is coherent; the mapping lags behind
   public:
    const char* name() const override { return "incoherent"; }
    Result<BufferRef> allocate(size_t bytes, uint32_t) override {
      truth.resize(bytes);
      seen.resize(bytes);
      return std::make_shared<FrameBuffer>(
          BufferFacts{seen.data(), bytes, Domain::kHostCoherent, attribute::kSendable, 1, -1},
          *this);
    }
    Code copy_out(const FrameBuffer&, std::span<std::byte> to) noexcept override {
      std::memcpy(to.data(), truth.data(), to.size());
      return Code::kOk;
    }
    std::vector<std::byte> truth, seen;

   private:
    void release(const BufferFacts&) noexcept override {}
  } device;
  class Graph final : public CompiledGraph {
   public:
    Graph(Incoherent& d, std::vector<ArgumentSpec> specs, size_t bytes)
        : device_(d), specs_(std::move(specs)), bytes_(bytes) {}
    std::span<const ArgumentSpec> captured() const override { return specs_; }
    size_t output_bytes() const override { return bytes_; }
    Result<void> link(std::byte*) override { return {}; }
    const std::byte* replay(std::span<const Argument> a) noexcept override {
      device_.seen = device_.truth;
      const auto bytes = [](const Argument& x) {
        return std::span(static_cast<const std::byte*>(x.data), x.bytes);
      };
      pattern(bytes(a[0]), bytes(a[1]), {static_cast<const float*>(a[2].data), a[2].bytes / 4}, {},
              device_.truth);
      return device_.seen.data();
    }
    Code wait() noexcept override { return Code::kOk; }

   private:
    Incoherent& device_;
    std::vector<ArgumentSpec> specs_;
    size_t bytes_;
  };
  Rig::Options o;
  o.queue_bytes = 0;
  Rig rig(o);
  const auto n = static_cast<int64_t>(o.frame_bytes), k = static_cast<int64_t>(o.n_scalars);
  auto graph = std::make_unique<Graph>(
      device,
      std::vector<ArgumentSpec>{{"frame_road", FRT_DTYPE_U8, {n}, o.frame_bytes},
                                {"frame_wide", FRT_DTYPE_U8, {n}, o.frame_bytes},
                                {"scalars", FRT_DTYPE_F32, {k}, o.n_scalars * 4}},
      o.output_bytes);
  WarpState state;
  state.program =
      Program::make(std::move(graph), device.allocate(o.output_bytes, 0).value()).value();
  state.scalars = rig.scalars;
  LogLines log;
  const auto warp = warp_for_link(state, "", rig.probe(), rig.clock);
  ASSERT_TRUE(warp) << warp.error().text;
  EXPECT_EQ(warp.value()->route().route, SendRoute::kStaged);
  ASSERT_EQ(log.lines.size(), 1u);
  EXPECT_NE(log.lines[0].find("not read live"), std::string::npos) << log.lines[0];
}

TEST(MemoryLoad, R28_the_probe_refuses_to_prove_too_little) {
  Rig rig;
  auto loaded = load_warp(rig.artifact(), rig.options());
  ASSERT_TRUE(loaded);
  auto warp = LinkWarp::make(*loaded.value().state, route_of(*loaded.value().state->program, ""),
                             rig.clock);
  ASSERT_TRUE(warp);
  for (int what = 0; what < 5; ++what) {
    ProbeParts probe = rig.probe();
    if (what == 0) probe.rounds = 7;
    if (what == 1) probe.frame_bytes = 0;
    if (what == 2) probe.frames = nullptr;
    if (what == 3) probe.fill = nullptr;
    if (what == 4) probe.reference = nullptr;
    EXPECT_EQ(probe_warp(*warp.value(), probe).error().code, Code::kInvalid) << what;
  }
  rig.probe_memory.refuse = true;
  EXPECT_EQ(probe_warp(*warp.value(), rig.probe()).error().code, Code::kNoMemory);
}

TEST(MemoryLoad, R29_a_hook_that_gives_nothing_means_the_stock_warp_and_no_word_about_it) {
  Rig rig;
  auto loaded = load_warp(rig.artifact(), rig.options());
  ASSERT_TRUE(loaded);
  for (const bool has_hook : {false, true}) {
    LoadOptions options = rig.options();
    int asked = 0;
    if (has_hook) options.hooks.model_warp = [&]() -> WarpState* { return ++asked, nullptr; };
    LogLines log;
    const LinkSide side =
        attach_warp(rig.artifact(), loaded.value(), options, rig.probe(), rig.clock);
    ASSERT_NE(side.warp, nullptr) << side.reason;
    EXPECT_NE(side.stock, nullptr);
    EXPECT_EQ(asked, has_hook ? 1 : 0);
    ASSERT_EQ(log.lines.size(), 1u) << "the route of the stock warp, nothing else";
    EXPECT_EQ(log.lines[0].find("warp output: route direct"), 0u) << log.lines[0];
  }
  LoadOptions off = rig.options();
  off.link_on = false;
  off.hooks.model_warp = []() -> WarpState* { throw 1; };
  LogLines log;
  const LinkSide side = attach_warp(rig.artifact(), loaded.value(), off, rig.probe(), rig.clock);
  EXPECT_EQ(side.warp, nullptr);
  EXPECT_EQ(side.reason, "the link is off");
  EXPECT_TRUE(log.lines.empty());
}

}  // namespace
}  // namespace outrider::memory::test
