// The store behind a link: what a host refuses, what it serves, what is in use.
#include <gtest/gtest.h>
#include <sys/statvfs.h>

#include <cstdlib>
#include <fstream>

#include "link/client/device.h"
#include "link/transport/loopback.h"
#include "link_support.h"
#include "support.h"

namespace outrider::cli_test {
namespace {

namespace fs = std::filesystem;

std::string text_of(const link::wire::StoreState& state) {
  return std::string(state.text.view());
}

struct LinkStore : ::testing::Test {
  Folder folder;
  store::Limits limits = store::small_limits();
  std::string store_folder() const { return folder.at("store"); }
};

// ---- FC-42 -------------------------------------------------------------------------------------

TEST_F(LinkStore, FC42_an_upload_goes_on_at_the_byte_where_it_was_cut) {
  Host host(store_folder(), limits);
  constexpr uint64_t kBytes = 300'000;
  uint64_t seed = 0;
  for (const uint64_t at : {uint64_t{0}, uint64_t{1}, kBytes / 2, kBytes - 1, kBytes}) {
    SCOPED_TRACE(at);
    const store::Model model = store::make_model(kBytes, ++seed);
    {
      Client client(host.port());
      EXPECT_EQ(client.begin(model).next_offset, 0u);
      if (at > 0) {
        EXPECT_GOOD(client.chunk(model, 0, at));
      }
    }
    ASSERT_TRUE(wait_for([&] { return !host.store->find(model.info.sha256).value().in_use; }));
    Client client(host.port());
    EXPECT_EQ(client.begin(model).next_offset, at);
    if (at < kBytes) {
      EXPECT_GOOD(client.chunk(model, at, kBytes - at));
    }
    EXPECT_EQ(client.end(kBytes).is_published, 1);
    EXPECT_EQ(content(folder.at("store/" + model.info.sha256 + "/data")), model.bytes);
  }
}

TEST_F(LinkStore, FC42_other_content_of_equal_size_and_name_is_another_file) {
  Host host(store_folder(), limits);
  store::Model first = store::make_model(50'000, 1), second = store::make_model(50'000, 2);
  first.info.name = second.info.name = "policy";
  {
    Client client(host.port());
    client.begin(first);
    EXPECT_GOOD(client.chunk(first, 0, 30'000));
  }
  Client client(host.port());
  EXPECT_EQ(client.begin(second).next_offset, 0u);
  EXPECT_GOOD(client.chunk(second, 0, 50'000));
  EXPECT_EQ(client.end(50'000).is_published, 1);
  EXPECT_EQ(content(folder.at("store/" + second.info.sha256 + "/data")), second.bytes);
}

TEST_F(LinkStore, FC42_a_gap_and_an_offset_beyond_the_end_are_refused) {
  Host host(store_folder(), limits);
  const store::Model model = store::make_model(50'000, 3);
  for (const uint64_t offset : {uint64_t{1}, uint64_t{50'000}, uint64_t{50'001}, UINT64_MAX - 5}) {
    SCOPED_TRACE(offset);
    Client client(host.port());
    ASSERT_TRUE(wait_for([&] {
      auto entry = host.store->find(model.info.sha256);
      return !entry || !entry.value().in_use;
    }));
    EXPECT_EQ(client.begin(model).code, 0);
    EXPECT_GOOD(client.store->send(link::wire::StoreChunk{offset},
                                   store::bytes_of(model.bytes, 0, 10), client.soon()));
    auto state = client.store->receive(client.soon());
    ASSERT_GOOD(state);
    EXPECT_EQ(state.value().code, to_abi(Code::kInvalid)) << text_of(state.value());
    EXPECT_EQ(state.value().is_published, 0);
    // The connection lives on, and ends nothing that was not begun.
    EXPECT_EQ(client.end(50'000).code, to_abi(Code::kInvalid));
  }
}

TEST_F(LinkStore, FC42_the_second_of_two_uploaders_is_told_who_is_at_it) {
  Host host(store_folder(), limits);
  const store::Model model = store::make_model(50'000, 4);
  Client one(host.port()), two(host.port());
  EXPECT_EQ(one.begin(model).code, 0);
  const auto refused = two.begin(model);
  EXPECT_EQ(refused.code, to_abi(Code::kNotReady)) << text_of(refused);
  EXPECT_GOOD(one.chunk(model, 0, 50'000));
  EXPECT_EQ(one.end(50'000).is_published, 1);
  EXPECT_EQ(two.begin(model).is_published, 1);
}

// ---- FC-43 -------------------------------------------------------------------------------------

TEST_F(LinkStore, FC43_wrong_bytes_are_never_published_and_both_digests_are_told) {
  Host host(store_folder(), limits);
  store::Model model = store::make_model(50'000, 5);
  const std::string right = model.info.sha256;
  model.bytes[49'999] = static_cast<char>(model.bytes[49'999] ^ 1);
  Client client(host.port());
  client.begin(model);
  EXPECT_GOOD(client.chunk(model, 0, 50'000));
  const auto state = client.end(50'000);
  EXPECT_EQ(state.code, to_abi(Code::kNotFound));
  EXPECT_EQ(state.is_published, 0);
  const std::string found = sha256_hex(store::bytes_of(model.bytes)).value();
  EXPECT_NE(text_of(state).find(right), std::string::npos) << text_of(state);
  EXPECT_NE(text_of(state).find(found), std::string::npos) << text_of(state);
  auto list = client.store->list(client.soon());
  ASSERT_GOOD(list);
  EXPECT_TRUE(list.value().entries.items.empty());
}

TEST_F(LinkStore, FC43_a_digest_that_is_none_is_refused) {
  Host host(store_folder(), limits);
  store::Model model = store::make_model(1000, 6);
  const std::string right = model.info.sha256;
  std::string upper = right;
  for (char& c : upper) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  for (const std::string& wrong : {std::string(), right.substr(1), upper, std::string(64, 'g'),
                                   std::string(64, '/'), "../" + right.substr(3)}) {
    SCOPED_TRACE(wrong);
    model.info.sha256 = wrong;
    Client client(host.port());
    EXPECT_EQ(client.begin(model).code, to_abi(Code::kInvalid));
    EXPECT_EQ(client.store->remove(wrong, client.soon()).code(), Code::kInvalid);
    EXPECT_TRUE(client.store->refused());
  }
}

// ---- what is served ----------------------------------------------------------------------------

// The scripted provider in the place of every model.
Result<std::unique_ptr<link::ModelSource>> fake_source(const store::Lease&) {
  return std::unique_ptr<link::ModelSource>(
      std::make_unique<link::ProviderSource>(fake_provider(), "{\"model_family\":\"fake\"}"));
}

Result<std::unique_ptr<link::Device>> open_model(uint16_t port, const std::string& model) {
  static constinit const MonotonicClock kClock;
  link::DeviceConfig config;
  config.model = model;
  config.name = cli::link_name(link::wire::kFeatures);
  return link::Device::open(config, std::move(cli::make_dialer(tcp(port)).value()), kClock);
}

void push_whole(uint16_t port, const store::Model& model) {
  Client client(port);
  client.begin(model);
  EXPECT_GOOD(client.chunk(model, 0, model.bytes.size()));
  EXPECT_EQ(client.end(model.bytes.size()).is_published, 1);
}

struct LinkServed : LinkStore {
  void SetUp() override {
    if (fake_provider().empty()) GTEST_SKIP() << "the scripted provider was not built";
  }
};

TEST_F(LinkServed, a_pushed_model_is_opened_by_digest_and_by_name) {
  Host host(store_folder(), limits, fake_source);
  const store::Model model = store::make_model(50'000, 7);
  EXPECT_EQ(open_model(host.port(), model.info.sha256).code(), Code::kNotFound);
  push_whole(host.port(), model);
  auto by_digest = open_model(host.port(), model.info.sha256);
  ASSERT_GOOD(by_digest);
  auto by_name = open_model(host.port(), model.info.name);
  ASSERT_GOOD(by_name);
  EXPECT_EQ(by_name.value()->runtime().ports, by_digest.value()->runtime().ports);
  EXPECT_NE(host.server->models().json().find(model.info.sha256), std::string::npos);
}

TEST_F(LinkServed, what_is_in_use_is_not_removed_and_afterwards_it_is) {
  Host host(store_folder(), limits, fake_source);
  const store::Model model = store::make_model(50'000, 8);
  push_whole(host.port(), model);
  auto device = open_model(host.port(), model.info.sha256);
  ASSERT_GOOD(device);
  Client client(host.port());
  const auto refused = client.store->remove(model.info.sha256, client.soon());
  EXPECT_EQ(refused.code(), Code::kNotReady) << refused.error().text;
  EXPECT_TRUE(client.store->refused());
  EXPECT_TRUE(client.store->list(client.soon()).value().entries.items.at(0).in_use);
  device.value().reset();
  EXPECT_TRUE(
      wait_for([&] { return bool(client.store->remove(model.info.sha256, client.soon())); }));
  EXPECT_EQ(open_model(host.port(), model.info.sha256).code(), Code::kNotFound);
  EXPECT_FALSE(fs::exists(folder.at("store/" + model.info.sha256)));
}

TEST_F(LinkServed, a_model_that_is_open_without_an_owner_does_not_stay_beyond_keep_models) {
  limits.keep_models = 2;
  Host host(store_folder(), limits, fake_source);
  const store::Model idle = store::make_model(50'000, 40), owned = store::make_model(50'000, 41),
                     third = store::make_model(50'000, 42);
  const auto is_there = [&](const store::Model& model) {
    return fs::exists(folder.at("store/" + model.info.sha256));
  };
  push_whole(host.port(), idle);
  push_whole(host.port(), owned);
  auto device = open_model(host.port(), owned.info.sha256);
  ASSERT_GOOD(device);
  open_model(host.port(), idle.info.sha256).value().reset();  // open from now on, owned by nobody
  const auto holds = [&](const store::Model& model) {
    return host.server->models().json().find(model.info.sha256) != std::string::npos;
  };
  EXPECT_TRUE(holds(idle) && holds(owned));
  push_whole(host.port(), third);
  // Two last used ones stay; the owned one is older than both and stays because it is in use.
  push_whole(host.port(), store::make_model(50'000, 43));
  EXPECT_TRUE(wait_for([&] { return !is_there(idle); }));
  EXPECT_FALSE(holds(idle));
  EXPECT_TRUE(is_there(owned) && is_there(third));
  EXPECT_EQ(device.value()->set_input(1, "go", 2), Code::kOk) << device.value()->last_error();
}

TEST_F(LinkServed, an_upload_that_is_not_finished_is_not_opened) {
  Host host(store_folder(), limits, fake_source);
  const store::Model model = store::make_model(50'000, 9);
  Client client(host.port());
  client.begin(model);
  EXPECT_GOOD(client.chunk(model, 0, 49'999));
  const auto opened = open_model(host.port(), model.info.sha256);
  ASSERT_FALSE(opened);
  EXPECT_NE(std::string(opened.error().text).find("of 50000 bytes"), std::string::npos)
      << opened.error().text;
}

TEST_F(LinkServed, FC43_a_file_that_changed_on_the_disk_is_not_opened) {
  Host host(store_folder(), limits, fake_source);
  const store::Model model = store::make_model(50'000, 10);
  push_whole(host.port(), model);
  std::fstream(folder.at("store/" + model.info.sha256 + "/data"),
               std::ios::in | std::ios::out | std::ios::binary)
      .put(static_cast<char>(model.bytes[0] ^ 1));
  const auto opened = open_model(host.port(), model.info.sha256);
  ASSERT_FALSE(opened);
  EXPECT_NE(std::string(opened.error().text).find(model.info.sha256), std::string::npos)
      << opened.error().text;
  EXPECT_NE(std::string(opened.error().text).find("push it again"), std::string::npos)
      << opened.error().text;
}

TEST_F(LinkServed, a_connection_either_runs_a_model_or_uploads_one) {
  Host host(store_folder(), limits, fake_source);
  const store::Model model = store::make_model(50'000, 11);
  push_whole(host.port(), model);
  const store::Model other = store::make_model(50'000, 12);
  const auto open_on = [&](Client& client) {
    link::wire::Open open;
    open.model.assign(model.info.sha256);
    const uint64_t id = client.connection->next_request();
    EXPECT_EQ(client.connection->channel().send(open, {id, 0, 0, 0}, {}, client.soon()),
              link::Io::kDone);
    link::wire::Incoming in;
    link::wire::OpenReply reply;
    EXPECT_EQ(client.connection->wait(id, in, nullptr, nullptr, client.soon()),
              link::wire::Got::kMessage);
    EXPECT_GOOD(link::wire::decode(in.body, reply));
    return reply.code;
  };
  Client uploads(host.port());
  EXPECT_EQ(uploads.begin(other).code, 0);
  EXPECT_EQ(open_on(uploads), to_abi(Code::kInvalid));
  EXPECT_GOOD(uploads.chunk(other, 0, 50'000));
  EXPECT_EQ(uploads.end(50'000).is_published, 1);
  EXPECT_EQ(open_on(uploads), 0);  // after the upload it may
  EXPECT_EQ(uploads.begin(store::make_model(10, 13)).code, to_abi(Code::kInvalid));
}

TEST_F(LinkServed, a_host_without_a_store_says_so) {
  MonotonicClock clock;
  link::ServerOptions options;
  options.listen = {tcp(0)};
  auto server = link::Server::start(
      options, std::make_unique<link::Models>(link::ModelsLimits{}, clock), clock);
  ASSERT_GOOD(server);
  const uint16_t port = port_of(server.value()->endpoints().at(0));
  auto dialer = cli::make_dialer(tcp(port));
  auto connection = cli::connect_store(*dialer.value(), clock, clock.now_ns() + 5'000'000'000);
  EXPECT_EQ(connection.code(), Code::kUnsupported);
  // A device that does not look at the feature bits gets an answer too.
  link::LinkError why;
  auto rude = link::Connection::make(*dialer.value(), clock, cli::link_name(link::wire::kFeatures),
                                     clock.now_ns() + 5'000'000'000, why);
  ASSERT_NE(rude, nullptr);
  link::StoreClient client(*rude);
  EXPECT_EQ(client.list(clock.now_ns() + 5'000'000'000).code(), Code::kUnsupported);
  EXPECT_TRUE(client.refused());
}

// ---- the memory budget -------------------------------------------------------------------------

// Takes real memory beside the scripted provider.
class HeavySource final : public link::ModelSource {
 public:
  static constexpr size_t kBytes = size_t{64} << 20;
  Result<std::unique_ptr<link::Runtime>> open() override {
    auto inner = link::ProviderSource(fake_provider(), "{\"model_family\":\"fake\"}").open();
    if (!inner) return inner.error();
    return std::unique_ptr<link::Runtime>(std::make_unique<Heavy>(std::move(inner.value())));
  }

 private:
  struct Heavy final : link::Runtime {
    explicit Heavy(std::unique_ptr<link::Runtime> r) : inner(std::move(r)), bytes(kBytes, 1) {}
    const frt_model_runtime_v1& face() const noexcept override { return inner->face(); }
    const frt_generic_stage_plan_ext_v1* plan() const noexcept override { return inner->plan(); }
    bool has_step() const noexcept override { return inner->has_step(); }
    int set_input(uint32_t p, const void* d, uint64_t n) noexcept override {
      return inner->set_input(p, d, n);
    }
    int get_output(uint32_t p, void* o, uint64_t n, uint64_t* w) noexcept override {
      return inner->get_output(p, o, n, w);
    }
    int run(uint32_t ref) noexcept override { return inner->run(ref); }
    int step() noexcept override { return inner->step(); }
    int prepare(uint32_t g, uint64_t k) noexcept override { return inner->prepare(g, k); }
    const char* last_error() noexcept override { return inner->last_error(); }
    std::unique_ptr<link::Runtime> inner;
    std::vector<char> bytes;
  };
};

TEST_F(LinkServed, configured_models_are_held_to_the_memory_budget_too) {
  link::ModelsLimits limited;
  limited.memory_budget_bytes = HeavySource::kBytes * 3 / 2;
  const MonotonicClock clock;
  link::Models models(limited, clock);
  ASSERT_GOOD(models.add("first", std::make_unique<HeavySource>(), true));
  const auto refused = models.add("second", std::make_unique<HeavySource>(), true);
  EXPECT_EQ(refused.code(), Code::kNoMemory) << refused.error().text;
  EXPECT_NE(std::string(refused.error().text).find("memory_budget_mb"), std::string::npos);
  // One that is opened when it is asked for is refused then.
  ASSERT_GOOD(models.add("later", std::make_unique<HeavySource>(), false));
  EXPECT_EQ(models.acquire("later", {}).code(), Code::kNoMemory);
  EXPECT_TRUE(models.acquire("first", {}));
}

TEST_F(LinkServed, idle_models_make_room_within_the_memory_budget_and_owned_ones_stay) {
  link::ModelsLimits models;
  models.memory_budget_bytes = HeavySource::kBytes * 3 / 2;
  Host host(
      store_folder(), limits,
      [](const store::Lease&) -> Result<std::unique_ptr<link::ModelSource>> {
        return std::unique_ptr<link::ModelSource>(std::make_unique<HeavySource>());
      },
      models);
  const store::Model first = store::make_model(50'000, 14), second = store::make_model(50'000, 15);
  push_whole(host.port(), first);
  push_whole(host.port(), second);
  auto device = open_model(host.port(), first.info.sha256);
  ASSERT_GOOD(device);
  const auto refused = open_model(host.port(), second.info.sha256);
  EXPECT_EQ(refused.code(), Code::kNoMemory) << refused.error().text;
  EXPECT_NE(std::string(refused.error().text).find("memory_budget_mb"), std::string::npos);
  EXPECT_TRUE(device.value()->connected());
  device.value().reset();
  EXPECT_TRUE(wait_for([&] { return bool(open_model(host.port(), second.info.sha256)); }));
  // The first was closed for it: its lease is gone with it.
  EXPECT_FALSE(host.store->find(first.info.sha256).value().in_use);
}

// ---- a host that is at work
// ----------------------------------------------------------------------

// Time flies while the store works: each look at the clock costs `step_ns`.
struct FlyingClock final : Clock {
  int64_t now_ns() const noexcept override { return now += step_ns; }
  mutable int64_t now = 1'000'000'000;
  int64_t step_ns = 0;
};

TEST_F(LinkStore, a_device_that_waits_for_a_long_verification_is_not_taken_for_dead) {
  auto opened = store::Store::open(store_folder(), limits);
  ASSERT_GOOD(opened);
  FlyingClock clock;
  link::Models models({}, clock);
  link::ServerCounters counters;
  link::ServerCore core{models, clock, counters};
  core.store = &opened.value();
  core.features |= link::wire::kFeatureStore;
  auto pair = link::loopback_pair();
  ASSERT_GOOD(pair);
  link::Peer peer(std::move(pair.value().first), core);
  link::wire::Channel device(std::move(pair.value().second), clock);
  const auto say = [&](const auto& message, uint64_t id, std::span<const std::byte> payload = {}) {
    ASSERT_EQ(device.send(message, {id, 0, 0, 0}, {&payload, payload.empty() ? 0u : 1u},
                          link::steady_now_ns() + 1'000'000'000),
              link::Io::kDone);
    ASSERT_TRUE(peer.pump(link::steady_now_ns() + 1'000'000'000));
  };
  const store::Model model = store::make_model(300'000, 16);
  say(link::wire::Hello(), 1);
  link::wire::StorePush push;
  push.sha256.assign(model.info.sha256);
  push.n_bytes = model.info.n_bytes;
  push.name.assign(model.info.name);
  say(push, 2);
  say(link::wire::StoreChunk{0}, 0, store::bytes_of(model.bytes));
  clock.step_ns = 20'000'000'000;
  say(link::wire::StoreEnd{300'000}, 3);
  clock.step_ns = 0;
  EXPECT_TRUE(peer.pump(0));  // it said nothing for so long, and had no reason to
  const auto found = opened.value().find(model.info.sha256);
  ASSERT_GOOD(found);
  EXPECT_TRUE(found.value().state == store::EntryState::kPublished);
  clock.now += link::kPeerSilenceNs + 1;
  EXPECT_FALSE(peer.pump(0));  // now it had
}

// ---- FC-44 -------------------------------------------------------------------------------------

TEST_F(LinkStore, FC44_a_model_that_does_not_fit_is_refused_before_the_first_byte) {
  fs::create_directories(store_folder());
  struct statvfs disk = {};
  ASSERT_EQ(::statvfs(folder.path().c_str(), &disk), 0);
  const uint64_t free_bytes = uint64_t{disk.f_bavail} * disk.f_frsize;
  limits.reserve_bytes = free_bytes + (uint64_t{1} << 40);
  Host host(store_folder(), limits);
  const store::Model model = store::make_model(50'000, 17);
  Client client(host.port());
  const auto state = client.begin(model);
  EXPECT_EQ(state.code, to_abi(Code::kNoMemory)) << text_of(state);
  EXPECT_NE(text_of(state).find("free"), std::string::npos) << text_of(state);
  EXPECT_GOOD(client.store->list(client.soon()));
}

TEST_F(LinkStore, FC44_partial_uploads_are_listed_and_removed) {
  Host host(store_folder(), limits);
  const store::Model model = store::make_model(50'000, 18);
  {
    Client client(host.port());
    client.begin(model);
    EXPECT_GOOD(client.chunk(model, 0, 20'000));
    EXPECT_EQ(client.store->remove(model.info.sha256, client.soon()).code(), Code::kNotReady);
  }
  Client client(host.port());
  ASSERT_TRUE(wait_for([&] { return !host.store->find(model.info.sha256).value().in_use; }));
  auto list = client.store->list(client.soon());
  ASSERT_GOOD(list);
  ASSERT_EQ(list.value().entries.items.size(), 1u);
  EXPECT_EQ(list.value().entries.items[0].state, static_cast<uint8_t>(store::EntryState::kPartial));
  EXPECT_GOOD(client.store->remove(model.info.sha256, client.soon()));
  EXPECT_TRUE(client.store->list(client.soon()).value().entries.items.empty());
}

// A small tmpfs, where this user may mount one.
TEST_F(LinkStore, FC44_a_disk_that_is_full_costs_the_upload_and_not_the_host) {
  fs::create_directory(store_folder());
  struct Mounted {
    std::string folder;
    ~Mounted() { EXPECT_EQ(std::system(("umount " + folder).c_str()), 0); }
  };
  const std::string mount =
      "mount -t tmpfs -o size=400k,mode=700 tmpfs " + store_folder() + " 2>/dev/null";
  if (std::system(mount.c_str()) != 0) GTEST_SKIP() << "mounting is not allowed here";
  const Mounted mounted{store_folder()};
  limits.reserve_bytes = 0;
  Host host(store_folder(), limits);
  const store::Model small = store::make_model(100'000, 19), large = store::make_model(500'000, 20);
  push_whole(host.port(), small);
  Client client(host.port());
  const auto refused = client.begin(large);
  EXPECT_EQ(refused.code, to_abi(Code::kNoMemory)) << text_of(refused);
  std::ofstream(store_folder() + "/filler") << std::string(290'000, 'x');
  const store::Model second = store::make_model(80'000, 21);
  EXPECT_EQ(client.begin(second).code, to_abi(Code::kNoMemory));
  EXPECT_EQ(client.store->list(client.soon()).value().entries.items.size(), 1u);
  EXPECT_GOOD(client.store->remove(small.info.sha256, client.soon()));
  fs::remove(store_folder() + "/filler");
  push_whole(host.port(), second);
}

}  // namespace
}  // namespace outrider::cli_test
