// One step of the machine, at work on a copy of the state. Private to machine.cpp (a tick: who
// answers it) and guest.cpp (authority, and the lead while it does not have it).
#pragma once
#include <algorithm>

#include "tandem/machine.h"

namespace outrider::tandem {

class Stepper {
 public:
  Stepper(const Limits& limits, const State& state, int64_t now_ns) : l_(limits), s_(state) {
    s_.now_ns = std::max(s_.now_ns, now_ns);
  }
  Step take(const Event& event) noexcept;

 private:
  bool lead_leads() const { return s_.leader == Leader::kLead; }
  bool question_open() const { return s_.asked_tick > s_.answered_tick; }
  void act(uint32_t bits) { a_.bits |= bits; }

  // A tick begins.
  void tick(const Event& e);
  void note_drops(int64_t dropped);
  Reason doubt() const;
  bool overdue() const;
  bool suspicious(int64_t led_ticks) const;
  int64_t hold_point_ns() const { return s_.start_ns + l_.hold_ns; }
  // The last moment at which the standby still answers this tick by the hold point.
  int64_t doubt_point_ns() const { return hold_point_ns() - s_.standby_ns; }
  void wait();
  void ask();
  void serve();

  // It ends.
  void end(uint32_t how);
  void answer(const Event& e);
  void drop(int64_t& count);
  void point();
  void hold();
  bool window_is_full() const;
  void standby(const Event& e);

  // Authority.
  bool may_take_over() const;
  void change(Leader leader, Reason reason);
  void take_over();
  void hand_back(Reason reason);
  void lose(Reason reason);

  // The lead as a guest.
  void guest_work();
  void forget_lead();
  void close_lead();
  void fail(Reason reason);
  int64_t backoff_ns() const;
  void retry();
  void make_ready();
  void joined(const Event& e);
  void failed(const Event& e);
  void shadow(const Event& e);
  void pong(const Event& e);
  void replugged();
  void retire(Reason reason);
  void mismatch(const Event& e);
  void stop();

  const Limits& l_;
  State s_;
  Actions a_;
};

}  // namespace outrider::tandem
