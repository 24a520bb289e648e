#include "tandem/answer.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace outrider::tandem {
namespace {

// The exponent bits of a NaN or an infinity are all ones.
template <class Word, Word kExponent>
bool finite_words(std::span<const std::byte> bytes) noexcept {
  bool finite = true;
  for (size_t at = 0; at + sizeof(Word) <= bytes.size(); at += sizeof(Word)) {
    Word word;
    std::memcpy(&word, bytes.data() + at, sizeof word);
    finite &= (word & kExponent) != kExponent;
  }
  return finite;
}

bool finite(uint32_t dtype, std::span<const std::byte> bytes) noexcept {
  switch (dtype) {
    case FRT_DTYPE_F32:
      return finite_words<uint32_t, 0x7F800000u>(bytes);
    case FRT_DTYPE_F16:
      return finite_words<uint16_t, 0x7C00u>(bytes);
    case FRT_DTYPE_BF16:
      return finite_words<uint16_t, 0x7F80u>(bytes);
    default:
      return true;
  }
}

bool read_output(host::SessionCore& session, const Port& port, uint32_t index,
                 Output& out) noexcept {
  out.bytes = 0;
  out.code = session.get_output(index, out.room.data(), out.room.size(), &out.bytes);
  if (out.code == FRT_ERR_NOT_READY) return true;
  if (out.code != FRT_OK) return false;
  if (port.fixed && out.bytes != port.bytes) return false;
  return finite(port.dtype, std::span<const std::byte>(out.room).first(out.bytes));
}

}  // namespace

uint64_t answer_bytes(const Ports& ports) {
  uint64_t bytes = 0;
  for (const Port& port : ports.out) bytes += Arena::cost<std::byte>(port.bytes);
  return bytes;
}

Answer take_answer(const Ports& ports, Arena& arena) {
  Answer answer;
  for (const Port& port : ports.out)
    answer.outputs.push_back({FRT_ERR_NOT_READY, 0, arena.take<std::byte>(port.bytes)});
  return answer;
}

bool read_answer(host::SessionCore& session, std::span<const Port> ports,
                 std::span<const uint32_t> indices, Answer& out) noexcept {
  bool sound = true, any = false;
  for (size_t i = 0; i < ports.size(); ++i) {
    sound &= read_output(session, ports[i], indices[i], out.outputs[i]);
    any |= out.outputs[i].code == FRT_OK;
  }
  return sound && any;
}

void copy_answer(const Answer& from, Answer& to) noexcept {
  for (size_t i = 0; i < from.outputs.size(); ++i) {
    const Output& source = from.outputs[i];
    Output& target = to.outputs[i];
    target.code = source.code;
    target.bytes = source.bytes;
    if (source.bytes > 0) std::memcpy(target.room.data(), source.room.data(), source.bytes);
  }
}

double answer_distance(std::span<const Port> ports, const Answer& a, const Answer& b) noexcept {
  double worst = 0;
  for (size_t i = 0; i < ports.size(); ++i) {
    if (ports[i].dtype != FRT_DTYPE_F32) continue;
    const Output &x = a.outputs[i], &y = b.outputs[i];
    if (x.code != FRT_OK && y.code != FRT_OK) continue;
    if (x.code != y.code || x.bytes != y.bytes) return std::numeric_limits<double>::infinity();
    for (uint64_t at = 0; at + sizeof(float) <= x.bytes; at += sizeof(float)) {
      float p, q;
      std::memcpy(&p, x.room.data() + at, sizeof p);
      std::memcpy(&q, y.room.data() + at, sizeof q);
      const double d = std::fabs(static_cast<double>(p) - static_cast<double>(q));
      if (!(d <= worst)) worst = std::isnan(d) ? std::numeric_limits<double>::infinity() : d;
    }
  }
  return worst;
}

}  // namespace outrider::tandem
