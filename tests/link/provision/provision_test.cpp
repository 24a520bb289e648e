// A device that pushes files and a host that keeps them, with everything between that can go wrong.
#include <gtest/gtest.h>

#include <deque>
#include <functional>

#include "base/sha256.h"
#include "link/provision/pusher.h"
#include "link/provision/store_session.h"
#include "link/store/memory_files.h"
#include "link/store/store_fixture.h"

namespace outrider::link {
namespace {

using store::make_model;
using store::Model;
using store::Store;
using store::text_of;

// Both ends in one thread. Every message goes through its encoding. The wire can be cut after so
// many bytes of both directions together: what is not whole by then never arrives.
class Wire final : public StoreLink, public StoreReplies {
 public:
  Wire(Store& store, ManualClock& clock)
      : clock_(clock), session_(std::in_place, store, *this, clock) {}

  void cut_after(uint64_t bytes) { cut_after_ = bytes; }
  uint64_t moved_bytes() const { return moved_bytes_; }
  uint64_t highest_ahead() const { return highest_ahead_; }
  // From here on the host hears nothing, and nobody is told.
  void mute() { is_mute_ = true; }
  std::function<void(wire::StoreState&)> on_state;

  Result<void> send(const wire::StorePush& push, uint64_t request_id, int64_t) override {
    return to_host(push, request_id, {});
  }
  Result<void> send(const wire::StoreChunk& chunk, std::span<const std::byte> payload,
                    int64_t) override {
    highest_ahead_ = std::max(highest_ahead_, chunk.offset + payload.size() - last_next_);
    return to_host(chunk, 0, payload);
  }
  Result<void> send(const wire::StoreEnd& end, uint64_t request_id, int64_t) override {
    return to_host(end, request_id, {});
  }
  uint64_t next_request() override { return ++request_; }

  Result<wire::StoreState> receive(int64_t deadline_ns) override {
    if (states_.empty() && repeats_) states_.push_back(last_state_);
    if (states_.empty()) {
      if (is_cut_) return make_error(Code::kFailed, "cable gone");
      clock_.advance_ns(deadline_ns - clock_.now_ns());
      return make_error(Code::kNotReady, "nothing came");
    }
    clock_.advance_ns(1'000'000);
    wire::StoreState state = states_.front();
    states_.pop_front();
    if (on_state) on_state(state);
    last_next_ = state.next_offset;
    return state;
  }

  bool reply(const wire::StoreState& state, uint64_t) override {
    wire::StoreState arrived;
    if (!carry(state, {}, &arrived)) return false;
    last_state_ = arrived;
    states_.push_back(arrived);
    return true;
  }
  bool reply(const wire::StoreListReply& list, uint64_t) override {
    return carry(list, {}, &last_list);
  }
  bool reply(const wire::Answer& answer, uint64_t) override {
    return carry(answer, {}, &last_answer);
  }

  // The host says its last word again and again.
  void repeat_last_state() { repeats_ = true; }
  template <class M>
  Result<void> to_host(const M& message, uint64_t request_id, std::span<const std::byte> payload) {
    M arrived;
    if (is_mute_) return {};
    if (!carry(message, payload, &arrived) || !session_) {
      session_.reset();
      return make_error(Code::kFailed, "cable gone");
    }
    std::vector<std::byte> body(wire::max_bytes<M>());
    body.resize(wire::encode(arrived, body));
    const auto taken = session_->take(wire::type_of<M>(), request_id, body, payload);
    if (is_cut_) session_.reset();
    return taken || is_cut_ ? Result<void>{} : taken;
  }

  wire::StoreListReply last_list;
  wire::Answer last_answer;

 private:
  template <class M>
  bool carry(const M& message, std::span<const std::byte> payload, M* arrived) {
    std::vector<std::byte> body(wire::max_bytes<M>());
    body.resize(wire::encode(message, body));
    moved_bytes_ += wire::kHeaderBytes + body.size() + payload.size();
    is_cut_ = is_cut_ || moved_bytes_ > cut_after_;
    return !is_cut_ && wire::decode(std::span<const std::byte>(body), *arrived);
  }

  ManualClock& clock_;
  std::optional<StoreSession> session_;
  std::deque<wire::StoreState> states_;
  wire::StoreState last_state_;
  uint64_t cut_after_ = UINT64_MAX, moved_bytes_ = 0, request_ = 0;
  uint64_t highest_ahead_ = 0, last_next_ = 0;
  bool is_cut_ = false, is_mute_ = false, repeats_ = false;
};

struct Provision : ::testing::Test {
  store::MemoryFiles files;
  ManualClock clock;
  PushLimits limits{.chunk_bytes = 700};
  store::Limits store_limits = store::small_limits();

  Store open() { return std::move(Store::open(files, store_limits).value()); }
  static PushFile file_of(const Model& model) {
    return {model.info.sha256, model.info.name, static_cast<uint8_t>(model.info.role),
            model.info.companions};
  }
  Result<Pushed> push(Wire& wire, const Model& model, const store::OnProgress& on_progress = {}) {
    MemoryBytes bytes(store::bytes_of(model.bytes));
    return push_file(wire, file_of(model), bytes, limits, clock, on_progress);
  }
  std::string stored(const Model& model) { return files.content(model.info.sha256 + "/data"); }
};

TEST_F(Provision, a_file_arrives_whole_and_is_not_sent_twice) {
  Store store = open();
  const Model model = make_model(10'000, 1);
  Wire wire(store, clock);
  uint64_t last = 0;
  auto pushed = push(wire, model, [&](const store::Progress& p) {
    EXPECT_EQ(p.n_total, 10'000u);
    last = p.n_done;
    return true;
  });
  ASSERT_GOOD(pushed);
  EXPECT_EQ(pushed.value().sent_bytes, 10'000u);
  EXPECT_EQ(last, 10'000u);
  EXPECT_EQ(stored(model), model.bytes);
  auto again = push(wire, model);
  ASSERT_GOOD(again);
  EXPECT_TRUE(again.value().was_there);
  EXPECT_EQ(again.value().sent_bytes, 0u);
}

TEST_F(Provision, a_cut_at_any_place_of_either_direction_is_gone_on_from) {
  const Model model = make_model(5000, 1);
  uint64_t whole = 0;
  {
    Store store = open();
    Wire wire(store, clock);
    ASSERT_GOOD(push(wire, model));
    whole = wire.moved_bytes();
    ASSERT_GOOD(store.remove(model.info.sha256));
  }
  for (uint64_t cut = 0; cut < whole; cut += 61) {
    Store store = open();
    uint64_t had = 0;
    {
      Wire wire(store, clock);
      wire.cut_after(cut);
      const auto pushed = push(wire, model);
      ASSERT_FALSE(pushed) << cut;
      EXPECT_NE(text_of(pushed).find("lost in "), std::string::npos) << text_of(pushed);
    }
    if (const auto entry = store.find(model.info.sha256); entry) had = entry.value().have_bytes;
    Wire wire(store, clock);
    auto pushed = push(wire, model);
    ASSERT_GOOD(pushed);
    EXPECT_EQ(pushed.value().resumed_at, had) << cut;  // no byte is sent twice
    EXPECT_EQ(stored(model), model.bytes);
    ASSERT_GOOD(store.remove(model.info.sha256));
  }
}

TEST_F(Provision, a_cut_of_every_attempt_still_ends) {
  const Model model = make_model(20'000, 1);
  Store store = open();
  int n_attempts = 0;
  for (bool done = false; !done; ++n_attempts) {
    ASSERT_LT(n_attempts, 30);
    Wire wire(store, clock);
    wire.cut_after(3000);
    done = static_cast<bool>(push(wire, model));
  }
  EXPECT_GT(n_attempts, 8);
  EXPECT_EQ(stored(model), model.bytes);
}

TEST_F(Provision, the_device_keeps_to_the_window) {
  limits.chunk_bytes = 1u << 20;
  store_limits.chunk_bytes = store_limits.sync_bytes = 4u << 20;
  Store store = open();
  const Model model = make_model(20u << 20, 1);
  Wire wire(store, clock);
  ASSERT_GOOD(push(wire, model));
  EXPECT_LE(wire.highest_ahead(), StoreSession::kWindowBytes);
}

TEST_F(Provision, a_window_smaller_than_a_chunk_is_kept_and_one_of_nothing_times_out) {
  Store store = open();
  const Model model = make_model(5000, 1);
  Wire wire(store, clock);
  wire.on_state = [](wire::StoreState& state) { state.window_bytes = 100; };
  ASSERT_GOOD(push(wire, model));
  EXPECT_LE(wire.highest_ahead(), 100u);
  Wire other(store, clock);
  other.on_state = [](wire::StoreState& state) { state.window_bytes = 0; };
  EXPECT_EQ(push(other, make_model(100, 2)).code(), Code::kNotReady);
}

TEST_F(Provision, FC37_a_silent_host_is_a_timeout_that_names_the_byte) {
  const Model model = make_model(5000, 1);
  for (const uint64_t after : {uint64_t{0}, uint64_t{1}, uint64_t{2}, uint64_t{5}}) {
    Store store = open();
    Wire wire(store, clock);
    uint64_t n_states = 0;
    if (after == 0) wire.mute();
    wire.on_state = [&](wire::StoreState& state) {
      state.window_bytes = 700;
      if (++n_states == after) wire.mute();
    };
    const int64_t before_ns = clock.now_ns();
    const auto pushed = push(wire, model);
    EXPECT_EQ(pushed.code(), Code::kNotReady);
    const std::string where =
        after == 0 ? "timeout in check at byte 0" : "timeout in upload at byte";
    EXPECT_NE(text_of(pushed).find(where), std::string::npos) << text_of(pushed);
    EXPECT_LE(clock.now_ns() - before_ns, limits.silence_ns + 1'000'000'000);
    (void)store.remove(model.info.sha256);
  }
}

TEST_F(Provision, FC37_a_host_that_talks_and_does_nothing_is_given_up) {
  Store store = open();
  const Model model = make_model(5000, 1);
  Wire wire(store, clock);
  wire.on_state = [&](wire::StoreState& state) {
    state.is_answer = 0;
    wire.repeat_last_state();
  };
  const auto pushed = push(wire, model);
  EXPECT_EQ(pushed.code(), Code::kNotReady);
  EXPECT_NE(text_of(pushed).find("stalled in check"), std::string::npos) << text_of(pushed);
}

TEST_F(Provision, a_host_that_wants_bytes_beyond_the_end_is_not_believed) {
  Store store = open();
  const Model model = make_model(5000, 1);
  Wire wire(store, clock);
  wire.on_state = [](wire::StoreState& state) { state.next_offset = 5001; };
  EXPECT_EQ(push(wire, model).code(), Code::kInvalid);
}

TEST_F(Provision, FC43_a_wrong_digest_comes_back_in_the_hosts_words) {
  Store store = open();
  Model model = make_model(5000, 1);
  model.bytes[77] = static_cast<char>(model.bytes[77] ^ 1);
  Wire wire(store, clock);
  const auto pushed = push(wire, model);
  EXPECT_EQ(pushed.code(), Code::kNotFound);
  EXPECT_NE(text_of(pushed).find("the partial file was deleted"), std::string::npos);
  EXPECT_TRUE(store.list().value().empty());
}

TEST_F(Provision, FC42_two_devices_push_one_file_and_the_second_is_told) {
  Store store = open();
  const Model model = make_model(5000, 1);
  Wire first(store, clock), second(store, clock);
  bool tried = false;
  const auto pushed = push(first, model, [&](const store::Progress&) {
    if (!tried) {
      tried = true;
      const auto refused = push(second, model);
      EXPECT_EQ(refused.code(), Code::kNotReady);
      EXPECT_NE(text_of(refused).find("another peer"), std::string::npos);
    }
    return true;
  });
  ASSERT_GOOD(pushed);
  EXPECT_TRUE(tried);
}

TEST_F(Provision, a_model_needs_its_projector_first_and_is_listed_with_it) {
  Store store = open();
  const Model projector = make_model(900, 1, store::Role::kProjector);
  Model model = make_model(2000, 2);
  model.info.companions = {projector.info.sha256};
  Wire wire(store, clock);
  EXPECT_EQ(push(wire, model).code(), Code::kNotFound);
  ASSERT_GOOD(push(wire, projector));
  ASSERT_GOOD(push(wire, model));
  ASSERT_GOOD(wire.to_host(wire::StoreList{}, 5, {}));
  ASSERT_EQ(wire.last_list.entries.items.size(), 2u);
  const auto& entry = wire.last_list.entries.items[0];
  EXPECT_EQ(entry.sha256.view(), model.info.sha256);
  EXPECT_EQ(entry.have_bytes, 2000u);
  EXPECT_EQ(entry.companions.items[0].sha256.view(), projector.info.sha256);
  EXPECT_EQ(entry.role, 0u);
  EXPECT_EQ(wire.last_list.entries.items[1].role, 1u);
}

TEST_F(Provision, removing_answers_with_the_stores_words) {
  Store store = open();
  const Model model = make_model(2000, 2);
  Wire wire(store, clock);
  ASSERT_GOOD(push(wire, model));
  wire::StoreRemove remove;
  remove.sha256.assign(model.info.sha256);
  {
    auto lease = store.lease(model.info.sha256);
    ASSERT_GOOD(lease);
    ASSERT_GOOD(wire.to_host(remove, 6, {}));
    EXPECT_EQ(wire.last_answer.code, to_abi(Code::kNotReady));
  }
  ASSERT_GOOD(wire.to_host(remove, 7, {}));
  EXPECT_EQ(wire.last_answer.code, 0);
  remove.sha256.assign("../../../etc/passwd");
  ASSERT_GOOD(wire.to_host(remove, 8, {}));
  EXPECT_EQ(wire.last_answer.code, to_abi(Code::kInvalid));
}

TEST_F(Provision, messages_out_of_order_change_nothing) {
  Store store = open();
  Wire wire(store, clock);
  const std::string bytes(100, 'x');
  EXPECT_GOOD(wire.to_host(wire::StoreChunk{0}, 0, store::bytes_of(bytes)));  // dropped
  EXPECT_GOOD(wire.to_host(wire::StoreEnd{100}, 1, {}));
  const auto state = wire.receive(0);
  ASSERT_GOOD(state);
  EXPECT_EQ(state.value().code, to_abi(Code::kInvalid));
  EXPECT_TRUE(store.list().value().empty());
  StoreSession session(store, wire, clock);
  EXPECT_EQ(session.take(wire::type_of<wire::StorePush>(), 1, {}, {}).code(), Code::kInvalid);
  EXPECT_EQ(session.take(wire::type_of<wire::Run>(), 1, {}, {}).code(), Code::kInvalid);
  EXPECT_FALSE(StoreSession::takes(wire::type_of<wire::Run>()));
}

}  // namespace
}  // namespace outrider::link
