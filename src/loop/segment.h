// The two rings of a loop in one block of memory: shared under a name, or this process's own.
#pragma once
#include <string>

#include "base/result.h"
#include "loop/payload.h"
#include "outrider/loop.h"

namespace outrider::loop {

class Segment {
 public:
  static constexpr uint32_t kObservationSlots = 8, kActionSlots = 64;
  struct Times {
    int64_t period_ns = 0, deadline_ns = 0;
  };

  // [setup] name "": private memory. Else POSIX shared memory /name, for this user alone (mode
  // 0600), removed with the object. What a loop that died left under the name is replaced; one that
  // another loop holds, and what no loop made, is refused. Errors: kInvalid (a name of other than
  // letters, digits and ._-, or longer than 200), kNotFound (cannot be made: path and cause),
  // kNoMemory.
  static Result<Segment> make(const std::string& name, const Payload& inputs,
                              const Payload& outputs, const Times& times);
  ~Segment();
  Segment(Segment&& other) noexcept;
  Segment& operator=(Segment&&) = delete;

  const outrider_loop_view& observations() const { return observations_; }
  const outrider_loop_view& actions() const { return actions_; }
  uint64_t bytes() const { return bytes_; }
  // What peers see in the header.
  void set_state(uint32_t state) noexcept;

 private:
  Segment() = default;
  std::string name_;
  int fd_ = -1;
  void* base_ = nullptr;
  uint64_t bytes_ = 0;
  outrider_loop_view observations_ = {}, actions_ = {};
};

}  // namespace outrider::loop
