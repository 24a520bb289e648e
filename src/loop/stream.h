// Frames of a stream into the observation ring, and of the action ring into a stream: a thread
// each, so that no tick waits for a pipe.
#pragma once
#include <atomic>
#include <string>
#include <thread>

#include "base/result.h"
#include "outrider/loop.h"

namespace outrider::loop {

class StreamIn {
 public:
  // [setup] Starts reading fd. Frames get new numbers and the time they came. With `taken` the next
  // frame waits until the one before it was taken by a tick; without, newer ones replace it.
  // `ended` becomes true at the end of the stream, when the last frame was taken where that is
  // waited for, or at the first bad frame.
  StreamIn(int fd, const outrider_loop_view& ring, const std::atomic<uint64_t>* taken,
           std::atomic<bool>& ended);
  ~StreamIn();  // at the latest 0.1 s after a read that does not come

  uint64_t n_frames() const { return n_frames_.load(); }
  // After the end: why the stream was refused (kInvalid: frame number, field, value found and
  // allowed; cut in the middle), or fine.
  Result<void> outcome() const { return outcome_; }
  void stop();

 private:
  void read_all();
  Result<bool> read_frame(unsigned char* room);
  Result<size_t> read_bytes(unsigned char* to, size_t n);

  int fd_;
  outrider_loop_view ring_;
  const std::atomic<uint64_t>* taken_;
  std::atomic<bool>& ended_;
  std::atomic<bool> stopping_{false};
  std::atomic<uint64_t> n_frames_{0};
  Result<void> outcome_;
  std::thread thread_;
};

// Is this what may come as an observation of this size? Errors: kInvalid naming frame, field,
// value.
Result<void> check_frame(const outrider_loop_frame& frame, uint32_t payload_bytes, uint64_t index);

class StreamOut {
 public:
  // [setup] Starts writing to fd. `stop` becomes true when it takes no more.
  StreamOut(int fd, const outrider_loop_view& ring, std::atomic<bool>& stop);
  ~StreamOut();
  // Waits until every frame is written, at most a second.
  void drain();
  uint64_t n_frames() const { return n_frames_.load(); }
  uint64_t n_lost() const { return n_lost_.load(); }  // the reader was too slow for them
  bool is_broken() const { return broken_.load(); }
  int error_number() const { return error_.load(); }  // why; EPIPE: the reader is gone

 private:
  void write_all();
  bool write_bytes(const unsigned char* from, size_t n);

  int fd_;
  outrider_loop_view ring_;
  std::atomic<bool>& stop_;
  std::atomic<bool> broken_{false}, stopping_{false};
  std::atomic<int> error_{0};
  std::atomic<uint64_t> n_frames_{0}, n_lost_{0}, next_{0};
  std::thread thread_;
};

}  // namespace outrider::loop
