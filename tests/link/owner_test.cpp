// Who may drive a runtime, on real sockets: take-over rules, observers, owners that die, epochs.
#include <algorithm>
#include <chrono>
#include <mutex>
#include <thread>

#include "base/json.h"
#include "link/raw_device.h"
#include "support/own_time.h"

namespace outrider::link {
namespace {

using here::Host, here::kMs, here::kSecond, here::RawDevice, here::Said;
using wire::TakeOver;

constexpr int32_t kBusy = FRT_ERR_NOT_READY, kLost = FRT_ERR_BACKEND;

void wait_ms(int n) {
  std::this_thread::sleep_for(std::chrono::milliseconds(n));
}

// One instance; an owner is silent after 250 ms.
struct Owners : ::testing::Test {
  static ServerOptions options() {
    ServerOptions options;
    options.models.max_instances = 1;
    options.models.silence_ns = 250 * kMs;
    options.max_peers = 128;
    return options;
  }
  static std::string config(int sleep_ms) {
    return "{\"model_family\":\"fake\",\"require_inputs\":0,\"sleep_ms\":" +
           std::to_string(sleep_ms) + "}";
  }
  Host host{config(0), "tcp://127.0.0.1:0", options()};
  RawDevice first{host.endpoint, "first", 1}, second{host.endpoint, "second", 2};

  int64_t runs() const { return host.counters().runs + host.counters().failed_runs; }
};

TEST_F(Owners, a_live_owner_keeps_its_runtime_unless_somebody_demands_it) {
  ASSERT_EQ(first.open(), 0) << first.opened.text;
  ASSERT_EQ(first.step().code, 0);
  for (const TakeOver polite : {TakeOver::kNever, TakeOver::kWhenSilent}) {
    EXPECT_EQ(second.open(polite), kBusy);
    EXPECT_NE(second.opened.text.find("first (heard "), std::string::npos) << second.opened.text;
    EXPECT_LT(second.opened.own_ns, kSecond);
    EXPECT_EQ(first.step().code, 0) << "asking costs the owner nothing";
  }
  EXPECT_EQ(host.server->models().n_take_overs(), 0);
  ASSERT_EQ(second.open(TakeOver::kAlways), 0) << second.opened.text;
  EXPECT_EQ(host.server->models().n_take_overs(), 1);
  EXPECT_GT(second.epoch, first.epoch);
  EXPECT_EQ(second.step().code, 0);
}

TEST_F(Owners, a_silent_owner_loses_to_who_takes_silent_ones_and_not_to_who_never_takes) {
  ASSERT_EQ(first.open(), 0);
  wait_ms(400);
  EXPECT_EQ(second.open(TakeOver::kNever), kBusy) << second.opened.text;
  ASSERT_EQ(second.open(TakeOver::kWhenSilent), 0) << second.opened.text;
  EXPECT_EQ(second.step().code, 0);
  const Said late = first.step();
  EXPECT_EQ(late.code, kLost);
  EXPECT_NE(late.text.find("another device took the runtime over"), std::string::npos) << late.text;
}

TEST_F(Owners, a_ping_is_a_sign_of_life) {
  ASSERT_EQ(first.open(), 0);
  for (int i = 0; i < 5; ++i) {
    wait_ms(100);
    EXPECT_TRUE(first.ask(wire::Ping(), first.epoch).is<wire::Pong>());
  }
  EXPECT_EQ(second.open(), kBusy) << "it was heard 100 ms ago, not 500";
}

// Whose run is at work sends nothing, and is not silent.
TEST_F(Owners, a_run_at_work_is_not_silence_and_ends_before_its_successor_begins) {
  host = Host(config(900), "tcp://127.0.0.1:0", options());
  RawDevice owner(host.endpoint, "owner", 1), other(host.endpoint, "other", 2);
  ASSERT_EQ(owner.open(), 0);
  Said ran;
  std::thread run([&] { ran = owner.step(); });
  wait_ms(500);  // twice as long as a silent owner is given
  EXPECT_EQ(other.open(), kBusy) << other.opened.text;
  EXPECT_LT(other.opened.own_ns, 300 * kMs) << "told at once, not after the run";
  // Who demands it gets it as soon as that run has ended.
  ASSERT_EQ(other.open(TakeOver::kAlways), 0) << other.opened.text;
  EXPECT_GT(other.opened.took_ns, 100 * kMs);
  run.join();
  EXPECT_EQ(ran.code, 0) << "the run that was at work is answered: " << ran.text;
  EXPECT_EQ(owner.step().code, kLost);
  EXPECT_EQ(runs() - host.counters().failed_runs, 1);
}

TEST_F(Owners, a_former_owner_drives_nothing_and_reads_nothing) {
  ASSERT_EQ(first.open(), 0);
  ASSERT_EQ(first.step().code, 0);
  ASSERT_EQ(second.open(TakeOver::kAlways), 0);
  ASSERT_EQ(second.prompt("mine", second.epoch).code, 0);
  ASSERT_EQ(second.step().code, 0);
  const int64_t good = host.counters().runs;
  EXPECT_EQ(first.prompt("not yours", first.epoch).code, kLost);
  EXPECT_EQ(first.step().code, kLost);
  wire::Read read;
  read.port = 3;
  read.capacity = 4096;
  EXPECT_EQ(first.ask(read, first.epoch).code, kLost);
  EXPECT_EQ(first.ask(wire::Prepare(), first.epoch).code, kLost);
  EXPECT_EQ(host.counters().runs, good);
  EXPECT_GE(host.counters().stale, 4);
  // What the owner has is as it was.
  EXPECT_EQ(second.ask(read, second.epoch).code, 0);
  EXPECT_EQ(second.step().code, 0);
}

TEST_F(Owners, a_message_of_another_epoch_is_dropped_on_any_connection) {
  ASSERT_EQ(first.open(), 0);
  ASSERT_EQ(second.open(TakeOver::kAlways), 0);
  const uint32_t mine = second.epoch;
  for (const uint32_t other : {first.epoch, mine + 1, 0u}) {
    const int64_t stale = host.counters().stale;
    EXPECT_EQ(second.prompt("late", other).code, kLost);
    wire::Run run;
    run.kind = 1;
    const Said said = second.ask(run, other);
    EXPECT_EQ(said.code, kLost);
    EXPECT_NE(said.text.find("another owner epoch"), std::string::npos) << said.text;
    EXPECT_EQ(host.counters().stale, stale + 2);
  }
  EXPECT_EQ(runs(), 0);
  EXPECT_EQ(second.step().code, 0) << "and the connection lives";
}

TEST_F(Owners, one_that_dies_leaves_its_runtime_at_once_and_nothing_in_it) {
  const std::string needs = "{\"model_family\":\"fake\"}";
  host = Host(needs, "tcp://127.0.0.1:0", options());
  uint32_t epoch = 0;
  {
    RawDevice dying(host.endpoint, "dying", 1);
    ASSERT_EQ(dying.open(), 0);
    epoch = dying.epoch;
    ASSERT_EQ(dying.prompt("left behind", epoch).code, 0);
  }  // the connection ends without BYE
  RawDevice heir(host.endpoint, "heir", 2);
  int32_t code = kBusy;
  for (int i = 0; i < 20 && code != 0; ++i, wait_ms(5)) code = heir.open(TakeOver::kNever);
  ASSERT_EQ(code, 0) << heir.opened.text;
  EXPECT_GT(heir.epoch, epoch);
  const Said ran = heir.step();
  EXPECT_EQ(ran.code, FRT_ERR_INVALID) << "nothing is staged: " << ran.text;
}

TEST_F(Owners, the_same_device_takes_its_own_runtime_back_at_once) {
  ASSERT_EQ(first.open(), 0);
  ASSERT_EQ(first.step().code, 0);
  RawDevice again(host.endpoint, "first", 1);
  ASSERT_EQ(again.open(TakeOver::kNever), 0) << again.opened.text;
  EXPECT_EQ(host.server->models().n_take_overs(), 0) << "nobody lost anything";
  EXPECT_EQ(first.step().code, kLost) << "its old connection drives nothing";
  EXPECT_EQ(again.step().code, 0);
}

TEST_F(Owners, observers_look_and_never_stage) {
  ASSERT_EQ(first.open(), 0);
  RawDevice& observer = second;
  EXPECT_EQ(observer.open(TakeOver::kAlways, wire::Role::kObserver), FRT_ERR_UNSUPPORTED);
  EXPECT_NE(observer.opened.text.find("observer"), std::string::npos) << observer.opened.text;
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(first.step().code, 0);
    const Said status = observer.ask(wire::Status(), 0);
    ASSERT_TRUE(status.is<wire::StatusReply>());
    wire::StatusReply reply;
    ASSERT_TRUE(wire::decode(status.body, reply));
    const auto json = Json::parse(reply.json.view());
    ASSERT_TRUE(json) << json.error().text;
    const Json& instance =
        json.value().find("models")->items().at(0).find("instances")->items().at(0);
    EXPECT_EQ(instance.find("owner")->text(), "first");
  }
  EXPECT_EQ(host.server->models().n_take_overs(), 0);
  // It owns nothing, so what it would stage or run ends its connection, not the owner's.
  EXPECT_EQ(observer.prompt("mine", first.epoch).got, wire::Got::kLost);
  RawDevice another(host.endpoint, "another", 3);
  wire::Run run;
  run.kind = 1;
  EXPECT_EQ(another.ask(run, first.epoch).got, wire::Got::kLost);
  EXPECT_EQ(first.step().code, 0);
  EXPECT_EQ(runs(), 4);
}

// Twenty that ask at once, and again: one owner at any time, epochs never repeat.
TEST_F(Owners, of_twenty_that_demand_it_together_one_has_it) {
  std::vector<std::thread> all;
  std::mutex lock;
  std::vector<uint32_t> epochs;
  for (uint64_t i = 0; i < 20; ++i)
    all.emplace_back([&, i] {
      for (int k = 0; k < 3; ++k) {
        RawDevice device(host.endpoint, "device", 10 + i);
        if (device.open(TakeOver::kAlways) != 0) continue;
        std::scoped_lock hold(lock);
        epochs.push_back(device.epoch);
      }
    });
  for (std::thread& thread : all) thread.join();
  EXPECT_EQ(epochs.size(), 60u);
  std::ranges::sort(epochs);
  EXPECT_EQ(std::ranges::adjacent_find(epochs), epochs.end());
  RawDevice last(host.endpoint, "last", 99);
  ASSERT_EQ(last.open(TakeOver::kAlways), 0) << last.opened.text;
  EXPECT_EQ(last.step().code, 0);
}

// ---- FC-38: busy is not dead -------------------------------------------------------------------

// The field case has one request of 30 s; OUTRIDER_LONG_TESTS runs that.
TEST_F(Owners, FC38_during_a_long_run_everybody_is_answered_at_once) {
  const int run_ms = std::getenv("OUTRIDER_LONG_TESTS") != nullptr ? 30'000 : 1'500;
  host = Host(config(run_ms), "tcp://127.0.0.1:0", options());
  RawDevice owner(host.endpoint, "owner", 1), looker(host.endpoint, "looker", 99);
  ASSERT_EQ(owner.open(), 0);
  wire::Run run;
  run.kind = 1;
  const int64_t begin = here::clock_here().now_ns();
  const uint64_t id = owner.tell(run, owner.epoch, {}, wire::kWantAnswer);
  wait_ms(100);
  // Heartbeats of the owner: each is answered during the run and says how long that is at work.
  uint32_t age_ms = 0;
  int n_pongs = 0, n_looks = 0;
  int64_t worst_ns = 0;
  while (here::clock_here().now_ns() - begin < (run_ms - 300) * kMs) {
    const Said said = owner.ask(wire::Ping(), owner.epoch);
    ASSERT_TRUE(said.is<wire::Pong>());
    worst_ns = std::max(worst_ns, said.own_ns);
    wire::Pong pong;
    ASSERT_TRUE(wire::decode(said.body, pong));
    EXPECT_GT(pong.busy_ms, age_ms);
    age_ms = pong.busy_ms, ++n_pongs;
    // Somebody who looks sees the run and its age.
    const Said status = looker.ask(wire::Status(), 0);
    worst_ns = std::max(worst_ns, status.own_ns);
    wire::StatusReply reply;
    ASSERT_TRUE(status.is<wire::StatusReply>() && wire::decode(status.body, reply));
    const auto json = Json::parse(reply.json.view());
    ASSERT_TRUE(json);
    for (const Json& peer : json.value().find("peers")->items())
      if (peer.find("name")->text() == "owner" && peer.find("busy_ms")->integer() > 0) ++n_looks;
    wait_ms(std::min(100, run_ms / 30));
  }
  EXPECT_GE(n_pongs, 10);
  EXPECT_GE(n_looks, n_pongs / 2);
  // Twenty newcomers, each told at once.
  for (uint64_t i = 0; i < 20; ++i) {
    RawDevice newcomer(host.endpoint, "newcomer", 100 + i);
    EXPECT_EQ(newcomer.open(), kBusy);
    worst_ns = std::max(worst_ns, newcomer.opened.own_ns);
  }
  EXPECT_LT(worst_ns, 250 * kMs);
  // The long run was killed by nothing.
  wire::Incoming in;
  wire::RunReply reply;
  do {
    ASSERT_EQ(owner.channel().receive(in, nullptr, RawDevice::due()), wire::Got::kMessage);
  } while (in.header.request_id != id);
  ASSERT_TRUE(wire::decode(in.body, reply));
  EXPECT_EQ(reply.code, 0);
  EXPECT_GE(here::clock_here().now_ns() - begin, run_ms * kMs);
}

// What a runtime takes for views of pictures holds addresses: none that a peer wrote gets there.
TEST_F(Owners, FC46_raw_bytes_for_a_port_of_pictures_are_refused_and_no_address_in_them_is_read) {
  ASSERT_EQ(first.open(), 0) << first.opened.text;
  frt_image_view views[4];
  for (frt_image_view& view : views)
    view = {
        sizeof view, FRT_PIXEL_RGB8, reinterpret_cast<const void*>(0x10), 6 * 4 * 3, 6, 4, 0, 0, 0};
  for (size_t n = 1; n <= 4; ++n) {
    wire::Input input;
    input.port = 0;
    input.bytes = n * sizeof views[0];
    const Said said =
        first.ask(input, first.epoch, std::as_bytes(std::span(views)).first(n * sizeof views[0]));
    EXPECT_LT(said.code, 0) << n;
  }
  EXPECT_EQ(first.step().code, 0) << "the host lives";
}

TEST_F(Owners, FC38_of_twenty_runs_in_the_queue_the_newest_waits_and_the_others_are_told_at_once) {
  host = Host(config(600), "tcp://127.0.0.1:0", options());
  RawDevice owner(host.endpoint, "owner", 1);
  ASSERT_EQ(owner.open(), 0);
  wire::Run run;
  run.kind = 1;
  test::OwnTime own;
  std::vector<uint64_t> ids = {owner.tell(run, owner.epoch, {}, wire::kWantAnswer)};
  wait_ms(50);
  for (int i = 0; i < 20; ++i) ids.push_back(owner.tell(run, owner.epoch, {}, wire::kWantAnswer));
  std::vector<uint64_t> told, ran;
  for (int i = 0; i < 21; ++i) {
    wire::Incoming in;
    ASSERT_EQ(owner.channel().receive(in, nullptr, RawDevice::due()), wire::Got::kMessage);
    const bool fault = in.header.type == wire::type_of<wire::Fault>();
    (fault ? told : ran).push_back(in.header.request_id);
    if (fault) {
      EXPECT_LT(own.ns(), 500 * kMs) << "before the run ended";
    }
  }
  EXPECT_EQ(told, std::vector<uint64_t>(ids.begin() + 1, ids.end() - 1));
  EXPECT_EQ(ran, (std::vector<uint64_t>{ids.front(), ids.back()}));
  EXPECT_EQ(host.counters().runs, 2);
}

}  // namespace
}  // namespace outrider::link
