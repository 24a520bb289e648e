#include "gguf/gguf.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "base/printable.h"
#include "gguf/parser.h"
#include "gguf/types.h"

namespace outrider {
namespace {

template <class T>
T load(const std::byte* p) {
  T value;
  std::memcpy(&value, p, sizeof value);
  return value;
}

// An integer of any width and sign; nothing for other types.
struct Integer {
  bool negative = false;
  uint64_t bits = 0;  // two's complement when negative
};

std::optional<Integer> integer_at(GgufType type, const std::byte* p) {
  const auto from_signed = [](int64_t v) { return Integer{v < 0, uint64_t(v)}; };
  switch (type) {
    case GgufType::kU8:
      return Integer{false, load<uint8_t>(p)};
    case GgufType::kU16:
      return Integer{false, load<uint16_t>(p)};
    case GgufType::kU32:
      return Integer{false, load<uint32_t>(p)};
    case GgufType::kU64:
      return Integer{false, load<uint64_t>(p)};
    case GgufType::kI8:
      return from_signed(load<int8_t>(p));
    case GgufType::kI16:
      return from_signed(load<int16_t>(p));
    case GgufType::kI32:
      return from_signed(load<int32_t>(p));
    case GgufType::kI64:
      return from_signed(load<int64_t>(p));
    default:
      return std::nullopt;
  }
}

std::optional<double> number_at(GgufType type, const std::byte* p) {
  if (type == GgufType::kF32) return double(load<float>(p));
  if (type == GgufType::kF64) return load<double>(p);
  const auto whole = integer_at(type, p);
  if (!whole) return std::nullopt;
  return whole->negative ? double(int64_t(whole->bits)) : double(whole->bits);
}

Error missing(const std::string& path, std::string_view key) {
  return make_error(Code::kNotFound, "%s: metadata key %s is missing", short_path(path).c_str(),
                    printable(key).c_str());
}

Error wrong_type(const std::string& path, std::string_view key, const GgufValue& value,
                 const char* wanted) {
  const bool array = value.type == GgufType::kArray;
  return make_error(Code::kNotFound, "%s: metadata key %s is %s%s, wanted %s",
                    short_path(path).c_str(), printable(key).c_str(), array ? "array of " : "",
                    gguf::type_name(array ? value.element : value.type), wanted);
}

}  // namespace

Result<GgufFile> GgufFile::open(const char* path) {
  auto map = MappedFile::open(path);
  if (!map) return map.error();
  auto file = parse(map.value().bytes(), path);
  if (!file) return file.error();
  file.value().file_ = std::move(map.value());  // the mapping keeps its address: views stay valid
  return file;
}

Result<GgufFile> GgufFile::parse(std::span<const std::byte> bytes, const char* name) {
  return GgufParser(bytes, name).parse();
}

const GgufTensor* GgufFile::tensor(std::string_view name) const {
  const auto at = std::lower_bound(
      tensor_index_.begin(), tensor_index_.end(), name,
      [&](uint32_t i, std::string_view wanted) { return tensors_[i].name < wanted; });
  if (at == tensor_index_.end() || tensors_[*at].name != name) return nullptr;
  return &tensors_[*at];
}

const GgufValue* GgufFile::value(std::string_view key) const {
  const auto at = std::lower_bound(
      key_index_.begin(), key_index_.end(), key,
      [&](uint32_t i, std::string_view wanted) { return metadata_[i].key < wanted; });
  if (at == key_index_.end() || metadata_[*at].key != key) return nullptr;
  return &metadata_[*at].value;
}

Result<std::string_view> GgufFile::string(std::string_view key) const {
  const GgufValue* v = value(key);
  if (v == nullptr) return missing(path_, key);
  if (v->type != GgufType::kString) return wrong_type(path_, key, *v, "string");
  return std::string_view(reinterpret_cast<const char*>(v->payload.data()), v->payload.size());
}

Result<uint64_t> GgufFile::unsigned_integer(std::string_view key) const {
  const GgufValue* v = value(key);
  if (v == nullptr) return missing(path_, key);
  const auto whole = integer_at(v->type, v->payload.data());
  if (!whole) return wrong_type(path_, key, *v, "an integer");
  if (whole->negative)
    return make_error(Code::kNotFound, "%s: metadata key %s is %lld, wanted 0 or more",
                      short_path(path_).c_str(), printable(key).c_str(),
                      static_cast<long long>(whole->bits));
  return whole->bits;
}

Result<double> GgufFile::real(std::string_view key) const {
  const GgufValue* v = value(key);
  if (v == nullptr) return missing(path_, key);
  const auto number = number_at(v->type, v->payload.data());
  if (!number) return wrong_type(path_, key, *v, "a number");
  return *number;
}

Result<bool> GgufFile::boolean(std::string_view key) const {
  const GgufValue* v = value(key);
  if (v == nullptr) return missing(path_, key);
  if (v->type != GgufType::kBool) return wrong_type(path_, key, *v, "bool");
  return load<uint8_t>(v->payload.data()) != 0;
}

Result<std::vector<std::string_view>> GgufFile::strings(std::string_view key) const {
  const GgufValue* v = value(key);
  if (v == nullptr) return missing(path_, key);
  if (v->type != GgufType::kArray || v->element != GgufType::kString)
    return wrong_type(path_, key, *v, "array of string");
  std::vector<std::string_view> out;
  out.reserve(size_t(v->n_elements));  // the parser walked every one of them
  const std::byte* p = v->payload.data();
  for (uint64_t i = 0; i < v->n_elements; ++i) {
    const auto n_bytes = size_t(load<uint64_t>(p));
    out.emplace_back(reinterpret_cast<const char*>(p + 8), n_bytes);
    p += 8 + n_bytes;
  }
  return out;
}

Result<std::vector<double>> GgufFile::numbers(std::string_view key) const {
  const GgufValue* v = value(key);
  if (v == nullptr) return missing(path_, key);
  const bool numeric = v->type == GgufType::kArray && v->element != GgufType::kString &&
                       v->element != GgufType::kBool;
  if (!numeric) return wrong_type(path_, key, *v, "array of numbers");
  std::vector<double> out;
  out.reserve(size_t(v->n_elements));
  const size_t each = gguf::scalar_bytes(v->element);
  for (uint64_t i = 0; i < v->n_elements; ++i)
    out.push_back(*number_at(v->element, v->payload.data() + i * each));
  return out;
}

}  // namespace outrider
