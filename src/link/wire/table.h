// One table per message. Encoder, decoder, size check, printer, fuzz seeds and the reference page
// are made from it, here and nowhere else.
//
// A message is a struct of fields and a static wire_table() that lists them. Bytes: little endian,
// fixed width, no padding. A text is a u16 length and its bytes. A list is a u16 count and, for
// each record, a u16 length and the record's fields.
//
// Old and new peers. A field has the wire version that brought it; fields are only ever added at
// the end. Who encodes for an older version leaves the newer fields away; who decodes takes the
// fields that are there, leaves absent newer ones at their defaults and skips what it does not
// know, in a message and in every record.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <vector>

#include "base/printable.h"
#include "base/result.h"

namespace outrider::link::wire {

// The newest version this build speaks, and the oldest it still talks to.
inline constexpr uint16_t kVersion = 3;
inline constexpr uint16_t kOldestVersion = 1;

// ---- kinds of fields ---------------------------------------------------------------------------

// Text of at most kMax bytes, without heap.
template <uint16_t kMax>
struct Text {
  static constexpr uint16_t kMaxBytes = kMax;
  uint16_t n_bytes = 0;
  std::array<char, kMax> bytes{};

  std::string_view view() const { return {bytes.data(), n_bytes}; }
  // Cuts what does not fit: texts are for people, names are checked before.
  void assign(std::string_view text) {
    n_bytes = static_cast<uint16_t>(text.size() < kMax ? text.size() : kMax);
    std::memcpy(bytes.data(), text.data(), n_bytes);
  }
  bool operator==(const Text& other) const { return view() == other.view(); }
};

// Text of set-up messages that may be long.
template <uint16_t kMax>
struct LongText {
  static constexpr uint16_t kMaxBytes = kMax;
  std::string text;
  std::string_view view() const { return text; }
  void assign(std::string_view value) { text = value.substr(0, kMax); }
  bool operator==(const LongText&) const = default;
};

// At most kMax records, without heap.
template <class T, uint16_t kMax>
struct FixedList {
  using Record = T;
  static constexpr uint16_t kMaxRecords = kMax;
  uint16_t n = 0;
  std::array<T, kMax> items{};

  std::span<const T> records() const { return {items.data(), n}; }
  T& add() { return items[n++]; }
  void clear() { n = 0; }
  bool operator==(const FixedList& other) const {
    if (n != other.n) return false;
    for (size_t i = 0; i < n; ++i)
      if (!(items[i] == other.items[i])) return false;
    return true;
  }
};

// Lists of set-up messages.
template <class T, uint16_t kMax>
struct List {
  using Record = T;
  static constexpr uint16_t kMaxRecords = kMax;
  std::vector<T> items;

  std::span<const T> records() const { return items; }
  T& add() { return items.emplace_back(); }
  void clear() { items.clear(); }
  bool operator==(const List&) const = default;
};

struct FieldRules {
  uint16_t since = 1;         // wire version that brought the field
  uint64_t max = UINT64_MAX;  // of an unsigned value
};

template <auto kMember>
struct Field {
  const char* name;
  const char* help;
  FieldRules rules;
};
template <auto kMember>
constexpr Field<kMember> field(const char* name, const char* help, FieldRules rules = {}) {
  return {name, help, rules};
}

enum class Sender : uint8_t { kDevice, kHost, kBoth };
// Telemetry never stands in front of a frame: on a connection with a runtime it goes in bounded
// pieces, and only while nothing else is on its way (see link/wire/channel.h).
enum class Priority : uint8_t { kFrame, kControl, kTelemetry };

struct Kind {
  const char* name;
  uint16_t type;
  Sender sender;
  Priority priority;
  uint32_t max_payload_bytes;  // of the raw bytes behind the body; ports narrow it further
  const char* help;
};

template <class... Fields>
struct Table {
  Kind kind;
  std::tuple<Fields...> fields;
};
template <class... Fields>
constexpr Table<Fields...> table(Kind kind, Fields... fields) {
  return {kind, {fields...}};
}
// Of records inside lists, and of the header: no type of their own.
template <class... Fields>
constexpr Table<Fields...> record(Fields... fields) {
  return {{}, {fields...}};
}

// ---- what a field is made of
// ---------------------------------------------------------------------

template <class T>
concept IsText = requires(T t) {
  T::kMaxBytes;
  t.view();
};
template <class T>
concept IsList = requires {
  T::kMaxRecords;
};

template <auto kMember>
struct MemberOf;
template <class M, class T, T M::*kMember>
struct MemberOf<kMember> {
  using Message = M;
  using Type = T;
};
template <auto kMember>
using MemberType = typename MemberOf<kMember>::Type;

template <class M>
constexpr uint32_t max_bytes();

template <class T>
constexpr uint32_t max_field_bytes() {
  if constexpr (IsText<T>)
    return 2u + T::kMaxBytes;
  else if constexpr (IsList<T>)
    return 2u + T::kMaxRecords * (2u + max_bytes<typename T::Record>());
  else
    return sizeof(T);
}

template <auto kMember>
constexpr uint32_t max_field_bytes(const Field<kMember>&) {
  return max_field_bytes<MemberType<kMember>>();
}

// Of the encoded fields of a message or record, all versions known here.
template <class M>
constexpr uint32_t max_bytes() {
  return std::apply([](const auto&... f) { return (uint32_t{0} + ... + max_field_bytes(f)); },
                    M::wire_table().fields);
}

}  // namespace outrider::link::wire
