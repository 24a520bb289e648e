// A reader for one kind of pickle: a dictionary of slices. Every value it can build has a fixed
// size and texts are views of the input, so no program of a file can make it large.
#include <algorithm>
#include <charconv>
#include <cstdio>

#include "base/printable.h"
#include "driving/slices.h"

namespace outrider::driving {
namespace {

constexpr size_t kMaxStack = 4096, kMaxMemo = 8192;

struct Value {
  enum class Kind : uint8_t { kMark, kNone, kInt, kText, kSliceType, kTuple, kSlice, kDict };
  Kind kind = Kind::kNone;
  int64_t number = 0;
  std::string_view text;
  RawSlice slice;    // of a slice; of a tuple its values so far
  int n_values = 0;  // of a tuple
};
using Kind = Value::Kind;

const char* kind_name(Kind kind) {
  constexpr const char* kNames[] = {"mark",       "None",  "int",   "str",
                                    "slice type", "tuple", "slice", "dict"};
  return kNames[static_cast<size_t>(kind)];
}

class Machine {
 public:
  explicit Machine(std::string_view bytes) : in_(bytes) {}

  Result<RawSlices> run() {
    if (in_.size() > kMaxSlicesBytes)
      return make_error(Code::kNotFound, "output_slices: a pickle of %zu bytes, allowed %zu",
                        in_.size(), kMaxSlicesBytes);
    while (!done_) {
      op_at_ = at_;
      if (at_ == in_.size()) return bad("ends without its stop");
      if (auto fine = step(static_cast<uint8_t>(in_[at_++])); !fine) return fine.error();
    }
    if (at_ != in_.size()) return bad("has bytes after its end");
    return std::move(dict_);
  }

 private:
  Error bad(const std::string& what) const {
    return make_error(
        Code::kNotFound,
        "output_slices: the pickle %s at byte %zu; allowed is a dictionary of slices, "
        "nothing else is read",
        what.c_str(), op_at_);
  }

  // ---- bytes ------------------------------------------------------------------------------------

  Result<std::string_view> take(size_t n) {
    if (in_.size() - at_ < n) return bad("is cut off");
    const std::string_view bytes = in_.substr(at_, n);
    at_ += n;
    return bytes;
  }
  Result<uint64_t> unsigned_of(size_t n_bytes) {
    auto bytes = take(n_bytes);
    if (!bytes) return bytes.error();
    uint64_t value = 0;
    for (size_t i = n_bytes; i-- > 0;) value = value << 8 | static_cast<uint8_t>(bytes.value()[i]);
    return value;
  }
  // Two's complement of 0 to 8 bytes.
  Result<int64_t> signed_of(size_t n_bytes) {
    auto raw = unsigned_of(n_bytes);
    if (!raw) return raw.error();
    if (n_bytes == 0 || n_bytes == 8) return static_cast<int64_t>(raw.value());
    const uint64_t sign = uint64_t{1} << (8 * n_bytes - 1);
    return static_cast<int64_t>((raw.value() ^ sign) - sign);
  }
  Result<std::string_view> line() {
    const size_t end = in_.find('\n', at_);
    if (end == std::string_view::npos) return bad("is cut off");
    const std::string_view text = in_.substr(at_, end - at_);
    at_ = end + 1;
    return text;
  }
  Result<int64_t> line_number(bool is_long) {
    auto text = line();
    if (!text) return text.error();
    std::string_view digits = text.value();
    if (is_long && digits.ends_with('L')) digits.remove_suffix(1);
    int64_t value = 0;
    const auto [end, fault] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    const bool two_digits = digits.size() > 1 && digits[0] == '0';  // I00, I01: truth values
    if (digits.empty() || fault != std::errc() || end != digits.data() + digits.size() ||
        two_digits)
      return bad("has the number \"" + printable(text.value(), 24) + "\"");
    return value;
  }

  // ---- stack ------------------------------------------------------------------------------------

  Result<void> push(const Value& value) {
    if (n_stack_ == kMaxStack) return bad("needs a stack of more than 4096 values");
    if (n_stack_ == stack_.size()) stack_.resize(std::max<size_t>(64, 2 * n_stack_));
    stack_[n_stack_++] = value;
    return {};
  }
  Result<void> push_number(const Result<int64_t>& number) {
    if (!number) return number.error();
    Value v;
    v.kind = Kind::kInt;
    v.number = number.value();
    return push(v);
  }
  Result<void> push_text(const Result<std::string_view>& text) {
    if (!text) return text.error();
    Value v;
    v.kind = Kind::kText;
    v.text = text.value();
    return push(v);
  }
  Result<void> push_sized_text(size_t length_bytes) {
    auto n = unsigned_of(length_bytes);
    if (!n) return n.error();
    return push_text(take(n.value()));
  }
  Result<void> push_kind(Kind kind) {
    Value v;
    v.kind = kind;
    return push(v);
  }
  Result<Value> pop() {
    if (n_stack_ == 0) return bad("takes from an empty stack");
    return stack_[--n_stack_];
  }
  // Index behind the last mark.
  Result<size_t> mark() const {
    for (size_t i = n_stack_; i-- > 0;)
      if (stack_[i].kind == Kind::kMark) return i + 1;
    return bad("has no mark");
  }

  Result<void> make_tuple(size_t first) {
    Value tuple;
    tuple.kind = Kind::kTuple;
    if (n_stack_ - first > 3) return bad("has a tuple of more than 3");
    for (size_t i = first; i < n_stack_; ++i) {
      const Value& v = stack_[i];
      if (v.kind != Kind::kInt && v.kind != Kind::kNone)
        return bad(std::string("has a tuple with a ") + kind_name(v.kind));
      std::optional<int64_t>* const places[] = {&tuple.slice.start, &tuple.slice.stop,
                                                &tuple.slice.step};
      if (v.kind == Kind::kInt) *places[tuple.n_values] = v.number;
      ++tuple.n_values;
    }
    n_stack_ = first;
    return push(tuple);
  }
  Result<void> make_tuple_of(size_t n) {
    if (n_stack_ < n) return bad("takes from an empty stack");
    return make_tuple(n_stack_ - n);
  }
  Result<void> tuple_from_mark() {
    auto first = mark();
    if (!first) return first.error();
    // The mark goes too: the tuple takes its place.
    for (size_t i = first.value(); i < n_stack_; ++i) stack_[i - 1] = stack_[i];
    --n_stack_;
    return make_tuple(first.value() - 1);
  }

  Result<void> name(std::string_view module, std::string_view word) {
    if ((module != "builtins" && module != "__builtin__") || word != "slice")
      return bad("names " + printable(module, 60) + "." + printable(word, 60));
    return push_kind(Kind::kSliceType);
  }
  Result<void> reduce() {
    auto args = pop();
    if (!args) return args.error();
    auto called = pop();
    if (!called) return called.error();
    if (called.value().kind != Kind::kSliceType || args.value().kind != Kind::kTuple ||
        args.value().n_values != 3)
      return bad(std::string("calls a ") + kind_name(called.value().kind) + " with a " +
                 kind_name(args.value().kind));
    Value v;
    v.kind = Kind::kSlice;
    v.slice = args.value().slice;
    return push(v);
  }

  // ---- the dictionary ---------------------------------------------------------------------------

  Result<void> make_dict() {
    if (has_dict_) return bad("has a second dictionary");
    has_dict_ = true;
    return push_kind(Kind::kDict);
  }
  // Pairs [first, n_stack_) go into the dictionary.
  Result<void> add_items(size_t first) {
    if ((n_stack_ - first) % 2 != 0) return bad("has a key without a value");
    for (size_t i = first; i < n_stack_; i += 2) {
      const Value &key = stack_[i], &value = stack_[i + 1];
      if (key.kind != Kind::kText || value.kind != Kind::kSlice)
        return bad(std::string("maps a ") + kind_name(key.kind) + " to a " + kind_name(value.kind));
      if (dict_.size() == kMaxSlices) return bad("has more than 1024 slices");
      dict_.emplace_back(std::string(key.text), value.slice);
    }
    n_stack_ = first;
    return {};
  }
  Result<void> set_items() {
    auto first = mark();
    if (!first) return first.error();
    if (first.value() < 2 || stack_[first.value() - 2].kind != Kind::kDict)
      return bad("puts items into no dictionary");
    OUTRIDER_TRY(add_items(first.value()));
    --n_stack_;  // the mark
    return {};
  }
  Result<void> set_item() {
    if (n_stack_ < 3 || stack_[n_stack_ - 3].kind != Kind::kDict)
      return bad("puts an item into no dictionary");
    return add_items(n_stack_ - 2);
  }
  Result<void> dict_from_mark() {
    auto first = mark();
    if (!first) return first.error();
    OUTRIDER_TRY(add_items(first.value()));
    --n_stack_;
    return make_dict();
  }

  // ---- memo -------------------------------------------------------------------------------------

  Result<void> put(const Result<uint64_t>& index) {
    if (!index) return index.error();
    if (index.value() >= kMaxMemo || n_stack_ == 0) return bad("keeps more than 8192 values");
    if (memo_.size() <= index.value()) memo_.resize(index.value() + 1);
    memo_[index.value()] = stack_[n_stack_ - 1];
    n_memo_ = std::max(n_memo_, index.value() + 1);
    return {};
  }
  Result<void> get(const Result<uint64_t>& index) {
    if (!index) return index.error();
    if (index.value() >= memo_.size()) return bad("asks for a value it did not keep");
    const Value& v = memo_[index.value()];
    if (v.kind == Kind::kDict || v.kind == Kind::kMark) return bad("uses its dictionary twice");
    return push(v);
  }
  Result<uint64_t> line_index() {
    auto number = line_number(false);
    if (!number) return number.error();
    return number.value() < 0 ? kMaxMemo : static_cast<uint64_t>(number.value());
  }

  Result<void> stop() {
    auto root = pop();
    if (!root) return root.error();
    if (root.value().kind != Kind::kDict || n_stack_ != 0)
      return bad(std::string("ends with a ") + kind_name(root.value().kind));
    done_ = true;
    return {};
  }
  Result<void> global() {
    auto module = line();
    if (!module) return module.error();
    auto word = line();
    if (!word) return word.error();
    return name(module.value(), word.value());
  }
  Result<void> stack_global() {
    auto word = pop();
    if (!word) return word.error();
    auto module = pop();
    if (!module) return module.error();
    return name(module.value().text, word.value().text);
  }
  Result<void> protocol() {
    auto version = unsigned_of(1);
    if (!version) return version.error();
    if (version.value() > 5) return bad("is of protocol " + std::to_string(version.value()));
    return {};
  }
  Result<void> frame() {
    auto n = unsigned_of(8);
    if (!n) return n.error();
    if (n.value() > in_.size() - at_) return bad("is cut off");
    return {};
  }
  Result<void> text_line() {
    auto text = line();
    if (text && text.value().find('\\') != std::string_view::npos) return bad("escapes a letter");
    return push_text(text);
  }

  Result<void> step(uint8_t op) {
    switch (op) {
      case 0x80:
        return protocol();
      case 0x95:
        return frame();
      case '.':
        return stop();
      case '(':
        return push_kind(Kind::kMark);
      case 'N':
        return push_kind(Kind::kNone);
      case 'K':
        return push_unsigned(1);
      case 'M':
        return push_unsigned(2);
      case 'J':
        return push_number(signed_of(4));
      case 0x8a:
        return push_long();
      case 'I':
        return push_number(line_number(false));
      case 'L':
        return push_number(line_number(true));
      case 'V':
        return text_line();
      case 'U':
      case 0x8c:
        return push_sized_text(1);
      case 'X':
        return push_sized_text(4);
      case 'c':
        return global();
      case 0x93:
        return stack_global();
      case 't':
        return tuple_from_mark();
      case 0x87:
        return make_tuple_of(3);
      case 'R':
        return reduce();
      case '}':
        return make_dict();
      case 'd':
        return dict_from_mark();
      case 's':
        return set_item();
      case 'u':
        return set_items();
      case 'q':
        return put(unsigned_of(1));
      case 'r':
        return put(unsigned_of(4));
      case 'p':
        return put(line_index());
      case 0x94:
        return put(n_memo_);
      case 'h':
        return get(unsigned_of(1));
      case 'j':
        return get(unsigned_of(4));
      case 'g':
        return get(line_index());
      default:
        break;
    }
    char text[32];
    std::snprintf(text, sizeof text, "has instruction 0x%02x", op);
    return bad(text);
  }
  Result<void> push_unsigned(size_t n_bytes) {
    auto raw = unsigned_of(n_bytes);
    if (!raw) return raw.error();
    return push_number(static_cast<int64_t>(raw.value()));
  }
  Result<void> push_long() {
    auto n = unsigned_of(1);
    if (!n) return n.error();
    if (n.value() > 8) return bad("has a number of more than 64 bits");
    return push_number(signed_of(n.value()));
  }

  std::string_view in_;
  size_t at_ = 0, op_at_ = 0, n_stack_ = 0;
  uint64_t n_memo_ = 0;
  bool has_dict_ = false, done_ = false;
  std::vector<Value> stack_;
  std::vector<Value> memo_;
  RawSlices dict_;
};

}  // namespace

Result<RawSlices> unpickle_slices(std::string_view pickle) {
  return Machine(pickle).run();
}

}  // namespace outrider::driving
