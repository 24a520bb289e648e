// Buffers, programs, imports. Requirements R1 to R29: docs/design/memory.md.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "base/clock.h"
#include "tandem/memory/doubles.h"

namespace outrider::memory::test {
namespace {

TEST(Memory, R1_an_output_bound_after_the_first_run_is_an_error_and_changes_nothing) {
  Rig rig;
  WarpState s = rig.state();
  ASSERT_EQ(warp_frames(s, rig.frame(0), rig.frame(1)), Code::kOk);
  ASSERT_EQ(s.program->wait(), Code::kOk);
  const std::byte* linked = rig.counts.linked_at;
  const FrameBuffer* before = s.program->output().get();
  for (int i = 0; i < 3; ++i) {
    auto other = rig.device.allocate(rig.o.output_bytes, attribute::kSendable).value();
    const auto bound = s.program->bind_output(other);
    ASSERT_FALSE(bound);
    EXPECT_EQ(bound.error().code, Code::kInvalid);
    EXPECT_NE(bound.error().message().find("before"), std::string::npos);
    const auto moved = make_sendable(*s.program, rig.device);
    EXPECT_EQ(moved.error().code, Code::kInvalid);
  }
  EXPECT_EQ(s.program->output().get(), before);
  EXPECT_EQ(rig.device.n_frees, rig.device.n_allocations) << "what was offered is its owner's";
  EXPECT_EQ(rig.own.n_frees, 0);
  rig.fill(77, rig.frames[0]);
  ASSERT_EQ(warp_frames(s, rig.frame(0), rig.frame(1)), Code::kOk);
  ASSERT_EQ(s.program->wait(), Code::kOk);
  EXPECT_EQ(rig.counts.linked_at, linked);
  EXPECT_EQ(rig.counts.links, 1);
  EXPECT_EQ(std::memcmp(linked, rig.expected(s).data(), rig.o.output_bytes), 0)
      << "the old buffer is written, and by this run";
}

TEST(Memory, R1_a_buffer_that_does_not_fit_is_refused_before_the_link_too) {
  Rig rig;
  WarpState s = rig.state();
  EXPECT_EQ(s.program->bind_output(nullptr).error().code, Code::kInvalid);
  EXPECT_EQ(
      s.program->bind_output(rig.device.allocate(rig.o.output_bytes - 1, 0).value()).error().code,
      Code::kShape);
  EXPECT_TRUE(s.program->bind_output(rig.device.allocate(rig.o.output_bytes, 0).value()));
  EXPECT_EQ(rig.own.n_frees, 1) << "the one it replaces";
}

TEST(Memory, R2_a_program_keeps_alive_what_it_writes) {
  Rig rig;
  WarpState s = rig.state();
  {
    auto buffer = rig.device.allocate(rig.o.output_bytes, attribute::kSendable).value();
    ASSERT_TRUE(s.program->bind_output(buffer));
  }  // no reference outside the program is left
  for (int i = 0; i < 1000; ++i) {
    ASSERT_EQ(warp_frames(s, rig.frame(0), rig.frame(1)), Code::kOk);
    ASSERT_EQ(s.program->wait(), Code::kOk);
    ASSERT_EQ(rig.device.n_frees, 0) << i;
  }
  s.program.reset();
  EXPECT_EQ(rig.device.n_frees, 1);
  EXPECT_EQ(rig.counts.destroyed, 1);
}

TEST(Memory, R13_a_program_links_once_at_its_first_run) {
  Rig rig;
  WarpState s = rig.state();
  EXPECT_EQ(s.program->n_links(), 0);
  EXPECT_EQ(s.program->state(), Program::State::kUnlinked);
  for (int i = 0; i < 1000; ++i) {
    ASSERT_EQ(warp_frames(s, rig.frame(0), rig.frame(1)), Code::kOk);
    ASSERT_EQ(s.program->wait(), Code::kOk);
  }
  EXPECT_EQ(s.program->n_links(), 1);
  EXPECT_EQ(rig.counts.links, 1);
  EXPECT_EQ(s.program->n_runs(), 1000);
}

// What a call may get wrong, one thing at a time.
TEST(Memory, R16_every_call_is_held_against_the_capture) {
  Rig rig;
  WarpState s = rig.state();
  const auto good = [&] {
    static int64_t frame_n, scalar_n, queue_n;
    frame_n = static_cast<int64_t>(rig.o.frame_bytes);
    scalar_n = static_cast<int64_t>(rig.o.n_scalars);
    queue_n = static_cast<int64_t>(rig.o.queue_bytes);
    return std::vector<Argument>{
        {"frame_road", FRT_DTYPE_U8, {&frame_n, 1}, rig.frames[0].data(), rig.o.frame_bytes, 0},
        {"frame_wide", FRT_DTYPE_U8, {&frame_n, 1}, rig.frames[1].data(), rig.o.frame_bytes, 0},
        {"scalars", FRT_DTYPE_F32, {&scalar_n, 1}, rig.scalars.data(), rig.o.n_scalars * 4, 0},
        {"queues", FRT_DTYPE_U8, {&queue_n, 1}, rig.queues.data(), rig.o.queue_bytes, 0}};
  };
  ASSERT_EQ(s.program->start(good()), Code::kOk);
  EXPECT_EQ(s.program->last_error(), "");
  const int64_t runs = rig.counts.runs;
  static constexpr int64_t kOther = 5;
  static constexpr int64_t kTwo[2] = {2, 3000};
  const struct {
    const char* what;
    std::function<void(std::vector<Argument>&)> spoil;
    Code code;
    const char* words;
  } cases[] = {
      {"missing", [](auto& a) { a.pop_back(); }, Code::kInvalid, "3 arguments, captured were 4"},
      {"none", [](auto& a) { a.clear(); }, Code::kInvalid, "0 arguments"},
      {"extra",
       [](auto& a) {
         a.push_back(a[0]);
         a[4].name = "more";
       },
       Code::kInvalid, "5 arguments"},
      {"renamed", [](auto& a) { a[1].name = "frame_tele"; }, Code::kInvalid,
       "argument 1 is \"frame_tele\", captured was \"frame_wide\""},
      {"nameless", [](auto& a) { a[1].name = {}; }, Code::kInvalid, "argument 1 is \"\""},
      {"duplicate", [](auto& a) { a[1].name = "frame_road"; }, Code::kInvalid,
       "\"frame_road\" is given twice"},
      {"order", [](auto& a) { std::swap(a[0], a[1]); }, Code::kInvalid, "argument 0 is"},
      {"dtype", [](auto& a) { a[2].dtype = FRT_DTYPE_F16; }, Code::kShape, "\"scalars\" has type"},
      {"shape",
       [](auto& a) {
         a[0].shape = {&kOther, 1};
       },
       Code::kShape, "another shape"},
      {"rank", [](auto& a) { a[0].shape = kTwo; }, Code::kShape, "another shape"},
      {"no shape", [](auto& a) { a[0].shape = {}; }, Code::kShape, "another shape"},
      {"bytes", [](auto& a) { --a[3].bytes; }, Code::kShape, "has 63 bytes, captured were 64"},
      {"NULL", [](auto& a) { a[3].data = nullptr; }, Code::kInvalid, "\"queues\" is nowhere"},
      {"the output", [&](auto& a) { a[3].data = s.program->output()->data() + 7; }, Code::kInvalid,
       "lies in the program's own output"},
      {"up to the output",
       [&](auto& a) { a[3].data = s.program->output()->data() - rig.o.queue_bytes + 1; },
       Code::kInvalid, "lies in the program's own output"},
  };
  for (const auto& c : cases) {
    std::vector<Argument> arguments = good();
    c.spoil(arguments);
    EXPECT_EQ(s.program->start(arguments), c.code) << c.what;
    EXPECT_NE(s.program->last_error().find(c.words), std::string::npos)
        << c.what << ": " << s.program->last_error();
    EXPECT_EQ(rig.counts.runs, runs) << c.what << " ran";
  }
  EXPECT_EQ(s.program->start(good()), Code::kOk) << "a refused call leaves nothing behind";

  const MonotonicClock clock;
  std::vector<int64_t> took;
  const std::vector<Argument> arguments = good();
  std::vector<Argument> wrong = good();
  wrong[3].data = nullptr;  // the last check: all of them run, the program does not
  for (int i = 0; i < 10000; ++i) {
    const int64_t begin = clock.now_ns();
    ASSERT_EQ(s.program->start(wrong), Code::kInvalid);
    took.push_back(clock.now_ns() - begin);
  }
  std::sort(took.begin(), took.end());
  RecordProperty("check_p50_ns", std::to_string(took[took.size() / 2]));
  EXPECT_LE(took[took.size() / 2], 100000) << "a check costs at most 0.1 ms";
}

TEST(Memory, R20_the_output_is_bound_once_and_a_program_that_returns_another_is_refused) {
  Rig rig;
  auto loaded = load_warp(rig.artifact(), rig.options());
  ASSERT_TRUE(loaded) << loaded.error().text;
  Program& program = *loaded.value().state->program;
  EXPECT_EQ(program.n_bindings(), 1);
  for (int i = 0; i < 100; ++i) {
    ASSERT_EQ(warp_frames(*loaded.value().state, rig.frame(0), rig.frame(1)), Code::kOk);
    ASSERT_EQ(program.wait(), Code::kOk);
    ASSERT_EQ(program.output()->data(), rig.counts.linked_at);
  }
  EXPECT_EQ(program.n_bindings(), 1);

  Rig other;
  other.behaviour.alternates = true;
  LogLines log;
  auto alternating = load_warp(other.artifact(), other.options());
  ASSERT_TRUE(alternating) << "one run does not show it yet";
  const auto warp = warp_for_link(*alternating.value().state, "", other.probe(), other.clock);
  EXPECT_FALSE(warp);
  EXPECT_EQ(alternating.value().state->program->state(), Program::State::kBroken);
  EXPECT_NE(warp_frames(*alternating.value().state, other.frame(0), other.frame(1)), Code::kOk);
  EXPECT_NE(alternating.value().state->program->last_error().find("is broken"), std::string::npos);
}

TEST(Memory, a_program_without_graph_or_with_too_small_an_output_is_none) {
  Rig rig;
  EXPECT_FALSE(Program::make(nullptr, rig.own.allocate(10, 0).value()));
  auto graph =
      std::make_unique<PatternGraph>(rig.counts, rig.behaviour, 10, 20, 1, 0, nullptr, nullptr);
  EXPECT_FALSE(Program::make(std::move(graph), rig.own.allocate(19, 0).value()));
}

// ---- buffers ------------------------------------------------------------------------------------

TEST(MemoryDomain, only_mapped_cached_and_coherent_memory_is_sent_from) {
  for (const uint32_t grants :
       {0u, attribute::kIoCoherent, attribute::kWriteBack, attribute::kSendable}) {
    FakeDevice device(grants);
    const auto buffer = device.allocate(100, attribute::kSendable).value();
    EXPECT_EQ(buffer->sendable(), grants == attribute::kSendable) << grants;
    EXPECT_EQ(buffer->granted(), grants);
  }
  FakeDevice device(0);
  for (const Domain domain : {Domain::kHostWriteCombined, Domain::kDeviceOnly}) {
    auto* data = static_cast<std::byte*>(::operator new (64, std::align_val_t{64}));
    const BufferFacts facts{
        domain == Domain::kDeviceOnly ? nullptr : data, 64, domain, attribute::kSendable, 1, -1};
    class NoDevice final : public MemoryDevice {
     public:
      const char* name() const override { return "none"; }
      Result<BufferRef> allocate(size_t, uint32_t) override {
        return make_error(Code::kNoMemory, "no");
      }
      Code copy_out(const FrameBuffer&, std::span<std::byte>) noexcept override {
        return Code::kDevice;
      }

     private:
      void release(const BufferFacts&) noexcept override {}
    } none;
    EXPECT_FALSE(FrameBuffer(facts, none).sendable()) << domain_name(domain);
    ::operator delete (data, std::align_val_t{64});
  }
  std::set<std::string> names;
  for (int i = 0; i < 4; ++i) names.insert(domain_name(static_cast<Domain>(i)));
  EXPECT_EQ(names.size(), 4u);
  EXPECT_STREQ(domain_name(static_cast<Domain>(9)), "unknown");
}

TEST(HostMemory, gives_shared_sendable_memory_and_takes_it_back) {
  HostMemory memory;
  const auto n_fds = [] {
    int n = 0;
    for (int fd = 0; fd < 200; ++fd) n += fcntl(fd, F_GETFD) >= 0;
    return n;
  };
  const int before = n_fds();
  {
    const auto buffer = memory.allocate(5000, attribute::kSendable).value();
    EXPECT_TRUE(buffer->sendable());
    EXPECT_EQ(buffer->bytes(), 5000u);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer->data()) % 64, 0u);
    buffer->data()[4999] = std::byte{7};
    void* peer = mmap(nullptr, 8192, PROT_READ, MAP_SHARED, buffer->fd(), 0);
    ASSERT_NE(peer, MAP_FAILED);
    EXPECT_EQ(static_cast<std::byte*>(peer)[4999], std::byte{7});
    munmap(peer, 8192);
    EXPECT_NE(ftruncate(buffer->fd(), 0), 0) << "a peer cannot cut it short";
    std::vector<std::byte> out(5000), more(5001);
    EXPECT_EQ(memory.copy_out(*buffer, out), Code::kOk);
    EXPECT_EQ(out[4999], std::byte{7});
    EXPECT_EQ(memory.copy_out(*buffer, more), Code::kDevice);
    EXPECT_EQ(memory.copy_out(*buffer, {}), Code::kOk);
    EXPECT_FALSE(memory.allocate(100, 0).value()->sendable()) << "was not asked for";
    EXPECT_NE(memory.allocate(100, 0).value()->generation(), buffer->generation());
  }
  EXPECT_EQ(n_fds(), before);
  EXPECT_EQ(memory.allocate(0, 0).error().code, Code::kInvalid);
  EXPECT_EQ(memory.allocate(SIZE_MAX, 0).error().code, Code::kInvalid);
  EXPECT_FALSE(memory.allocate(size_t{1} << 60, 0));
}

TEST(HostMemory, copying_out_of_uncached_memory_gives_the_same_bytes_at_every_size_and_address) {
  std::vector<std::byte> from(1024 + 64), to(1024 + 64);
  Rig::fill(5, from);
  for (size_t at = 0; at < 64; at += 7) {
    for (size_t to_at = 0; to_at < 32; to_at += 5) {
      for (size_t n = 0; n <= 400; n += n < 140 ? 1 : 29) {
        std::fill(to.begin(), to.end(), std::byte{0xAA});
        copy_from_write_combined(to.data() + to_at, from.data() + at, n);
        ASSERT_EQ(std::memcmp(to.data() + to_at, from.data() + at, n), 0) << at << " " << n;
        ASSERT_EQ(to[to_at + n], std::byte{0xAA}) << "wrote beyond the end";
      }
    }
  }
}

// ---- imports ------------------------------------------------------------------------------------

TEST(ImportCache, finds_what_it_knows_and_takes_an_address_for_no_name) {
  PinningImporter importer;
  ImportCache cache(importer, 4);
  std::byte memory[512], *a = memory, *b = memory + 256;
  const uint64_t one = cache.get({0, a, 64, 1});
  EXPECT_NE(one, 0u);
  EXPECT_EQ(cache.get({0, a, 64, 1}), one);
  EXPECT_NE(cache.get({1, a, 64, 1}), one) << "another camera";
  EXPECT_NE(cache.get({0, b, 64, 1}), one);
  EXPECT_EQ(importer.imported.size(), 3u);
  EXPECT_NE(cache.get({0, a, 64, 2}), one) << "another buffer at the same address";
  EXPECT_EQ(cache.size(), 3u) << "the dead one is gone";
  EXPECT_NE(cache.get({0, a, 32, 2}), 0u) << "another size";
  EXPECT_EQ(cache.size(), 3u);
  EXPECT_EQ(cache.forget(a + 60, 100), 1u) << "what overlaps: camera 1's 64 bytes";
  EXPECT_EQ(cache.forget(a + 64, 192), 0u) << "between the two";
  EXPECT_EQ(cache.size(), 2u);
  importer.refuse = true;
  EXPECT_EQ(cache.get({5, b, 64, 1}), 0u);
  cache.clear();
  EXPECT_EQ(cache.size(), 0u);
}

TEST(ImportCache, is_bounded_and_drops_what_was_used_longest_ago) {
  PinningImporter importer;
  ImportCache cache(importer, 3);
  std::byte pool[8][16];
  for (int i = 0; i < 3; ++i) cache.get({0, pool[i], 16, 1});
  cache.get({0, pool[0], 16, 1});
  cache.get({0, pool[3], 16, 1});  // drops pool[1]
  EXPECT_EQ(cache.n_evictions(), 1);
  EXPECT_EQ(cache.n_imports(), 4);
  cache.get({0, pool[0], 16, 1});
  cache.get({0, pool[2], 16, 1});
  EXPECT_EQ(cache.n_imports(), 4) << "these two are still there";
  cache.get({0, pool[1], 16, 1});
  EXPECT_EQ(cache.n_imports(), 5);
  EXPECT_EQ(cache.size(), 3u);
  ImportCache most(importer, 100000);
  std::vector<std::byte> many(600);
  for (size_t i = 0; i < many.size(); ++i) most.get({0, &many[i], 1, 1});
  EXPECT_EQ(most.size(), ImportCache::kMostEntries);
}

}  // namespace
}  // namespace outrider::memory::test
