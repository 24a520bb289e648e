#include "tandem/worker.h"

#include <pthread.h>

#include <chrono>

#include "base/helper_thread.h"

namespace outrider::tandem {
namespace {

constexpr int64_t kIdleNs = 1000000000;  // nothing to do: look again after this
constexpr auto kPause = std::chrono::milliseconds(1);

}  // namespace

Worker::Worker(Parts parts, Arena& arena)
    : clock_(parts.clock), between_(parts.between), driver_(std::move(parts), *this, arena) {
  for (uint32_t i = 0; i < kAnswers; ++i) answers_.push_back(take_answer(*driver_.ports(), arena));
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
  while (clock_->now_ns() < at_ns) {
    const uint32_t seen = report_signal_.now();
    if (reports_.front() != nullptr) return;
    report_signal_.wait(seen, at_ns);
  }
}

// ---- control thread -----------------------------------------------------------------------------

void Worker::run() {
  become_helper_thread();
  while (!stop_) {
    const uint32_t seen = job_signal_.now();
    Job job;
    if (jobs_.take(job))
      driver_.work(job);
    else
      job_signal_.wait(seen, clock_->now_ns() + kIdleNs);
    if (between_) between_();
  }
  driver_.close();
}

void Worker::pause() {
  std::this_thread::sleep_for(kPause);
}

// The caller empties the queue at every tick; one that ticks no more must not keep us.
void Worker::report(const Event& event, const Answer* answer) {
  Report* slot = nullptr;
  while ((slot = reports_.back()) == nullptr) {
    if (stop_) return;
    pause();
  }
  if (answer != nullptr) {
    ++n_answers_;
    answers_free_.fetch_sub(1, std::memory_order_relaxed);
  }
  *slot = {event, answer, clock_->now_ns()};
  reports_.push();
  report_signal_.raise();
}

Answer* Worker::free_answer() {
  while (answers_free_.load(std::memory_order_acquire) == 0) {
    if (stop_) return nullptr;
    pause();
  }
  return &answers_[n_answers_ % answers_.size()];
}

}  // namespace outrider::tandem
