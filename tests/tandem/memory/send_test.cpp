// R7 and R11 with the real link: which address the system is given when a warp's output is an input
// of a runtime on another computer.
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <mutex>

#include "host/session.h"
#include "link/client/device.h"
#include "link/server/server.h"
#include "outrider/ext/tandem.h"
#include "support/temp_dir.h"
#include "tandem/memory/doubles.h"

namespace outrider::memory::test {
namespace {

const MonotonicClock kClock;

// Passes everything on and remembers the addresses it was given.
class Watched final : public link::Transport {
 public:
  struct Seen {
    std::mutex mutex;
    std::vector<link::Piece> pieces;
  };
  Watched(std::unique_ptr<link::Transport> inner, Seen& seen)
      : inner_(std::move(inner)), seen_(seen) {}
  link::Moved send(std::span<const link::Piece> pieces, int64_t deadline_ns) noexcept override {
    {
      const std::scoped_lock lock(seen_.mutex);
      seen_.pieces.insert(seen_.pieces.end(), pieces.begin(), pieces.end());
    }
    return inner_->send(pieces, deadline_ns);
  }
  link::Moved receive(std::span<std::byte> into, int64_t deadline_ns) noexcept override {
    return inner_->receive(into, deadline_ns);
  }
  void shut() noexcept override { inner_->shut(); }
  const link::TransportFacts& facts() const noexcept override { return inner_->facts(); }

 private:
  std::unique_ptr<link::Transport> inner_;
  Seen& seen_;
};

class WatchedDialer final : public link::Dialer {
 public:
  WatchedDialer(std::string endpoint, Watched::Seen& seen)
      : endpoint_(std::move(endpoint)), seen_(seen) {}
  Result<std::unique_ptr<link::Transport>> dial(int64_t deadline_ns) override {
    auto plain = link::connect_transport(link::parse_endpoint(endpoint_).value(), deadline_ns);
    if (!plain) return plain;
    return std::unique_ptr<link::Transport>(new Watched(std::move(plain.value()), seen_));
  }

 private:
  std::string endpoint_;
  Watched::Seen& seen_;
};

TEST(MemorySend, R11_the_link_sends_from_the_programs_output_and_R7_never_from_uncached_memory) {
  auto models = std::make_unique<link::Models>(link::ModelsLimits{}, kClock);
  const std::string provider = std::string(OUTRIDER_BUILD_DIR) + "/lib/provider_fake.so";
  // 512 x 256 x 3 bytes: as many as two packed views have.
  ASSERT_TRUE(models->add(
      "default",
      std::make_unique<link::ProviderSource>(
          provider,
          R"({"model_family":"fake","image_width":512,"image_height":256,"require_inputs":0})"),
      true));
  link::ServerOptions server_options;
  server_options.listen = {"tcp://127.0.0.1:0"};
  auto server = link::Server::start(server_options, std::move(models), kClock);
  ASSERT_TRUE(server) << server.error().text;
  Watched::Seen seen;
  link::DeviceConfig device_config;
  device_config.deadline_ns = 2000 * kMs;
  auto device = link::Device::open(
      device_config, std::make_unique<WatchedDialer>(server.value()->endpoints()[0], seen), kClock);
  ASSERT_TRUE(device) << device.error().text;

  for (const uint32_t grants : {attribute::kSendable, 0u}) {
    Rig::Options options;
    options.grants = grants;
    options.output_bytes = kFrameBytes;
    Rig rig(options);
    auto loaded = load_warp(rig.artifact(), rig.options());
    ASSERT_TRUE(loaded);
    auto warp =
        warp_for_link(*loaded.value().state, loaded.value().why_not, rig.probe(), rig.clock);
    ASSERT_TRUE(warp) << warp.error().text;
    for (int i = 0; i < 5; ++i) {
      ASSERT_EQ(warp.value()->start(rig.frame(0), rig.frame(1)), Code::kOk);
      ASSERT_EQ(warp.value()->wait(), Code::kOk);
      const auto view = warp.value()->send_view();
      const frt_image_view image = {sizeof image,
                                    FRT_PIXEL_RGB8,
                                    const_cast<std::byte*>(view.data()),
                                    view.size(),
                                    512,
                                    256,
                                    512 * 3,
                                    0,
                                    0};
      {
        const std::scoped_lock lock(seen.mutex);
        seen.pieces.clear();
      }
      ASSERT_TRUE(warp.value()->begin_send());
      ASSERT_EQ(device.value()->set_input(0, &image, sizeof image), Code::kOk)
          << device.value()->last_error();
      ASSERT_TRUE(warp.value()->released());
      const std::scoped_lock lock(seen.mutex);
      size_t from_view = 0;
      bool first = true;
      for (const link::Piece& piece : seen.pieces) {
        EXPECT_FALSE(grants == 0 && rig.own.owns(piece.data()))
            << "uncached memory reached the system";
        if (piece.data() < view.data() || piece.data() >= view.data() + view.size()) continue;
        if (first) {
          EXPECT_EQ(piece.data(), view.data());
        }
        first = false;
        from_view += piece.size();
      }
      EXPECT_GE(from_view, view.size()) << "a copy was sent";
      if (grants != 0) {
        EXPECT_EQ(view.data(), rig.counts.linked_at);
        EXPECT_EQ(warp.value()->copied_bytes(), 0);
      }
    }
  }
}

// The stock warp cannot be loaded here; the model's own warp is used instead, and with its frames a
// lead on a host takes over from the standby.
TEST(MemorySend, R24_with_the_models_own_warp_the_take_over_happens) {
  const std::string lib = std::string(OUTRIDER_BUILD_DIR) + "/lib/";
  const std::string fake =
      R"({"model_family":"fake","image_width":512,"image_height":256,"require_inputs":0})";
  auto models = std::make_unique<link::Models>(link::ModelsLimits{}, kClock);
  ASSERT_TRUE(models->add(
      "default", std::make_unique<link::ProviderSource>(lib + "provider_fake.so", fake), true));
  link::ServerOptions server_options;
  server_options.listen = {"tcp://127.0.0.1:0"};
  auto server = link::Server::start(server_options, std::move(models), kClock);
  ASSERT_TRUE(server) << server.error().text;
  const outrider::test::TempDir temp;
  const std::string base = temp.file("r24");
  std::ofstream(base + "_standby.json") << fake;
  std::ofstream(base + "_lead.json")
      << R"({"model_family":"remote","model":"default","endpoint":")" +
             server.value()->endpoints()[0] + "\"}";
  auto session = host::Session::open(
      lib + "provider_tandem.so",
      R"({"model_family":"tandem","standby":")" + base + R"(_standby.json","lead":")" + base +
          R"(_lead.json","standby_provider":")" + lib + R"(provider_fake.so","return_ticks":1})");
  ASSERT_TRUE(session) << session.error().text;
  const auto* table =
      static_cast<const outrider_tandem_v1*>(session.value().extension(OUTRIDER_EXT_TANDEM, 1));
  ASSERT_NE(table, nullptr);

  Rig::Options options;
  options.output_bytes = kFrameBytes;
  Rig rig(options);
  auto loaded = load_warp(rig.artifact(), rig.options());
  ASSERT_TRUE(loaded);
  Artifact stock = rig.artifact();
  stock.runtime_id = "legacy9d";
  LinkSide side = attach_warp(stock, loaded.value(), rig.options(), rig.probe(), rig.clock);
  EXPECT_EQ(side.warp, nullptr);
  EXPECT_NE(side.reason.find("legacy9d"), std::string::npos);
  LoadOptions with_hook = rig.options();
  with_hook.hooks.model_warp = [&] { return loaded.value().state.get(); };
  side = attach_warp(stock, loaded.value(), with_hook, rig.probe(), rig.clock);
  ASSERT_NE(side.warp, nullptr) << side.reason;
  EXPECT_EQ(table->note_warp(table->self, route_name(side.warp->route().route),
                             side.warp->route().reason),
            0);
  EXPECT_NE(table->note_warp(table->self, "fast", ""), 0);
  EXPECT_NE(table->note_warp(table->self, "direct", nullptr), 0);

  const auto ports = session.value().ports();
  uint32_t engaged = 0;
  for (uint32_t i = 0; i < ports.size(); ++i)
    if (std::string_view(ports[i].name) == "engaged") engaged = i;
  int64_t leader = 0;
  int n_ticks = 0;
  for (; n_ticks < 200 && leader != 2; ++n_ticks) {
    ASSERT_EQ(side.warp->start(rig.frame(0), rig.frame(1)), Code::kOk);
    ASSERT_EQ(side.warp->wait(), Code::kOk);
    const auto view = side.warp->send_view();
    const frt_image_view image = {sizeof image,
                                  FRT_PIXEL_RGB8,
                                  const_cast<std::byte*>(view.data()),
                                  view.size(),
                                  512,
                                  256,
                                  512 * 3,
                                  0,
                                  0};
    const std::byte nobody{0};
    ASSERT_TRUE(session.value().set_image(0, {&image, 1}));
    ASSERT_TRUE(session.value().set_raw(engaged, {&nobody, 1}));
    ASSERT_TRUE(session.value().tick());
    int64_t origin[OUTRIDER_ORIGIN_COUNT];
    table->read_origin(table->self, origin);
    leader = origin[OUTRIDER_ORIGIN_LEADER];
    usleep(20000);
  }
  EXPECT_EQ(leader, 2) << table->lead_error(table->self);
  EXPECT_GT(n_ticks, 3) << "the standby drives the first three ticks";
}

}  // namespace
}  // namespace outrider::memory::test
