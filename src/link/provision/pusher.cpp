#include "link/provision/pusher.h"

#include <algorithm>

namespace outrider::link {
namespace {

unsigned long long ull(uint64_t value) {
  return value;
}

class Push {
 public:
  Push(StoreLink& link, const PushFile& file, PushBytes& bytes, const PushLimits& limits,
       const Clock& clock, const store::OnProgress& on_progress)
      : link_(link),
        file_(file),
        bytes_(bytes),
        limits_(limits),
        clock_(clock),
        on_progress_(on_progress) {}

  Result<Pushed> run() {
    wire::StorePush push;
    push.sha256.assign(file_.sha256);
    push.n_bytes = bytes_.size();
    push.name.assign(file_.name);
    push.role = file_.role;
    for (const std::string& companion : file_.companions) {
      if (push.companions.n == push.companions.kMaxRecords)
        return make_error(Code::kInvalid, "link: %zu companions, at most %u are allowed",
                          file_.companions.size(), push.companions.kMaxRecords);
      push.companions.add().sha256.assign(companion);
    }
    stage_ = "check";
    OUTRIDER_TRY(told(link_.send(push, link_.next_request(), deadline())));
    OUTRIDER_TRY(wait_answer());
    Pushed pushed;
    pushed.was_there = state_.is_published != 0;
    pushed.resumed_at = at_ = state_.next_offset;
    if (pushed.was_there) return pushed;
    stage_ = "upload";
    OUTRIDER_TRY(send_all());
    pushed.sent_bytes = at_ - pushed.resumed_at;
    stage_ = "verify";
    OUTRIDER_TRY(told(link_.send(wire::StoreEnd{bytes_.size()}, link_.next_request(), deadline())));
    OUTRIDER_TRY(wait_answer());
    if (state_.is_published == 0)
      return make_error(Code::kInvalid, "link: the host ended the upload without publishing it");
    return pushed;
  }

 private:
  int64_t deadline() const { return clock_.now_ns() + limits_.silence_ns; }

  // Names the stage and the byte of a lost connection.
  Result<void> told(const Result<void>& outcome) const {
    if (outcome) return {};
    return make_error(outcome.code(), "link: %s in %s at byte %llu of %llu: %s",
                      outcome.code() == Code::kNotReady ? "timeout" : "lost", stage_, ull(at_),
                      ull(bytes_.size()), outcome.error().text);
  }

  Result<void> take_state() {
    auto state = link_.receive(deadline());
    if (!state) return told(state.error());
    state_ = state.value();
    if (state_.code != 0)
      return make_error(static_cast<Code>(state_.code), "%.*s",
                        static_cast<int>(state_.text.n_bytes), state_.text.bytes.data());
    const bool believable = state_.next_offset <= bytes_.size() && state_.stage <= 2;
    if (!believable)
      return make_error(Code::kInvalid, "link: the host wants byte %llu of a file of %llu",
                        ull(state_.next_offset), ull(bytes_.size()));
    OUTRIDER_TRY(check_progress());
    const auto stage = static_cast<store::Stage>(state_.stage);
    if (on_progress_ && !on_progress_({stage, state_.n_done, state_.n_total}))
      return make_error(Code::kNotReady, "link: given up in %s at byte %llu of %llu", stage_,
                        ull(at_), ull(bytes_.size()));
    return {};
  }

  // A host that talks and does nothing is as good as silent.
  Result<void> check_progress() {
    const uint64_t mark = state_.n_done + state_.next_offset + state_.is_answer;
    const int64_t now_ns = clock_.now_ns();
    if (mark != mark_ || state_.stage != mark_stage_ || moved_ns_ == 0) {
      mark_ = mark;
      mark_stage_ = state_.stage;
      moved_ns_ = now_ns;
    }
    if (now_ns - moved_ns_ < limits_.stall_ns) return {};
    return make_error(Code::kNotReady, "link: stalled in %s at byte %llu of %llu for %lld ms",
                      stage_, ull(at_), ull(bytes_.size()),
                      static_cast<long long>((now_ns - moved_ns_) / 1'000'000));
  }

  Result<void> wait_answer() {
    do OUTRIDER_TRY(take_state());
    while (state_.is_answer == 0);
    return {};
  }

  // Ahead of the host's last word by its window at most.
  Result<void> send_all() {
    while (at_ < bytes_.size()) {
      const uint64_t end =
          std::min<uint64_t>(state_.next_offset + state_.window_bytes, bytes_.size());
      const uint64_t whole =
          std::min({limits_.chunk_bytes, state_.window_bytes, wire::kMaxStoreChunkBytes});
      const uint64_t n = std::min<uint64_t>(end > at_ ? end - at_ : 0, whole);
      if (n == 0 || (n < whole && end < bytes_.size())) {
        OUTRIDER_TRY(take_state());
        continue;
      }
      auto piece = bytes_.read(at_, n);
      if (!piece) return piece.error();
      OUTRIDER_TRY(told(link_.send(wire::StoreChunk{at_}, piece.value(), deadline())));
      at_ += n;
    }
    while (state_.next_offset < bytes_.size()) OUTRIDER_TRY(take_state());
    return {};
  }

  StoreLink& link_;
  const PushFile& file_;
  PushBytes& bytes_;
  const PushLimits& limits_;
  const Clock& clock_;
  const store::OnProgress& on_progress_;
  wire::StoreState state_;
  uint64_t at_ = 0, mark_ = 0;
  uint8_t mark_stage_ = 0;
  int64_t moved_ns_ = 0;
  const char* stage_ = "check";
};

}  // namespace

Result<Pushed> push_file(StoreLink& link, const PushFile& file, PushBytes& bytes,
                         const PushLimits& limits, const Clock& clock,
                         const store::OnProgress& on_progress) {
  return Push(link, file, bytes, limits, clock, on_progress).run();
}

}  // namespace outrider::link
