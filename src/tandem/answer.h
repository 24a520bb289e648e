// The outputs of one run, copied: what is published, held, compared and handed between threads.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "base/arena.h"
#include "host/session_core.h"
#include "tandem/ports.h"

namespace outrider::tandem {

struct Output {
  int code = FRT_ERR_NOT_READY;
  uint64_t bytes = 0;
  std::span<std::byte> room;
};

struct Answer {
  std::vector<Output> outputs;  // one for each of Ports::out
};

// [setup] What one answer takes, and its room from the arena.
uint64_t answer_bytes(const Ports& ports);
Answer take_answer(const Ports& ports, Arena& arena);

// [hot] Reads every output of a runtime that has just run; `indices` are its port numbers. True
// when the answer is sound: every output is there or not ready, at least one is there, sizes are
// those of the port, and no floating point value is a NaN or an infinity.
bool read_answer(host::SessionCore& session, std::span<const Port> ports,
                 std::span<const uint32_t> indices, Answer& out) noexcept;

// [hot] Bytes and codes; both were taken from the same ports.
void copy_answer(const Answer& from, Answer& to) noexcept;

// [hot] Largest absolute difference of the outputs that both have, whatever their type; infinity when
// one of them lacks an output, when the sizes differ, and when nothing could be compared.
double answer_distance(std::span<const Port> ports, const Answer& a, const Answer& b) noexcept;

}  // namespace outrider::tandem
