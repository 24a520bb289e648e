#include "loop/runner.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>

namespace outrider::loop {
namespace {

constexpr int64_t kLongSleepNs = 200000000;  // a stop is seen after so long at the latest

// Sleeps until at_ns, or until `word` is no longer 0.
void wait_until_ns(const std::atomic<uint32_t>& word, int64_t at_ns) {
  const timespec when = {static_cast<time_t>(at_ns / 1000000000),
                         static_cast<long>(at_ns % 1000000000)};
  ::syscall(SYS_futex, reinterpret_cast<const uint32_t*>(&word),
            FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, 0, &when, nullptr, FUTEX_BITSET_MATCH_ANY);
}

// Pages of the stack that a tick may need are there before the first.
void touch_stack() {
  volatile std::byte pages[128 * 1024];
  for (size_t i = 0; i < sizeof pages; i += 4096) pages[i] = std::byte{0};
}

Result<void> check(const Options& o, const Payload& outputs, double period_ns) {
  if (!(o.hz > 0) || !(period_ns >= 1000))
    return make_error(Code::kInvalid, "loop: %g ticks a second, allowed are above 0 up to 1000000",
                      o.hz);
  if (o.deadline_ns < 0 || static_cast<double>(o.deadline_ns) > period_ns)
    return make_error(Code::kInvalid,
                      "loop: a deadline of %lld ns, allowed is at most the period of %.0f ns",
                      static_cast<long long>(o.deadline_ns), period_ns);
  if (!o.safe.empty() && o.safe.size() != outputs.bytes)
    return make_error(Code::kShape, "loop: the safe action has %zu bytes, the outputs %llu",
                      o.safe.size(), static_cast<unsigned long long>(outputs.bytes));
  return {};
}

std::vector<frt_image_view> views_of(const Slot& slot, const std::byte* data) {
  std::vector<frt_image_view> views;
  if (slot.modality != FRT_MODALITY_IMAGE) return views;
  const size_t rank = slot.shape.size();
  const int64_t n = rank == 4 ? slot.shape[0] : 1, height = slot.shape[rank - 3],
                width = slot.shape[rank - 2];
  for (int64_t i = 0; i < n; ++i) {
    frt_image_view view = {};
    view.struct_size = sizeof view;
    view.pixel_format = FRT_PIXEL_RGB8;
    view.bytes = static_cast<uint64_t>(height * width * 3);
    view.data = data + slot.offset + static_cast<uint64_t>(i) * view.bytes;
    view.width = static_cast<int32_t>(width);
    view.height = static_cast<int32_t>(height);
    views.push_back(view);
  }
  return views;
}

void first_floats(const Payload& payload, const std::byte* data, float (&out)[Sample::kSignals]) {
  for (const Slot& slot : payload.slots) {
    if (!slot.is_f32()) continue;
    std::memcpy(out, data + slot.offset, std::min<size_t>(slot.bytes, sizeof out));
    return;
  }
}

}  // namespace

Result<std::unique_ptr<Runner>> Runner::make(outrider_session* session, Payload inputs,
                                             Payload outputs, Segment& segment, Options options) {
  const double period_ns = 1e9 / options.hz;
  OUTRIDER_TRY(check(options, outputs, period_ns));
  std::unique_ptr<Runner> r(new Runner);
  r->session_ = session;
  r->inputs_ = std::move(inputs);
  r->outputs_ = std::move(outputs);
  r->segment_ = &segment;
  r->observations_ = segment.observations();
  r->actions_ = segment.actions();
  r->options_ = std::move(options);
  if (r->options_.safe.empty()) r->options_.safe.resize(r->outputs_.bytes);
  r->table_.period_ns = period_ns;
  r->table_.deadline_ns = r->options_.deadline_ns > 0 ? r->options_.deadline_ns
                                                      : static_cast<int64_t>(period_ns * 0.92);
  for (std::vector<std::byte>* room : {&r->observation_, &r->incoming_})
    room->resize(r->inputs_.bytes);
  for (std::vector<std::byte>* room : {&r->answer_, &r->room_, &r->watch_room_})
    room->resize(r->outputs_.bytes);
  r->good_.resize((r->outputs_.bytes + 7) / 8);
  r->samples_.resize(kSamples);
  for (const Slot& slot : r->inputs_.slots)
    r->views_.push_back(views_of(slot, r->observation_.data()));
  r->due_ = DueTime(session);
  r->reset_stage_ = outrider_find_stage(session, "reset");
  const int engaged = outrider_find_port(session, "engaged");
  const bool carried =
      std::ranges::any_of(r->inputs_.slots, [](const Slot& s) { return s.name == "engaged"; });
  if (engaged >= 0 && !carried &&
      outrider_port(session, static_cast<uint64_t>(engaged))->direction == FRT_PORT_IN)
    r->engaged_port_ = engaged;
  for (uint64_t i = 0; i < outrider_n_ports(session); ++i) {
    const frt_runtime_port_desc* port = outrider_port(session, i);
    if (port->direction != FRT_PORT_IN || port->modality != FRT_MODALITY_TEXT) continue;
    const std::string& text = r->options_.text;
    if (text.empty() && port->required == 0) continue;
    if (text.empty())
      return make_error(Code::kInvalid, "loop: input %.80s takes a text; give it with --prompt T",
                        port->name);
    if (outrider_set_input(session, static_cast<uint32_t>(i), text.data(), text.size()) != 0)
      return make_error(Code::kInvalid, "loop: text of input %.80s: %.300s", port->name,
                        outrider_session_error(session));
  }
  return r;
}

Runner::~Runner() {
  finish();
}

Grants Runner::start() {
  Grants grants;
  segment_->set_state(OUTRIDER_LOOP_RUNNING);
  exact_timers();
  touch_stack();
  // Made before memory is locked: its stack must not count against the limit of what may be.
  watchdog_ = std::thread([this] { watch(); });
  if (options_.lock_pages) grants.memory = lock_memory();
  grants.cpu = take_processor(options_.cpu);
  grants.priority = take_priority(options_.priority);
  table_.begin_ns = clock_.now_ns() + 2000000;
  started_.store(1);
  started_.notify_one();
  return grants;
}

void Runner::run(const std::atomic<bool>& stop) noexcept {
  int64_t next = 0;
  const int64_t n = options_.n_ticks > 0 ? options_.n_ticks : INT64_MAX;
  while (next < n && !stop.load(std::memory_order_relaxed)) {
    const int64_t now = clock_.now_ns(), due = table_.due_ns(next);
    if (now < due) {
      sleep_until_ns(std::min(due, now + kLongSleepNs));
      continue;
    }
    const int64_t tick = std::min(table_.first_open(next, now), n);
    totals_.n_skipped += tick - next;
    next = tick;
    if (tick == n) break;
    if (table_.due_ns(tick) > now) continue;
    const Answer answer = answer_tick(tick, now);
    const int64_t end = clock_.now_ns();
    uint16_t reason = answer.reason;
    if (end >= table_.end_ns(tick) || !claim(tick)) {
      // Whether the watchdog has been here or comes now: this answer is not sent.
      reason = OUTRIDER_LOOP_LATE;
      if (claim(tick)) send_substitute(tick, reason, room_.data());
    } else if (reason == OUTRIDER_LOOP_OK) {
      answered_.store(answer.observation, std::memory_order_relaxed);
      n_misses_.store(0, std::memory_order_relaxed);
      keep_good();
      send(tick, OUTRIDER_LOOP_MODEL, reason, answer_.data());
    } else {
      send_substitute(tick, reason, room_.data());
    }
    record(tick, now, end, reason);
    next = tick + 1;
  }
  totals_.n_ticks = next;
}

void Runner::finish() {
  if (!watchdog_.joinable()) return;
  stopping_.store(1);
  ::syscall(SYS_futex, reinterpret_cast<uint32_t*>(&stopping_), FUTEX_WAKE_PRIVATE, 1, nullptr,
            nullptr, 0);
  watchdog_.join();
  // The robot must not go on with the last answer.
  const int64_t last = std::max(totals_.n_ticks, decided_.load());
  n_misses_.store(options_.n_hold + 1);
  send_substitute(last, OUTRIDER_LOOP_ENDED, room_.data());
  totals_.n_safe = n_safe_.load() - 1;
  totals_.n_held = n_held_.load();
  segment_->set_state(OUTRIDER_LOOP_STOPPED);
  if (options_.priority > 0) {
    sched_param param = {};
    pthread_setschedparam(pthread_self(), SCHED_OTHER, &param);
  }
  if (options_.lock_pages) unlock_memory();
}

// ---- one tick ----

Runner::Answer Runner::answer_tick(int64_t tick, int64_t now_ns) noexcept {
  Answer answer;
  answer.reason = take_observation(now_ns);
  answer.observation = observation_number_;
  if (answer.reason != OUTRIDER_LOOP_OK) return answer;
  due_.tell(table_.due_ns(tick));
  int code = stage_inputs();
  if (code == 0) code = run_stages();
  if (code == 0) code = read_outputs();
  if (code != 0) {
    note_failure(tick, code);
    answer.reason = OUTRIDER_LOOP_FAILED;
  }
  return answer;
}

// The newest frame, when it is newer than the one there is; checked before it replaces it.
uint16_t Runner::take_observation(int64_t now_ns) noexcept {
  const uint64_t head = outrider_loop_head(&observations_);
  if (head != 0 && (!have_observation_ || head - 1 != observation_number_) &&
      outrider_loop_newest(&observations_, &frame_, incoming_.data()) != 0 &&
      (!have_observation_ || frame_.number != observation_number_)) {
    observation_number_ = frame_.number;
    // A writer that does not know the time: the frame is as old as our knowledge of it.
    observation_ns_ = frame_.time_ns != 0 ? frame_.time_ns : now_ns;
    bad_observation_ = !all_finite(inputs_, incoming_.data()) || frame_.time_ns < 0 ||
                       observation_ns_ > clock_.now_ns();
    if ((frame_.flags & OUTRIDER_LOOP_RESET) != 0) reset_due_ = true;
    if (!bad_observation_) std::memcpy(observation_.data(), incoming_.data(), observation_.size());
    have_observation_ = true;
    ++totals_.n_observations;
    taken_.store(frame_.number + 1, std::memory_order_release);
  }
  if (!have_observation_) return OUTRIDER_LOOP_WAITING;
  if (bad_observation_) return OUTRIDER_LOOP_BAD;
  return now_ns - observation_ns_ > options_.max_age_ns ? OUTRIDER_LOOP_STALE : OUTRIDER_LOOP_OK;
}

int Runner::stage_inputs() noexcept {
  for (size_t i = 0; i < inputs_.slots.size(); ++i) {
    const Slot& slot = inputs_.slots[i];
    const auto& views = views_[i];
    const int code =
        views.empty()
            ? outrider_set_input(session_, slot.port, observation_.data() + slot.offset, slot.bytes)
            : outrider_set_input(session_, slot.port, views.data(), views.size() * sizeof views[0]);
    if (code != 0) return code;
  }
  if (engaged_port_ < 0) return 0;
  const uint8_t engaged = options_.engaged ? 1 : 0;
  return outrider_set_input(session_, static_cast<uint32_t>(engaged_port_), &engaged, 1);
}

// A runtime that keeps state starts from zero when an episode does, not at every tick.
int Runner::run_stages() noexcept {
  if (reset_stage_ < 0) return outrider_tick(session_);
  if (reset_due_) {
    const int code = outrider_run_stage(session_, static_cast<uint64_t>(reset_stage_));
    if (code != 0) return code;
    reset_due_ = false;
  }
  const uint64_t n = outrider_n_stages(session_);
  for (uint64_t stage = 0; stage < n; ++stage) {
    if (static_cast<int64_t>(stage) == reset_stage_) continue;
    const int code = outrider_run_stage(session_, stage);
    if (code != 0) return code;
  }
  return 0;
}

int Runner::read_outputs() noexcept {
  for (const Slot& slot : outputs_.slots) {
    uint64_t written = 0;
    const int code = outrider_get_output(session_, slot.port, answer_.data() + slot.offset,
                                         slot.bytes, &written);
    if (code != 0) return code;
    if (written != slot.bytes) return FRT_ERR_SHAPE;
  }
  return all_finite(outputs_, answer_.data()) ? 0 : FRT_ERR_FAILED;
}

void Runner::note_failure(int64_t tick, int code) noexcept {
  if (totals_.first_failure_tick >= 0) return;
  totals_.first_failure_tick = tick;
  totals_.first_failure_code = code;
  const char* reason = outrider_session_error(session_);
  std::strncpy(first_failure_,
               reason != nullptr && *reason != 0
                   ? reason
                   : "an output that is not finite or has another size",
               sizeof first_failure_ - 1);
}

// ---- who answers ----

bool Runner::claim(int64_t tick) noexcept {
  int64_t seen = decided_.load(std::memory_order_acquire);
  while (seen <= tick)
    if (decided_.compare_exchange_weak(seen, tick + 1, std::memory_order_acq_rel)) return true;
  return false;
}

void Runner::send(int64_t tick, uint16_t origin, uint16_t reason, const void* payload) noexcept {
  outrider_loop_frame frame = {};
  frame.magic = OUTRIDER_LOOP_FRAME_MAGIC;
  frame.bytes = actions_.payload_bytes;
  frame.number = static_cast<uint64_t>(tick);
  frame.time_ns = clock_.now_ns();
  frame.answers = answered_.load(std::memory_order_relaxed);
  frame.origin = origin;
  frame.reason = reason;
  outrider_loop_put(&actions_, &frame, payload);
}

void Runner::send_substitute(int64_t tick, uint16_t reason, std::byte* room) noexcept {
  const int64_t n_misses = n_misses_.fetch_add(1, std::memory_order_relaxed) + 1;
  const bool held = n_misses <= options_.n_hold && good_copy(room);
  (held ? n_held_ : n_safe_).fetch_add(1, std::memory_order_relaxed);
  send(tick, held ? OUTRIDER_LOOP_HELD : OUTRIDER_LOOP_SAFE, reason,
       held ? room : options_.safe.data());
}

void Runner::keep_good() noexcept {
  const uint64_t sequence = good_sequence_.load(std::memory_order_relaxed);
  good_sequence_.store(sequence + 1, std::memory_order_release);
  outrider_loop_store_words(good_.data(), answer_.data(), static_cast<uint32_t>(outputs_.bytes));
  good_sequence_.store(sequence + 2, std::memory_order_release);
}

bool Runner::good_copy(std::byte* to) const noexcept {
  const uint64_t sequence = good_sequence_.load(std::memory_order_acquire);
  if (sequence == 0 || (sequence & 1) != 0) return false;
  outrider_loop_load_words(to, good_.data(), static_cast<uint32_t>(outputs_.bytes));
  return good_sequence_.load(std::memory_order_acquire) == sequence;
}

void Runner::watch() noexcept {
  started_.wait(0);
  // Above the thread it watches, or it could not send while that one computes.
  exact_timers();
  take_priority(options_.priority > 0 ? std::min(options_.priority + 1, 99) : 0);
  touch_stack();
  const int64_t n = options_.n_ticks > 0 ? options_.n_ticks : INT64_MAX;
  for (int64_t tick = 0; tick < n;) {
    wait_until_ns(stopping_, table_.end_ns(tick));
    if (stopping_.load() != 0) return;
    const int64_t now = clock_.now_ns();
    if (now < table_.end_ns(tick)) continue;
    // After a stall one action for the newest of the missed ticks, not one for each.
    const int64_t newest = std::min(table_.first_open(tick, now), n) - 1;
    if (claim(newest)) send_substitute(newest, OUTRIDER_LOOP_LATE, watch_room_.data());
    tick = newest + 1;
  }
}

// ---- what was seen ----

void Runner::record(int64_t tick, int64_t start_ns, int64_t end_ns, uint16_t reason) noexcept {
  const int64_t due = table_.due_ns(tick);
  ++totals_.by_reason[reason];
  totals_.wake.add(start_ns - due);
  totals_.latency.add(end_ns - due);
  totals_.run.add(end_ns - start_ns);
  Sample& s = samples_[static_cast<size_t>(n_recorded_++) % kSamples];
  s.tick = tick;
  s.wake_ns = start_ns - due;
  s.latency_ns = end_ns - due;
  s.reason = reason;
  first_floats(inputs_, observation_.data(), s.in);
  first_floats(outputs_, reason == OUTRIDER_LOOP_OK ? answer_.data() : options_.safe.data(), s.out);
}

std::vector<Sample> Runner::samples() const {
  std::vector<Sample> out;
  const auto n = static_cast<size_t>(n_recorded_);
  for (size_t i = n > kSamples ? n - kSamples : 0; i < n; ++i)
    out.push_back(samples_[i % kSamples]);
  return out;
}

}  // namespace outrider::loop
