#include "tandem/answer.h"

#include <algorithm>
#include <bit>
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

double half(uint16_t bits) noexcept {
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  double size = std::numeric_limits<double>::quiet_NaN();  // an infinity is no number here
  if (exponent == 0) size = std::ldexp(fraction, -24);
  if (exponent > 0 && exponent < 31) size = std::ldexp(1024 + fraction, exponent - 25);
  return bits >> 15 != 0 ? -size : size;
}

double number(uint32_t dtype, const std::byte* at) noexcept {
  const auto read = [at](auto value) {
    std::memcpy(&value, at, sizeof value);
    return value;
  };
  switch (dtype) {
    case FRT_DTYPE_F32:
      return read(float{});
    case FRT_DTYPE_F16:
      return half(read(uint16_t{}));
    case FRT_DTYPE_BF16:
      return std::bit_cast<float>(static_cast<uint32_t>(read(uint16_t{})) << 16);
    case FRT_DTYPE_I32:
      return read(int32_t{});
    case FRT_DTYPE_I64:
      return static_cast<double>(read(int64_t{}));
    default:
      return read(uint8_t{});
  }
}

// The largest difference of two values; infinity where one is no number.
double distance(uint32_t dtype, std::span<const std::byte> a,
                std::span<const std::byte> b) noexcept {
  const size_t step = dtype == FRT_DTYPE_U8                                ? 1
                      : dtype == FRT_DTYPE_F16 || dtype == FRT_DTYPE_BF16 ? 2
                      : dtype == FRT_DTYPE_I64                             ? 8
                                                                           : 4;
  double worst = 0;
  for (size_t at = 0; at + step <= a.size(); at += step) {
    const double d = std::fabs(number(dtype, a.data() + at) - number(dtype, b.data() + at));
    if (!(d <= worst)) worst = std::isnan(d) ? std::numeric_limits<double>::infinity() : d;
  }
  return worst;
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
  constexpr double kNone = std::numeric_limits<double>::infinity();
  double worst = 0;
  bool any = false;
  for (size_t i = 0; i < ports.size(); ++i) {
    const Output &x = a.outputs[i], &y = b.outputs[i];
    if (x.code != FRT_OK && y.code != FRT_OK) continue;
    if (x.code != y.code || x.bytes != y.bytes || x.bytes == 0) return kNone;
    const double d = distance(ports[i].dtype, std::span<const std::byte>(x.room).first(x.bytes),
                              std::span<const std::byte>(y.room).first(y.bytes));
    any = true;
    worst = std::max(worst, d);
  }
  return any ? worst : kNone;
}

}  // namespace outrider::tandem
