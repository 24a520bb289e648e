// What is done with a wire table: encode, decode, print, describe, make samples.
#pragma once
#include "base/assert.h"
#include "base/rng.h"
#include "link/wire/table.h"

namespace outrider::link::wire {

// ---- encoding ----------------------------------------------------------------------------------

// Writes into storage that is large enough: sizes are bounded, so this is our own affair.
class Writer {
 public:
  explicit Writer(std::span<std::byte> out) : out_(out) {}
  size_t size() const { return at_; }
  void put(const void* data, size_t n) {
    OUTRIDER_ASSERT(n <= out_.size() - at_);
    if (n > 0) std::memcpy(out_.data() + at_, data, n);
    at_ += n;
  }
  template <class T>
  void integer(T value) {
    put(&value, sizeof value);
  }
  // Room for a u16 that is known later.
  size_t reserve16() {
    integer(uint16_t{0});
    return at_ - 2;
  }
  void set16(size_t at, size_t value) {
    OUTRIDER_ASSERT(value <= UINT16_MAX);
    const auto word = static_cast<uint16_t>(value);
    std::memcpy(out_.data() + at, &word, sizeof word);
  }

 private:
  std::span<std::byte> out_;
  size_t at_ = 0;
};

template <class M>
void encode_fields(const M& message, Writer& to, uint16_t version);

template <class T>
void encode_value(const T& value, Writer& to, uint16_t version) {
  if constexpr (IsText<T>) {
    const std::string_view text = value.view();
    OUTRIDER_ASSERT(text.size() <= T::kMaxBytes);
    to.integer(static_cast<uint16_t>(text.size()));
    to.put(text.data(), text.size());
  } else if constexpr (IsList<T>) {
    static_assert(max_bytes<typename T::Record>() <= UINT16_MAX);
    const auto records = value.records();
    OUTRIDER_ASSERT(records.size() <= T::kMaxRecords);
    to.integer(static_cast<uint16_t>(records.size()));
    for (const auto& item : records) {
      const size_t length_at = to.reserve16(), begin = to.size();
      encode_fields(item, to, version);
      to.set16(length_at, to.size() - begin);
    }
  } else {
    static_assert(std::is_integral_v<T>);
    to.integer(value);
  }
}

template <class M>
void encode_fields(const M& message, Writer& to, uint16_t version) {
  const auto one = [&]<auto kMember>(const Field<kMember>& f) {
    if (f.rules.since <= version) encode_value(message.*kMember, to, version);
  };
  std::apply([&](const auto&... f) { (one(f), ...); }, M::wire_table().fields);
}

// [hot] (without heap for messages of fixed parts) Returns the bytes written. `out` must hold
// max_bytes<M>(), or what the message at hand needs. Pre: texts and lists keep their limits.
template <class M>
size_t encode(const M& message, std::span<std::byte> out, uint16_t version = kVersion) {
  Writer to(out);
  encode_fields(message, to, version);
  return to.size();
}

// ---- decoding ----------------------------------------------------------------------------------

class Reader {
 public:
  explicit Reader(std::span<const std::byte> in) : in_(in) {}
  size_t left() const { return in_.size(); }
  const std::byte* take(size_t n) {
    if (n > in_.size()) return nullptr;
    const std::byte* at = in_.data();
    in_ = in_.subspan(n);
    return at;
  }
  template <class T>
  bool integer(T& value) {
    const std::byte* at = take(sizeof value);
    if (at != nullptr) std::memcpy(&value, at, sizeof value);
    return at != nullptr;
  }

 private:
  std::span<const std::byte> in_;
};

// Why a body was refused: which field and how.
struct Refusal {
  const char* field = nullptr;
  const char* why = nullptr;  // nullptr: not refused
  uint64_t found = 0, allowed = 0;
};

template <class M>
bool decode_fields(Reader& from, M& message, Refusal& refusal);

template <class T>
bool decode_value(Reader& from, T& value, const FieldRules& rules, Refusal& refusal) {
  if constexpr (IsText<T>) {
    uint16_t n = 0;
    if (!from.integer(n)) return false;
    if (n > T::kMaxBytes) return refusal = {nullptr, "text bytes", n, T::kMaxBytes}, false;
    const std::byte* bytes = from.take(n);
    if (bytes == nullptr) return false;
    value.assign({reinterpret_cast<const char*>(bytes), n});
  } else if constexpr (IsList<T>) {
    uint16_t n = 0;
    if (!from.integer(n)) return false;
    if (n > T::kMaxRecords) return refusal = {nullptr, "records", n, T::kMaxRecords}, false;
    value.clear();
    // A record is at least its own length: a count that the bytes cannot carry ends here.
    if (from.left() / 2 < n) return false;
    for (uint16_t i = 0; i < n; ++i) {
      uint16_t length = 0;
      if (!from.integer(length)) return false;
      const std::byte* bytes = from.take(length);
      if (bytes == nullptr) return false;
      Reader inner({bytes, length});
      if (!decode_fields(inner, value.add(), refusal)) return false;
    }
  } else {
    if (!from.integer(value)) return false;
    if constexpr (std::is_unsigned_v<T>)
      if (value > rules.max) return refusal = {nullptr, "value", value, rules.max}, false;
  }
  return true;
}

template <class M>
bool decode_fields(Reader& from, M& message, Refusal& refusal) {
  const auto one = [&]<auto kMember>(const Field<kMember>& f) {
    if (f.rules.since > 1 && from.left() == 0) return true;  // an older peer: the default stays
    if (decode_value(from, message.*kMember, f.rules, refusal)) return true;
    if (refusal.why == nullptr) refusal = {nullptr, "bytes", from.left(), 0};
    if (refusal.field == nullptr) refusal.field = f.name;
    return false;
  };
  return std::apply([&](const auto&... f) { return (one(f) && ...); }, M::wire_table().fields);
}

// [hot] (as encode) Reads a body. Bytes behind the last field that is known belong to a newer peer
// and are skipped. Errors: kInvalid, with message, field, value found and value allowed. `message`
// is then partly written.
template <class M>
Result<void> decode(std::span<const std::byte> body, M& message) {
  Reader from(body);
  Refusal refusal;
  if (decode_fields(from, message, refusal)) return {};
  const char* name = M::wire_table().kind.name;
  if (std::strcmp(refusal.why, "bytes") == 0)
    return make_error(Code::kInvalid, "link: %s ends inside field %s: %zu bytes, cut off", name,
                      refusal.field, body.size());
  return make_error(Code::kInvalid, "link: %s.%s: %llu %s, at most %llu are allowed", name,
                    refusal.field, static_cast<unsigned long long>(refusal.found), refusal.why,
                    static_cast<unsigned long long>(refusal.allowed));
}

// ---- printing ----------------------------------------------------------------------------------

template <class M>
std::string print_fields(const M& message);

template <class T>
std::string print_value(const T& value) {
  if constexpr (IsText<T>) {
    return "\"" + printable(value.view()) + "\"";
  } else if constexpr (IsList<T>) {
    std::string out = "[";
    for (const auto& item : value.records())
      out += (out.size() > 1 ? ", {" : "{") + print_fields(item) + "}";
    return out + "]";
  } else {
    return std::to_string(value);
  }
}

template <class M>
std::string print_fields(const M& message) {
  std::string out;
  const auto one = [&]<auto kMember>(const Field<kMember>& f) {
    out += (out.empty() ? "" : " ") + std::string(f.name) + "=" + print_value(message.*kMember);
  };
  std::apply([&](const auto&... f) { (one(f), ...); }, M::wire_table().fields);
  return out;
}

// [setup] One line: "RUN stage=0 budget_ns=200000000 ...".
template <class M>
std::string print(const M& message) {
  return std::string(M::wire_table().kind.name) + " " + print_fields(message);
}

// ---- describing --------------------------------------------------------------------------------

struct FieldRow {
  std::string name, type, help;
  uint16_t since = 1;
  std::vector<FieldRow> record;  // of a list
};

template <class M>
std::vector<FieldRow> field_rows();

template <class T>
std::string type_text(const FieldRules& rules) {
  if constexpr (IsText<T>) {
    return "text, at most " + std::to_string(T::kMaxBytes) + " bytes";
  } else if constexpr (IsList<T>) {
    return "list, at most " + std::to_string(T::kMaxRecords) + " records";
  } else {
    std::string name = (std::is_signed_v<T> ? "i" : "u") + std::to_string(8 * sizeof(T));
    return rules.max < std::numeric_limits<std::make_unsigned_t<T>>::max()
               ? name + ", at most " + std::to_string(rules.max)
               : name;
  }
}

template <class M>
std::vector<FieldRow> field_rows() {
  std::vector<FieldRow> rows;
  const auto one = [&]<auto kMember>(const Field<kMember>& f) {
    using T = MemberType<kMember>;
    FieldRow row{f.name, type_text<T>(f.rules), f.help, f.rules.since, {}};
    if constexpr (IsList<T>) row.record = field_rows<typename T::Record>();
    rows.push_back(std::move(row));
  };
  std::apply([&](const auto&... f) { (one(f), ...); }, M::wire_table().fields);
  return rows;
}

// ---- samples: fuzz seeds and round trips
// ---------------------------------------------------------

// Draws values one after the other.
class Draw {
 public:
  explicit Draw(uint64_t seed) : stream_(seed) {}
  uint64_t bits() { return stream_.bits(i_++); }
  uint64_t below(uint64_t n) { return n == 0 ? 0 : bits() % n; }

 private:
  UniformStream stream_;
  uint64_t i_ = 0;
};

template <class M>
void draw_fields(M& message, Draw& draw);

template <class T>
void draw_value(T& value, const FieldRules& rules, Draw& draw) {
  if constexpr (IsText<T>) {
    std::string text(
        draw.below(4) == 0 ? T::kMaxBytes : draw.below(T::kMaxBytes < 20 ? T::kMaxBytes : 20), 'a');
    for (char& c : text) c = static_cast<char>('a' + draw.below(26));
    value.assign(text);
  } else if constexpr (IsList<T>) {
    value.clear();
    const uint64_t n = draw.below(T::kMaxRecords < 4 ? T::kMaxRecords + 1u : 4u);
    for (uint64_t i = 0; i < n; ++i) draw_fields(value.add(), draw);
  } else {
    const uint64_t bits = draw.bits() >> draw.below(64);
    if constexpr (std::is_unsigned_v<T>)
      value = static_cast<T>(rules.max == UINT64_MAX ? bits : bits % (rules.max + 1));
    else
      value = static_cast<T>(bits);
  }
}

template <class M>
void draw_fields(M& message, Draw& draw) {
  const auto one = [&]<auto kMember>(const Field<kMember>& f) {
    draw_value(message.*kMember, f.rules, draw);
  };
  std::apply([&](const auto&... f) { (one(f), ...); }, M::wire_table().fields);
}

// [setup] A valid message; the same one for the same seed.
template <class M>
M sample(uint64_t seed) {
  M message;
  Draw draw(seed);
  draw_fields(message, draw);
  return message;
}

}  // namespace outrider::link::wire
