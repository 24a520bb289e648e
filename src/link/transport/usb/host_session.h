// The host's end of a session: everything above the transfers of one opened device.
//
// kHostReadSlots reads stay posted; their bytes are handed over in posting order. The device fills
// its messages up to kGridBytes, so a read whose length is no multiple of it means that the stream
// left the grid: the session ends with kBroken and what still comes is dropped until the line was
// quiet, so that the peer's own deadline fires before anybody opens the device again.
//
// A write is copied once and is one transfer (messages above kHostWriteBytes: several). send()
// returns when the copy is made and waits only for a free buffer. A transfer that moved no byte
// for the stall limit ends the session with kReset.
//
// A thread of its own runs the system's event loop in slices of kEventSliceNs: no wait without end.
#pragma once
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "link/transport/usb/host_port.h"
#include "link/transport/usb/limits.h"
#include "link/transport/usb/slot_ring.h"

namespace outrider::link::usb {

struct HostTimers {
  int64_t write_stall_ns = kWriteStallNs;
  int64_t quiet_ns = kQuietNs, drain_limit_ns = kDrainLimitNs;
  int64_t close_ns = kHostCloseNs;
  int64_t power_back_ns = kPowerBackNs;
};

class HostSession {
 public:
  // [setup] `port` is open and its session was opened. Takes all memory, starts the thread.
  HostSession(std::unique_ptr<HostPort> port, std::string serial, const HostTimers& timers);
  ~HostSession();  // finish()

  Moved send(std::span<const Piece> pieces, int64_t deadline_ns) noexcept;
  Moved receive(std::span<std::byte> into, int64_t deadline_ns) noexcept;
  void end(Io io) noexcept;  // the first end wins
  size_t unsent_bytes() noexcept;
  uint64_t n_copied_bytes() const noexcept { return n_copied_bytes_; }

  // True when a byte has come; false at the deadline or when the session ended without one.
  bool wait_first_byte(int64_t until_ns) noexcept;
  bool heard() const noexcept { return heard_.load(std::memory_order_relaxed); }
  // The thread has ended: transfers are back, the device is closed. A broken session takes until
  // the line was quiet.
  bool wait_finished(int64_t until_ns) noexcept;
  // Cuts the quiet time short, ends the session and joins the thread.
  void finish() noexcept;
  const std::string& serial() const noexcept { return serial_; }

 private:
  struct Outgoing {
    std::vector<std::byte> memory;
    size_t bytes = 0, done_bytes = 0;
    bool zero_packet = false;
  };

  void run() noexcept;
  void post_free_reads() noexcept;
  void read_back(const TransferDone& done) noexcept;
  void deliver_in_order() noexcept;
  void write_back(const TransferDone& done) noexcept;
  void start_oldest_write() noexcept;  // with write_mutex_
  void look_at_silence() noexcept;
  void flush_writes() noexcept;
  void drop_until_quiet() noexcept;
  void collect() noexcept;
  Io cause_of(TransferDone::Status status) noexcept;
  void dispatch(int64_t until_ns) noexcept;

  const std::unique_ptr<HostPort> port_;
  const std::string serial_;
  const HostTimers timers_;
  SlotRing ring_;
  std::atomic<Io> end_{Io::kDone};
  std::atomic<bool> heard_{false}, stop_{false};
  std::atomic<uint64_t> n_copied_bytes_{0};

  std::mutex post_mutex_;  // reserving and posting are one step
  uint32_t next_post_ = 0;
  std::vector<std::span<std::byte>> posted_;  // by slot
  // Of the thread alone.
  std::vector<TransferDone> back_;
  std::vector<bool> is_back_;
  uint32_t next_fill_ = 0;
  int64_t last_heard_ns_ = 0;
  bool dropping_ = false, saving_power_ = true;

  std::mutex write_mutex_;
  std::condition_variable write_freed_;
  Outgoing outgoing_[kHostWriteSlots];
  uint64_t n_queued_ = 0, n_written_ = 0;  // slot = count modulo kHostWriteSlots
  bool writing_ = false, failed_writes_ = false;

  std::mutex state_mutex_;
  std::condition_variable state_changed_;
  bool finished_ = false;
  std::thread thread_;
};

// A Transport over it. On destruction it ends the session; a broken one goes on dropping on its
// own thread when somebody else still holds it.
std::unique_ptr<Transport> make_host_stream(std::shared_ptr<HostSession> session,
                                            uint32_t speed_mbit_s);

}  // namespace outrider::link::usb
