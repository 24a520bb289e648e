#include "tandem/worker.h"

#include <pthread.h>

#include <chrono>

#include "host/foreign.h"
#include "tandem/history.h"

namespace outrider::tandem {
namespace {

constexpr int64_t kIdleNs = 1000000000;  // nothing to do: look again after this
constexpr auto kPause = std::chrono::milliseconds(1);

// nullptr when the runtime offers none: a shadow answer has to show that it lives.
const outrider_liveness_v1* liveness_of(const host::SessionCore& session) noexcept {
  const auto* table =
      static_cast<const outrider_liveness_v1*>(extension_of(session, OUTRIDER_EXT_LIVENESS, 1));
  const bool usable = table != nullptr && table->struct_size >= sizeof(outrider_liveness_v1) &&
                      table->alive != nullptr;
  return usable ? table : nullptr;
}

}  // namespace

Worker::Worker(Parts parts, Arena& arena) : parts_(std::move(parts)) {
  for (uint32_t i = 0; i < kAnswers; ++i) answers_.push_back(take_answer(*parts_.ports, arena));
  scratch_ = answers_.back();  // the last one is never handed out
  answers_.pop_back();
  answers_free_ = kAnswers - 1;
  thread_ = std::thread([this] { run(); });
  pthread_setname_np(thread_.native_handle(), "outrider-tandem");
}

Worker::~Worker() {
  stop_ = true;
  job_signal_.raise();
  thread_.join();
}

// ---- caller's thread ----------------------------------------------------------------------------

void Worker::post(const Job& job) noexcept {
  jobs_.put(job);
  job_signal_.raise();
}

void Worker::pop() noexcept {
  const bool answered = reports_.front()->answer != nullptr;
  reports_.pop();
  if (answered) answers_free_.fetch_add(1, std::memory_order_release);
}

void Worker::wait_until(int64_t at_ns) noexcept {
  while (parts_.clock->now_ns() < at_ns) {
    const uint32_t seen = report_signal_.now();
    if (reports_.front() != nullptr) return;
    report_signal_.wait(seen, at_ns);
  }
}

// ---- control thread -----------------------------------------------------------------------------

void Worker::run() {
  while (!stop_) {
    const uint32_t seen = job_signal_.now();
    Job job;
    if (jobs_.take(job))
      work(job);
    else
      job_signal_.wait(seen, parts_.clock->now_ns() + kIdleNs);
  }
  lead_.reset();
}

void Worker::work(const Job& job) {
  switch (job.kind) {
    case JobKind::kNone:
      return;
    case JobKind::kConnect:
      return connect(job);
    case JobKind::kClose:
      return close_lead();
    case JobKind::kAsk:
      return ask(job);
    case JobKind::kFollow:
    case JobKind::kShadow:
      return follow(job);
    case JobKind::kPing:
      return liveness_ != nullptr ? ping(job) : follow(job);
  }
}

Event Worker::event_of(const Job& job, EventKind kind) const {
  Event event;
  event.kind = kind;
  event.tick = job.tick;
  event.epoch = job.epoch;
  event.link = job.link;
  return event;
}

// The caller empties the queue at every tick; one that ticks no more must not keep us.
void Worker::report(const Event& event, const Answer* answer) {
  Report* slot = nullptr;
  while ((slot = reports_.back()) == nullptr) {
    if (stop_) return;
    std::this_thread::sleep_for(kPause);
  }
  *slot = {event, answer, parts_.clock->now_ns()};
  reports_.push();
  report_signal_.raise();
}

Answer* Worker::free_answer() {
  while (answers_free_.load(std::memory_order_acquire) == 0) {
    if (stop_) return nullptr;
    std::this_thread::sleep_for(kPause);
  }
  return &answers_[n_answers_ % answers_.size()];
}

void Worker::note_failure(const Error& error) {
  const std::scoped_lock lock(words_mutex_);
  failure_ = error;
}

Error Worker::last_failure() const {
  const std::scoped_lock lock(words_mutex_);
  return failure_;
}

std::string Worker::lead_identity() const {
  const std::scoped_lock lock(words_mutex_);
  return identity_;
}

void Worker::close_lead() {
  lead_.reset();
  history_ = {};
  liveness_ = nullptr;
  fed_tick_ = -1;
}

void Worker::connect(const Job& job) {
  close_lead();
  auto opened = [&]() -> Result<std::unique_ptr<host::SessionCore>> {
    try {
      return parts_.open();
    } catch (...) {
      return make_error(Code::kNoMemory, "lead: out of memory");
    }
  }();
  if (!opened) {
    note_failure(opened.error());
    return report(event_of(job, EventKind::kFailed), nullptr);
  }
  lead_ = std::move(opened.value());
  const std::string differences = port_differences(*parts_.standby, lead_->runtime());
  if (!differences.empty()) {
    note_failure(
        make_error(Code::kShape, "ports of standby and lead differ: %s", differences.c_str()));
    return report(event_of(job, EventKind::kMismatch), nullptr);
  }
  in_ = lead_indices(parts_.ports->in, FRT_PORT_IN, lead_->runtime());
  out_ = lead_indices(parts_.ports->out, FRT_PORT_OUT, lead_->runtime());
  auto history = History::of(*lead_);
  if (!history) {
    note_failure(make_error(history.error().code, "lead: %s", history.error().text));
    return report(event_of(job, EventKind::kFailed), nullptr);
  }
  history_ = history.value();
  liveness_ = liveness_of(*lead_);
  {
    const std::scoped_lock lock(words_mutex_);
    identity_ = lead_->runtime().exp->identity;
  }
  report(event_of(job, EventKind::kJoined), nullptr);
}

Worker::Ran Worker::feed(int64_t tick, Answer& out) {
  InputRing::Slot* slot = parts_.ring->borrow(tick);
  if (slot == nullptr) return Ran::kGone;
  const int64_t begin_ns = parts_.clock->now_ns();
  int code = FRT_OK;
  for (size_t i = 0; i < slot->inputs.size() && code == FRT_OK; ++i) {
    const InputRing::Payload& payload = slot->inputs[i];
    if (payload.version != 0) code = lead_->set_input(in_[i], payload.given(), payload.bytes);
  }
  if (code == FRT_OK) code = history_.tick(*lead_);
  if (code != FRT_OK) note_failure(make_error(static_cast<Code>(code), "lead: %s", lead_->error()));
  bool sound = false;
  agreement_ = Agreement::kNotCompared;
  if (code == FRT_OK) {
    sound = read_answer(*lead_, parts_.ports->out, out_, out);
    fed_ns_ = parts_.clock->now_ns() - begin_ns;
    if (sound && parts_.agree_wait_ns > 0) agreement_ = compare(*slot, out);
  }
  parts_.ring->give_back(slot);
  if (code != FRT_OK) return Ran::kFailed;
  if (!sound)
    note_failure(make_error(Code::kFailed,
                            "lead: tick %lld: an output is missing, has another size or is not "
                            "finite",
                            static_cast<long long>(tick)));
  fed_tick_ = tick;
  return sound ? Ran::kSound : Ran::kUnsound;
}

void Worker::ask(const Job& job) {
  if (lead_ == nullptr) return;  // closed since
  Answer* answer = free_answer();
  if (answer == nullptr) return;
  const int64_t wait_ns = std::exchange(parts_.agree_wait_ns, 0);
  const Ran ran = feed(job.tick, *answer);
  parts_.agree_wait_ns = wait_ns;
  if (ran == Ran::kGone) return;
  if (ran == Ran::kFailed) return report(event_of(job, EventKind::kFailed), nullptr);
  Event event = event_of(job, EventKind::kAnswer);
  event.sound = ran == Ran::kSound;
  ++n_answers_;
  answers_free_.fetch_sub(1, std::memory_order_relaxed);
  report(event, answer);
}

// What the lead knows of its far end already; nothing is sent.
void Worker::ping(const Job& job) {
  Event event = event_of(job, EventKind::kPong);
  event.sound =
      host::call_foreign([&] { return liveness_->alive(liveness_->self) == 1 ? 0 : -1; }).ok();
  if (!event.sound) note_failure(make_error(Code::kDevice, "lead: its far end is gone"));
  report(event, nullptr);
}

// The published answer of that tick comes at the end of it; wait for it, not for ever.
Agreement Worker::compare(InputRing::Slot& slot, const Answer& answer) {
  const int64_t tick = slot.tick.load(std::memory_order_relaxed);
  const int64_t until_ns = parts_.clock->now_ns() + parts_.agree_wait_ns;
  while (slot.answered.load(std::memory_order_acquire) != tick) {
    if (stop_ || parts_.clock->now_ns() >= until_ns) return Agreement::kNotCompared;
    std::this_thread::sleep_for(kPause);
  }
  return answer_distance(parts_.ports->out, slot.answer, answer) <= parts_.agree_distance
             ? Agreement::kWithin
             : Agreement::kBeyond;
}

void Worker::follow(const Job& job) {
  if (lead_ == nullptr) return;
  int64_t from = job.tick;
  bool whole = false;
  if (job.kind == JobKind::kFollow) {
    whole = true;
    from = fed_tick_ + 1;
    const int64_t oldest = std::max<int64_t>(1, job.tick - parts_.ring->n_ticks() + 1);
    if (fed_tick_ < 0 || from < oldest) {  // a gap: from the start again, with all that is kept
      if (history_.reset(*lead_) != FRT_OK) {
        note_failure(make_error(Code::kFailed, "lead: its history cannot be reset"));
        return report(event_of(job, EventKind::kFailed), nullptr);
      }
      from = oldest;
    }
    if (from > job.tick) from = job.tick;
  }
  Event event = event_of(job, EventKind::kShadow);
  event.agreement = Agreement::kNotCompared;
  for (int64_t tick = from; tick <= job.tick && !stop_; ++tick) {
    const Ran ran = feed(tick, scratch_);
    if (ran == Ran::kFailed) return report(event_of(job, EventKind::kFailed), nullptr);
    if (ran == Ran::kGone) {
      whole = false;
      continue;
    }
    event.sound &= ran == Ran::kSound;
    event.took_ns = fed_ns_;
    if (agreement_ == Agreement::kBeyond || event.agreement == Agreement::kNotCompared)
      event.agreement = agreement_;
  }
  if (job.kind != JobKind::kFollow || !whole) fed_tick_ = -1;  // there is a gap before it
  event.caught_up = whole;
  report(event, nullptr);
}

}  // namespace outrider::tandem
