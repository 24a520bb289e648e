#include "loop/payload.h"

#include <algorithm>
#include <cstring>

namespace outrider::loop {
namespace {

constexpr uint32_t kNDtypes = 6;
constexpr uint64_t kDtypeBytes[kNDtypes] = {1, 4, 2, 2, 4, 8};

// Sizes of a port, an open dimension filled by the wish.
Result<Slot> slot_of(const frt_runtime_port_desc& port, uint32_t index, const PayloadWish& wish) {
  Slot slot{index, port.direction, port.modality, port.dtype, port.name, {}, 0, 0};
  if (port.dtype >= kNDtypes || port.rank > 8)
    return make_error(Code::kUnsupported,
                      "loop: port %.80s has an element type or rank this loop cannot carry",
                      port.name);
  const auto given = wish.sizes.find(port.name);
  uint64_t n = 1;
  bool used = false;
  for (uint32_t d = 0; d < port.rank; ++d) {
    int64_t size = port.shape[d];
    if (size <= 0 && given != wish.sizes.end() && !used) {
      size = given->second;
      used = true;
    }
    if (size <= 0)
      return make_error(
          Code::kInvalid,
          "loop: port %.80s has no fixed size (dimension %u is open); give it with --size "
          "%.80s=N",
          port.name, d, port.name);
    slot.shape.push_back(size);
    if (__builtin_mul_overflow(n, static_cast<uint64_t>(size), &n)) n = UINT64_MAX / 16;
    n = std::min(n, UINT64_MAX / 16);
  }
  slot.bytes = n * kDtypeBytes[port.dtype];
  if (slot.bytes > OUTRIDER_LOOP_MAX_PAYLOAD)
    return make_error(Code::kUnsupported,
                      "loop: port %.80s has %llu bytes, a frame holds at most %u", port.name,
                      static_cast<unsigned long long>(slot.bytes), OUTRIDER_LOOP_MAX_PAYLOAD);
  if (given != wish.sizes.end() && !used)
    return make_error(Code::kInvalid, "loop: --size %.80s: this port has a fixed size", port.name);
  return slot;
}

Result<void> append(Payload& payload, Slot slot) {
  slot.offset = payload.bytes;
  payload.bytes += (slot.bytes + 7) / 8 * 8;
  if (payload.bytes > OUTRIDER_LOOP_MAX_PAYLOAD ||
      payload.slots.size() >= OUTRIDER_LOOP_MAX_PORTS / 2)
    return make_error(Code::kUnsupported,
                      "loop: the ports of a frame have %llu bytes, allowed are %u in %u ports",
                      static_cast<unsigned long long>(payload.bytes), OUTRIDER_LOOP_MAX_PAYLOAD,
                      OUTRIDER_LOOP_MAX_PORTS / 2);
  payload.slots.push_back(std::move(slot));
  return {};
}

Result<void> check_names(outrider_session* session, const PayloadWish& wish) {
  auto check = [&](const std::string& name, const char* flag, int direction) -> Result<void> {
    const int found = outrider_find_port(session, name.c_str());
    const bool fits =
        found >= 0 &&
        (direction < 0 ||
         static_cast<int>(outrider_port(session, static_cast<uint64_t>(found))->direction) ==
             direction);
    if (fits) return {};
    std::string list;
    for (uint64_t i = 0; i < outrider_n_ports(session); ++i) {
      const auto* port = outrider_port(session, i);
      if (direction < 0 || static_cast<int>(port->direction) == direction)
        list += (list.empty() ? "" : ", ") + std::string(port->name);
    }
    return make_error(Code::kInvalid, "loop: %s %.80s: no such port; there are %.200s", flag,
                      name.c_str(), list.c_str());
  };
  for (const std::string& name : wish.inputs) OUTRIDER_TRY(check(name, "--port", FRT_PORT_IN));
  for (const std::string& name : wish.outputs) OUTRIDER_TRY(check(name, "--output", FRT_PORT_OUT));
  for (const auto& [name, size] : wish.sizes) OUTRIDER_TRY(check(name, "--size", -1));
  return {};
}

bool named(const std::vector<std::string>& names, const char* name) {
  return std::ranges::find(names, name) != names.end();
}

// Which outputs a frame carries, the main one first.
std::vector<uint32_t> chosen_outputs(outrider_session* session, const PayloadWish& wish) {
  std::vector<uint32_t> all, actions;
  for (const std::string& name : wish.outputs)
    all.push_back(static_cast<uint32_t>(outrider_find_port(session, name.c_str())));
  if (!all.empty()) return all;
  if (const int found = outrider_find_port(session, "actions");
      found >= 0 && outrider_port(session, static_cast<uint64_t>(found))->direction == FRT_PORT_OUT)
    return {static_cast<uint32_t>(found)};
  for (uint64_t i = 0; i < outrider_n_ports(session); ++i) {
    const auto* port = outrider_port(session, i);
    if (port->direction != FRT_PORT_OUT) continue;
    all.push_back(static_cast<uint32_t>(i));
    if (port->modality == FRT_MODALITY_ACTION) actions.push_back(static_cast<uint32_t>(i));
  }
  if (!actions.empty()) return actions;
  if (all.size() > 1) all.resize(1);
  return all;
}

}  // namespace

Result<Payload> input_payload(outrider_session* session, const PayloadWish& wish) {
  OUTRIDER_TRY(check_names(session, wish));
  Payload payload;
  for (uint64_t i = 0; i < outrider_n_ports(session); ++i) {
    const auto* port = outrider_port(session, i);
    if (port->direction != FRT_PORT_IN || port->modality == FRT_MODALITY_TEXT) continue;
    if (port->required == 0 && !named(wish.inputs, port->name)) continue;
    auto slot = slot_of(*port, static_cast<uint32_t>(i), wish);
    if (!slot) return slot.error();
    const auto& shape = slot.value().shape;
    if (port->modality == FRT_MODALITY_IMAGE &&
        (port->dtype != FRT_DTYPE_U8 || shape.size() < 3 || shape.size() > 4 || shape.back() != 3 ||
         (shape.size() == 4 && shape[0] > 64)))
      return make_error(Code::kUnsupported,
                        "loop: pictures at port %.80s are no RGB bytes of known size", port->name);
    // Its runtime takes views, which hold addresses: bytes from another process are none.
    if (port->modality == FRT_MODALITY_DEPTH)
      return make_error(Code::kUnsupported,
                        "loop: port %.80s takes depth pictures, which the loop does not stage; "
                        "choose a runtime without it",
                        port->name);
    OUTRIDER_TRY(append(payload, std::move(slot.value())));
  }
  payload.bytes = std::max<uint64_t>(payload.bytes, 8);
  return payload;
}

Result<Payload> output_payload(outrider_session* session, const PayloadWish& wish) {
  OUTRIDER_TRY(check_names(session, wish));
  Payload payload;
  for (const uint32_t port : chosen_outputs(session, wish)) {
    auto slot = slot_of(*outrider_port(session, port), port, wish);
    if (!slot) return slot.error();
    OUTRIDER_TRY(append(payload, std::move(slot.value())));
  }
  if (payload.slots.empty())
    return make_error(Code::kUnsupported, "loop: this runtime has no output port");
  payload.bytes = std::max<uint64_t>(payload.bytes, 8);
  return payload;
}

outrider_loop_port port_row(const Slot& slot) {
  outrider_loop_port row = {};
  slot.name.copy(row.name, sizeof row.name - 1);
  row.direction = slot.direction;
  row.modality = slot.modality;
  row.dtype = slot.dtype;
  row.rank = static_cast<uint32_t>(slot.shape.size());
  std::copy(slot.shape.begin(), slot.shape.end(), row.shape);
  row.offset = slot.offset;
  row.bytes = slot.bytes;
  return row;
}

bool all_finite(const Payload& payload, const std::byte* data) noexcept {
  // The exponent's bits all set: infinite or no number.
  for (const Slot& slot : payload.slots) {
    if (!slot.is_f32()) continue;
    uint32_t bad = 0;
    for (uint64_t i = 0; i + 4 <= slot.bytes; i += 4) {
      uint32_t bits;
      std::memcpy(&bits, data + slot.offset + i, sizeof bits);
      bad |= static_cast<uint32_t>((bits & 0x7F800000u) == 0x7F800000u);
    }
    if (bad != 0) return false;
  }
  return true;
}

}  // namespace outrider::loop
