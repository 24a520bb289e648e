// Identity and manifest longer than one message: old and new peers, cuts, hosts that lie.
#include <gtest/gtest.h>

#include "base/fnv.h"
#include "link/client/open_texts.h"
#include "link/sim.h"
#include "link/transport/loopback.h"

namespace outrider::link {
namespace {

using sim::kMs, sim::kSecond, sim::SimRuntime, sim::World;
using wire::OpenText, wire::WhichText;

std::string text_of(size_t bytes, char first) {
  std::string text(bytes, ' ');
  for (size_t i = 0; i < bytes; ++i) text[i] = static_cast<char>(first + (i ^ i / 911) % 20);
  return text;
}

// A runtime with texts of its own.
class Described final : public Runtime {
 public:
  Described(World& world, std::string identity, std::string manifest)
      : inner_(world), identity_(std::move(identity)), manifest_(std::move(manifest)) {
    face_ = inner_.face();
    exp_.identity = identity_.c_str();
    exp_.fingerprint = fnv1a64(identity_);
    exp_.manifest_json = manifest_.c_str();
    face_.exp = &exp_;
  }
  const frt_model_runtime_v1& face() const noexcept override { return face_; }
  const frt_generic_stage_plan_ext_v1* plan() const noexcept override { return inner_.plan(); }
  bool has_step() const noexcept override { return true; }
  int set_input(uint32_t port, const void* data, uint64_t bytes) noexcept override {
    return inner_.set_input(port, data, bytes);
  }
  int get_output(uint32_t port, void* out, uint64_t capacity, uint64_t* written) noexcept override {
    return inner_.get_output(port, out, capacity, written);
  }
  int run(uint32_t executor_ref) noexcept override { return inner_.run(executor_ref); }
  int step() noexcept override { return inner_.step(); }
  int prepare(uint32_t graph, uint64_t key) noexcept override { return inner_.prepare(graph, key); }
  const char* last_error() noexcept override { return inner_.last_error(); }

 private:
  SimRuntime inner_;
  std::string identity_, manifest_;
  frt_runtime_export_v1 exp_{};
  frt_model_runtime_v1 face_{};
};

struct LongWorld : World {
  std::string identity, manifest;
  LongWorld(uint64_t seed, size_t identity_bytes, size_t manifest_bytes, uint16_t newest)
      : World(seed),
        identity(text_of(identity_bytes, 'a')),
        manifest(text_of(manifest_bytes, 'A')) {
    host_newest = newest;
    weather[1].window = 16 << 20;  // the simulated host cannot wait
    make_runtime = [this] { return std::make_unique<Described>(*this, identity, manifest); };
    stop_host();
    start_host();
  }
};

TEST(LongTexts, short_ones_work_between_peers_of_all_versions) {
  for (const uint16_t host : {1, 2, 3})
    for (const uint16_t device : {1, 2, 3}) {
      LongWorld world(1, 64'999, 64'999, host);
      DeviceConfig config;
      config.name.newest_version = device;
      auto opened = world.open_device(config);
      ASSERT_TRUE(opened) << host << " " << device << " " << opened.error().text;
      EXPECT_TRUE(opened.value()->runtime().identity.view() == world.identity);
      EXPECT_TRUE(opened.value()->runtime().manifest.view() == world.manifest);
    }
}

TEST(LongTexts, are_refused_in_words_to_a_device_that_cannot_take_them_whole) {
  for (const uint16_t newest : {1, 2}) {
    LongWorld world(1, 65'001, 10, wire::kVersion);
    DeviceConfig config;
    config.name.newest_version = newest;
    auto refused = world.open_device(config);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.code(), Code::kUnsupported);
    EXPECT_NE(refused.error().message().find(
                  "the identity of the model has 65001 bytes, at most 65000 travel to a device of "
                  "wire version 2 or older; update the device"),
              std::string_view::npos)
        << refused.error().text;
    config = {};
    EXPECT_TRUE(world.open_device(config));  // the instance was given back
  }
}

TEST(LongTexts, a_cut_at_any_place_ends_the_open_and_the_next_one_works) {
  LongWorld world(5, 200'000, 150'000, wire::kVersion);
  ASSERT_TRUE(world.open_device());
  const uint64_t whole = world.weather[1].n_bytes;
  ASSERT_GT(whole, 350'000u);
  for (int i = 0; i < 60; ++i) {
    const uint64_t at = 1 + world.draw.below(whole - 1);
    world.weather[1].cut_at = world.weather[1].n_bytes + at;
    DeviceConfig config;
    config.connect_ns = kSecond;
    const int64_t begin = world.now_ns;
    auto cut = world.open_device(config);
    ASSERT_FALSE(cut) << at;
    EXPECT_EQ(cut.code(), Code::kDevice);
    EXPECT_LE(world.now_ns - begin, kSecond + kMs);
    world.weather[1].cut_at = UINT64_MAX;
    auto opened = world.open_device();
    ASSERT_TRUE(opened) << at << " " << opened.error().text;
    EXPECT_TRUE(opened.value()->runtime().identity.view() == world.identity);
    EXPECT_TRUE(opened.value()->runtime().manifest.view() == world.manifest);
  }
}

TEST(LongTexts, a_damaged_byte_is_found_wherever_it_is) {
  LongWorld world(6, 200'000, 150'000, wire::kVersion);
  ASSERT_TRUE(world.open_device());
  const uint64_t whole = world.weather[1].n_bytes;
  for (int i = 0; i < 60; ++i) {
    const uint64_t begin = world.weather[1].n_bytes;
    world.weather[1].corrupt_at = {begin + world.draw.below(whole)};
    DeviceConfig config;
    config.connect_ns = kSecond;
    auto damaged = world.open_device(config);
    world.weather[1].corrupt_at.clear();
    EXPECT_FALSE(damaged) << i;
  }
  EXPECT_TRUE(world.open_device());
}

TEST(LongTexts, a_link_that_comes_back_knows_the_model_again) {
  LongWorld world(7, 200'000, 150'000, wire::kVersion);
  auto opened = world.open_device();
  ASSERT_TRUE(opened) << opened.error().text;
  world.break_all();
  for (int i = 0; i < 100 && opened.value()->counters().reconnects == 0; ++i) {
    world.run_until(world.now_ns + 50 * kMs);
    opened.value()->upkeep();
  }
  EXPECT_EQ(opened.value()->counters().reconnects.load(), 1);
}

// A host that answers what the test says.
struct Script {
  const Clock& clock;
  std::unique_ptr<Transport> ends[2];
  explicit Script(const Clock& of) : clock(of) {
    auto pair = std::move(loopback_pair().value());
    ends[0] = std::move(pair.first);
    ends[1] = std::move(pair.second);
  }
};

struct Piece3 {
  uint8_t which;
  uint32_t at;
  std::string text;
};

std::string what_comes_of(const wire::OpenReply& announced, const std::vector<Piece3>& pieces,
                          wire::OpenReply& got) {
  static constinit const MonotonicClock kClock;
  Script script(kClock);
  outrider::link::Connection device(std::move(script.ends[0]), kClock);
  wire::Channel host(std::move(script.ends[1]), kClock);
  device.channel().set_version(wire::kVersion);
  host.set_version(wire::kVersion);
  const int64_t due = kClock.now_ns() + kSecond;
  for (const Piece3& piece : pieces) {
    OpenText message;
    message.which = piece.which;
    message.at_bytes = piece.at;
    message.text.assign(piece.text);
    EXPECT_EQ(host.send(message, {1, 0, 0, 0}, {}, due), Io::kDone);
  }
  EXPECT_EQ(host.send(wire::Pong(), {1, 0, 0, 0}, {}, due), Io::kDone);
  got = announced;
  LinkError why;
  return receive_texts(device, 1, got, due, why) ? "" : why.error.text;
}

TEST(LongTexts, pieces_that_do_not_fit_are_refused_before_they_are_kept) {
  const std::string part(1000, 'x');
  wire::OpenReply announced;
  announced.identity.assign(part);
  announced.identity_bytes = 3000;
  announced.manifest_bytes = 500;
  struct Case {
    const char* name;
    std::vector<Piece3> pieces;
    const char* words;  // "": taken
  };
  const std::string rest(2000, 'y'), manifest(500, 'm');
  const Case cases[] = {
      {"whole", {{0, 1000, rest}, {1, 0, manifest}}, ""},
      {"byte by byte at the end", {{0, 1000, part}, {0, 2000, part}, {1, 0, manifest}}, ""},
      {"nothing", {}, "something else came"},
      {"empty", {{0, 1000, ""}}, "no empty piece"},
      {"too long", {{0, 1000, rest + "z"}}, "ends at 3001, at most 3000"},
      {"gap", {{0, 1001, part}}, "begins at 1001, wanted is 1000"},
      {"again", {{0, 1000, part}, {0, 1000, part}}, "begins at 1000, wanted is 2000"},
      {"overlap", {{0, 0, part}}, "begins at 0, wanted is 1000"},
      {"manifest first", {{1, 0, manifest}}, "not the next piece of the identity"},
      {"identity again", {{0, 1000, rest}, {0, 3000, part}}, "not the next piece of the manifest"},
      {"manifest too long", {{0, 1000, rest}, {1, 0, part}}, "ends at 1000, at most 500"},
      {"no manifest", {{0, 1000, rest}}, "something else came"},
  };
  for (const Case& c : cases) {
    wire::OpenReply got;
    const std::string said = what_comes_of(announced, c.pieces, got);
    if (*c.words == '\0') {
      EXPECT_EQ(said, "") << c.name;
      EXPECT_EQ(got.identity.view().size(), 3000u) << c.name;
      EXPECT_TRUE(got.manifest.view() == manifest) << c.name;
    } else {
      EXPECT_NE(said.find(c.words), std::string::npos) << c.name << ": " << said;
      EXPECT_LE(got.identity.view().size(), 3000u) << c.name;
    }
  }
}

TEST(LongTexts, an_announcement_allocates_nothing) {
  wire::OpenReply announced, got;
  announced.identity_bytes = wire::kMaxTextBytes;
  EXPECT_NE(what_comes_of(announced, {}, got), "");
  EXPECT_LT(got.identity.text.capacity(), 100u);
  announced.identity.assign("longer");
  announced.identity_bytes = 5;
  EXPECT_NE(what_comes_of(announced, {}, got).find("has 6 bytes, announced are 5"),
            std::string::npos);
}

TEST(LongTexts, an_older_host_that_cut_one_is_found_out) {
  static constinit const MonotonicClock kClock;
  const std::string cut = text_of(65'000, 'a');
  for (const bool identity : {true, false})
    for (const bool really_cut : {true, false}) {
      Script script(kClock);
      outrider::link::Connection device(std::move(script.ends[0]), kClock);
      device.channel().set_version(2);
      wire::OpenReply reply;
      (identity ? reply.identity.text : reply.manifest.text) = cut;
      reply.fingerprint = fnv1a64(identity ? (really_cut ? cut + "a" : cut) : "");
      LinkError why;
      const bool taken = receive_texts(device, 1, reply, kClock.now_ns(), why);
      EXPECT_EQ(taken, identity && !really_cut) << why.error.text;
      const bool in_words = why.error.message().find("update the host") != std::string_view::npos;
      EXPECT_EQ(in_words, !taken) << why.error.text;
    }
}

}  // namespace
}  // namespace outrider::link
