#include "link/wire/messages.h"

namespace outrider::link::wire {
namespace {

constexpr uint16_t kMaxType = 64;

template <class M>
constexpr MessageInfo info_of() {
  static_assert(max_bytes<M>() <= kMaxBodyBytes);
  static_assert(type_of<M>() < kMaxType);
  return {M::wire_table().kind, max_bytes<M>()};
}

constexpr std::array<MessageInfo, kMaxType> make_infos() {
  std::array<MessageInfo, kMaxType> infos{};
  [&]<class... M>(std::tuple<M...>*) {
    ((infos[type_of<M>()] = info_of<M>()), ...);
  }(static_cast<Messages*>(nullptr));
  return infos;
}
constexpr std::array<MessageInfo, kMaxType> kInfos = make_infos();

constexpr bool types_are_distinct() {
  size_t n = 0;
  for (const MessageInfo& info : kInfos) n += info.kind.name != nullptr;
  return n == std::tuple_size_v<Messages>;
}
static_assert(types_are_distinct());

}  // namespace

const char* cause_name(Cause cause) {
  static constexpr const char* kNames[] = {"none",      "cable gone", "host gone",
                                           "host busy", "protocol",   "deadline",
                                           "corrupted", "security",   "stopped"};
  const auto i = static_cast<size_t>(cause);
  return i <= kLastCause ? kNames[i] : "unknown";
}

const MessageInfo* message_info(uint16_t type) noexcept {
  return type < kMaxType && kInfos[type].kind.name != nullptr ? &kInfos[type] : nullptr;
}

std::string print_body(uint16_t type, std::span<const std::byte> body) {
  std::string line = "type " + std::to_string(type) + ": not known here";
  for_each_message([&]<class M>() {
    if (type_of<M>() != type) return;
    M message;
    auto read = decode(body, message);
    line = read ? print(message) : std::string(read.error().text);
  });
  return line;
}

}  // namespace outrider::link::wire
