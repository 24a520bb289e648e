// Uploads over real sockets, with the cable cut at many bytes on either side.
#include <fstream>

#include "link_support.h"
#include "support/own_time.h"

namespace outrider::cli_test {
namespace {

using From = CutProxy::From;

// Written to a file, as the command takes it.
std::string write_model(const Folder& folder, const store::Model& model) {
  const std::string path = folder.at(model.info.name + ".bin");
  std::ofstream(path, std::ios::binary) << model.bytes;
  return path;
}

std::string stored(const Folder& folder, const store::Model& model) {
  return content(folder.at("store/" + model.info.sha256 + "/data"));
}

struct LinkPush : ::testing::Test {
  Folder folder{true};
  Host host{folder.at("store")};
  CutProxy proxy{host.port()};
};

TEST_F(LinkPush, a_file_arrives_whole_and_is_not_sent_twice) {
  const store::Model model = store::make_model(1'200'001, 1);
  const std::string path = write_model(folder, model);
  const Push push = push_path(path, proxy.port());
  ASSERT_GOOD(push.result);
  EXPECT_EQ(push.plan.files.at(0).sha256, model.info.sha256);
  EXPECT_EQ(push.plan.files.at(0).sent_bytes, model.bytes.size());
  EXPECT_EQ(push.outcome.n_connections, 1);
  EXPECT_EQ(stored(folder, model), model.bytes);
  const Push again = push_path(path, proxy.port());
  ASSERT_GOOD(again.result);
  EXPECT_TRUE(again.plan.files.at(0).was_there);
  EXPECT_EQ(again.plan.files.at(0).sent_bytes, 0u);
}

// Pushes a model over a cable that is cut once, and looks at what the host has then.
void push_over_cut(const Folder& folder, Host& host, CutProxy& proxy, From from,
                   uint64_t after_bytes, uint64_t seed) {
  SCOPED_TRACE(std::string(from == From::kDevice ? "device" : "host") + " cut after " +
               std::to_string(after_bytes));
  const store::Model model = store::make_model(600'001, seed);
  const std::string path = write_model(folder, model);
  const int before = proxy.n_connections();
  // The first connection may end so early that nobody said hello: then the command gives up at
  // once, and a person starts it again.
  proxy.cut(from, after_bytes, seed % 2 == 0);
  Push push = push_path(path, proxy.port());
  const bool greeted = push.outcome.n_connections > 0;
  if (!greeted) push = push_path(path, proxy.port());
  ASSERT_GOOD(push.result);
  EXPECT_GE(proxy.n_connections() - before, 1);
  ASSERT_EQ(stored(folder, model), model.bytes);
  ASSERT_GOOD(host.store->remove(model.info.sha256));
  std::filesystem::remove(path);
}

TEST_F(LinkPush, FC42_a_push_that_is_cut_at_any_byte_ends_in_the_same_file) {
  uint64_t seed = 100;
  // Headers and the first messages of either side closely, the chunks at what surrounds their ends.
  for (uint64_t at = 0; at < 700; at += 41)
    push_over_cut(folder, host, proxy, From::kDevice, at, ++seed);
  for (uint64_t at = 0; at < 900; at += 53)
    push_over_cut(folder, host, proxy, From::kHost, at, ++seed);
  for (const uint64_t chunk : {262'144, 524'288, 600'001})
    for (const int64_t around : {-1, 0, 1, 200, 400, 640})
      push_over_cut(folder, host, proxy, From::kDevice, chunk + static_cast<uint64_t>(around),
                    ++seed);
  for (uint64_t at = 30'000; at < 600'000; at += 71'993)
    push_over_cut(folder, host, proxy, From::kDevice, at, ++seed);
}

TEST_F(LinkPush, FC42_many_cuts_in_a_row_lose_nothing) {
  const store::Model model = store::make_model(3'000'000, 7);
  const std::string path = write_model(folder, model);
  for (int i = 0; i < 12; ++i) proxy.cut(From::kDevice, 500'000, i % 2 == 0, true);
  const Push push = push_path(path, proxy.port());
  ASSERT_GOOD(push.result);
  // No connection carried more than 500'000 bytes, so what was there in the end came from many.
  EXPECT_GE(push.outcome.n_connections, 4);
  EXPECT_GT(push.plan.files.at(0).resumed_at, 1'000'000u);
  EXPECT_EQ(push.plan.files.at(0).resumed_at + push.plan.files.at(0).sent_bytes, 3'000'000u);
  EXPECT_EQ(stored(folder, model), model.bytes);
}

// The same over an encrypted link: cuts in the hand shake, in records, at their ends.
TEST_F(LinkPush, FC42_an_encrypted_push_that_is_cut_at_any_byte_ends_in_the_same_file) {
  const std::string key = key_file(folder);
  host.server.reset();
  host.store.reset();
  Host secret(folder.at("store"), store::small_limits(), no_source, {}, key);
  CutProxy cable(secret.port());
  const store::Model model = store::make_model(600'001, 90);
  const std::string path = write_model(folder, model);
  uint64_t resumed = 0;
  const auto push_over = [&](From from, uint64_t at, bool reset) {
    SCOPED_TRACE("cut after " + std::to_string(at));
    cable.cut(from, at, reset);
    Push push = push_path(path, cable.port(), 10'000'000'000, key);
    if (push.outcome.n_connections == 0)  // cut before the hello: a person starts it again
      push = push_path(path, cable.port(), 10'000'000'000, key);
    ASSERT_GOOD(push.result);
    resumed = std::max(resumed, push.plan.files.at(0).resumed_at);
    ASSERT_EQ(stored(folder, model), model.bytes);
    ASSERT_GOOD(secret.store->remove(model.info.sha256));
  };
  for (const uint64_t at : {1, 71, 72, 73, 104, 127, 128, 129, 400})
    push_over(From::kDevice, at, at % 2 == 0);
  for (const uint64_t at : {1, 104, 128, 300}) push_over(From::kHost, at, at % 2 == 0);
  for (uint64_t at = 20'000; at < 600'000; at += 82'321) push_over(From::kDevice, at, at % 2 == 0);
  EXPECT_GE(resumed, 262'144u) << "it goes on where it was";
  // Without the key, or with another one, nobody gets in.
  EXPECT_FALSE(push_path(path, secret.port(), 1'000'000'000).result);
  EXPECT_GOOD(secret.store->list());
  EXPECT_TRUE(secret.store->list().value().empty());
}

TEST_F(LinkPush, a_file_that_is_cut_short_meanwhile_is_told_and_ends_nobody) {
  const store::Model model = store::make_model(9'000'000, 91);
  const std::string path = write_model(folder, model);
  const auto shorten = [&](uint64_t n_bytes) { std::filesystem::resize_file(path, n_bytes); };
  auto plan = cli::plan_push(path, "", "");
  ASSERT_GOOD(plan);
  // While it is hashed.
  bool hashing = false;
  const auto hashed =
      cli::hash_files(plan.value(), [&](const cli::PushedFile&, const char*, uint64_t at) {
        if (at > 0 && !std::exchange(hashing, true)) shorten(5'000'000);
      });
  EXPECT_EQ(hashed.code(), Code::kFailed);
  EXPECT_NE(hashed.error().message().find("ends at byte 5000000 now"), std::string_view::npos)
      << hashed.error().text;
  // While it is sent.
  write_model(folder, model);
  plan = cli::plan_push(path, "", "");
  ASSERT_GOOD(plan);
  const MonotonicClock clock;
  cli::PushOutcome outcome;
  // With the host's first word, before a byte of it was sent.
  const cli::TellPush cut = [&](const cli::PushedFile&, const char* stage, uint64_t) {
    if (std::string_view(stage) != "hash") shorten(2'000'000);
  };
  ASSERT_GOOD(cli::hash_files(plan.value(), cut));
  auto dialer = cli::make_dialer(tcp(host.port()));
  ASSERT_GOOD(dialer);
  const auto pushed =
      cli::push_files(plan.value(), *dialer.value(), clock, 2'000'000'000, cut, outcome);
  EXPECT_EQ(pushed.code(), Code::kFailed);
  EXPECT_NE(pushed.error().message().find("push it again"), std::string_view::npos)
      << pushed.error().text;
  EXPECT_FALSE(std::filesystem::exists(folder.at("store/" + model.info.sha256)));
}

TEST_F(LinkPush, gives_up_when_nothing_moves_for_the_time_that_was_given) {
  const store::Model model = store::make_model(1'200'000, 8);
  const std::string path = write_model(folder, model);
  proxy.cut(From::kDevice, 700'000, true);
  for (int i = 0; i < 200; ++i) proxy.cut(From::kDevice, 90, true);
  const MonotonicClock clock;
  test::OwnTime own;
  const Push push = push_path(path, proxy.port(), 1'000'000'000);
  EXPECT_FALSE(push.result);
  EXPECT_FALSE(push.outcome.refused);
  EXPECT_TRUE(push.result.error().message().starts_with("link: ")) << push.result.error().text;
  EXPECT_LT(own.ns(), 8'000'000'000);
}

TEST_F(LinkPush, nobody_there_is_told_at_once) {
  const std::string path = write_model(folder, store::make_model(1000, 9));
  const uint16_t port = host.port();
  host.server.reset();
  const MonotonicClock clock;
  test::OwnTime own;
  const Push push = push_path(path, port);
  EXPECT_FALSE(push.result);
  EXPECT_EQ(push.outcome.n_connections, 0);
  EXPECT_LT(own.ns(), 2'000'000'000);
}

TEST_F(LinkPush, FC42_two_devices_with_the_same_model_both_end_well) {
  const store::Model model = store::make_model(20'000'000, 10);
  const std::string path = write_model(folder, model);
  Push first, second;
  std::thread one([&] { first = push_path(path, host.port()); });
  std::thread two([&] { second = push_path(path, host.port()); });
  one.join();
  two.join();
  EXPECT_GOOD(first.result);
  EXPECT_GOOD(second.result);
  EXPECT_EQ(stored(folder, model), model.bytes);
  // One of them sent it, the other one found it there.
  EXPECT_NE(first.plan.files.at(0).was_there, second.plan.files.at(0).was_there);
}

TEST_F(LinkPush, a_restarted_host_goes_on_where_the_old_one_was) {
  const store::Model model = store::make_model(900'000, 11);
  {
    Client client(host.port());
    EXPECT_EQ(client.begin(model).next_offset, 0u);
    EXPECT_GOOD(client.chunk(model, 0, 500'000));
    host.server.reset();  // the device is still there
  }
  host.store.reset();
  Host anew(folder.at("store"));
  Client client(anew.port());
  EXPECT_EQ(client.begin(model).next_offset, 500'000u);
}

}  // namespace
}  // namespace outrider::cli_test
