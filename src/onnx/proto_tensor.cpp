#include <cstring>
#include <filesystem>

#include "base/printable.h"
#include "onnx/proto.h"

namespace outrider::onnx {
namespace fs = std::filesystem;

namespace {

using Proto = ::onnx::TensorProto;

// Values of one tensor in a file: more cannot be addressed by its 2 GB.
constexpr int64_t kMaxValues = int64_t{1} << 33;

Result<int64_t> count_values(const Tensor& tensor, const std::string& where,
                             const ProtoContext& c) {
  int64_t n = 1;
  for (const int64_t dim : tensor.dims) {
    if (dim < 0)
      return c.damaged("%s: dimension %lld, allowed is 0 or more", where.c_str(),
                       static_cast<long long>(dim));
    if (__builtin_mul_overflow(n, dim, &n) || n > kMaxValues)
      return c.damaged("%s: its dimensions multiply to more than %lld values", where.c_str(),
                       static_cast<long long>(kMaxValues));
  }
  return n;
}

// n values of `Value` made of a repeated field of wider numbers.
template <class Value, class Field>
Tensor& put_values(Tensor& tensor, const Field& field) {
  auto values = std::make_shared<std::vector<Value>>();
  values->reserve(static_cast<size_t>(field.size()));
  for (const auto value : field) values->push_back(static_cast<Value>(value));
  tensor.data = reinterpret_cast<const std::byte*>(values->data());
  tensor.n_bytes = values->size() * sizeof(Value);
  tensor.owner = std::move(values);
  return tensor;
}

// How many values the typed fields hold, whichever is used.
int64_t typed_values(const Proto& p) {
  return int64_t{p.float_data_size()} + p.int32_data_size() + p.int64_data_size() +
         p.double_data_size() + p.uint64_data_size() + p.string_data_size();
}

void put_typed(Tensor& tensor, const Proto& p) {
  switch (tensor.dtype) {
    case DType::kF32:
      put_values<float>(tensor, p.float_data());
      break;
    case DType::kF64:
      put_values<double>(tensor, p.double_data());
      break;
    case DType::kI64:
      put_values<int64_t>(tensor, p.int64_data());
      break;
    case DType::kI32:
      put_values<int32_t>(tensor, p.int32_data());
      break;
    case DType::kF16:
    case DType::kBf16:
      put_values<uint16_t>(tensor, p.int32_data());
      break;
    case DType::kI8:
      put_values<int8_t>(tensor, p.int32_data());
      break;
    default:
      put_values<uint8_t>(tensor, p.int32_data());
      break;
  }
}

void put_copy(Tensor& tensor, const std::byte* data, size_t n_bytes) {
  // Eight bytes at a time: aligned for every element type.
  auto words = std::make_shared<std::vector<uint64_t>>((n_bytes + 7) / 8);
  if (n_bytes > 0) std::memcpy(words->data(), data, n_bytes);
  tensor.data = reinterpret_cast<const std::byte*>(words->data());
  tensor.n_bytes = n_bytes;
  tensor.owner = std::move(words);
}

// Only 0 and 1 are truth values.
Result<void> check_bools(const Tensor& tensor, const std::string& where, const ProtoContext& c) {
  if (tensor.dtype != DType::kBool) return {};
  for (size_t i = 0; i < tensor.n_bytes; ++i)
    if (static_cast<uint8_t>(tensor.data[i]) > 1)
      return c.damaged("%s: BOOL value %zu is %d, allowed are 0 and 1", where.c_str(), i,
                       static_cast<int>(tensor.data[i]));
  return {};
}

// ---- external data ------------------------------------------------------------------------------

struct Place {
  std::string location;
  int64_t offset = 0, length = -1;
};

bool read_number(const std::string& text, int64_t& out) {
  if (text.empty() || text.size() > 18 || text.find_first_not_of("0123456789") != std::string::npos)
    return false;
  out = std::stoll(text);
  return true;
}

Result<Place> read_place(const Proto& p, const std::string& where, const ProtoContext& c) {
  Place place;
  for (const auto& entry : p.external_data()) {
    int64_t* number = entry.key() == "offset"   ? &place.offset
                      : entry.key() == "length" ? &place.length
                                                : nullptr;
    if (entry.key() == "location") place.location = entry.value();
    if (number != nullptr && !read_number(entry.value(), *number))
      return c.damaged("%s: external data %s is \"%s\", wanted a number", where.c_str(),
                       entry.key().c_str(), printable(entry.value(), 40).c_str());
  }
  if (place.location.empty())
    return c.damaged("%s: external data without a location", where.c_str());
  return place;
}

// The file must lie in the model's folder, links followed.
Result<std::string> resolve(const Place& place, const std::string& where, const ProtoContext& c) {
  const std::string shown = printable(place.location);
  if (c.folder.empty())
    return c.damaged("%s: external data \"%s\" beside a model that has no folder", where.c_str(),
                     shown.c_str());
  const fs::path relative(place.location);
  bool inside = relative.is_relative() && place.location.find('\0') == std::string::npos;
  for (const fs::path& part : relative) inside = inside && part != "..";
  std::error_code error;
  const fs::path folder = fs::canonical(c.folder, error);
  const fs::path file = inside && !error ? fs::canonical(folder / relative, error) : fs::path();
  if (inside && error)
    return c.damaged("%s: external data \"%s\": %s; it belongs beside the model", where.c_str(),
                     shown.c_str(), error.message().c_str());
  const auto mismatch = std::mismatch(folder.begin(), folder.end(), file.begin(), file.end());
  if (!inside || mismatch.first != folder.end())
    return c.damaged("%s: external data \"%s\" lies outside the model's folder", where.c_str(),
                     shown.c_str());
  return file.string();
}

Result<void> put_external(Tensor& tensor, const Proto& p, size_t wanted, const std::string& where,
                          ProtoContext& c) {
  auto place = read_place(p, where, c);
  if (!place) return place.error();
  auto path = resolve(place.value(), where, c);
  if (!path) return path.error();
  auto& mapped = c.external[path.value()];
  if (!mapped) {
    auto opened = MappedFile::open(path.value().c_str());
    if (!opened) return opened.error();
    mapped = std::make_shared<const MappedFile>(std::move(opened.value()));
  }
  const auto offset = static_cast<uint64_t>(place.value().offset);
  if (place.value().length >= 0 && static_cast<uint64_t>(place.value().length) != wanted)
    return c.damaged("%s: external data of %lld bytes, its shape needs %zu", where.c_str(),
                     static_cast<long long>(place.value().length), wanted);
  if (offset > mapped->size() || wanted > mapped->size() - offset)
    return c.damaged("%s: needs bytes %llu..%llu of \"%s\", which has %zu; cut off, fetch it again",
                     where.c_str(), static_cast<unsigned long long>(offset),
                     static_cast<unsigned long long>(offset + wanted),
                     printable(place.value().location).c_str(), mapped->size());
  const std::byte* data = mapped->bytes().data() + offset;
  if (reinterpret_cast<uintptr_t>(data) % 8 != 0) {
    put_copy(tensor, data, wanted);
  } else {
    tensor.data = data;
    tensor.n_bytes = wanted;
    tensor.owner = mapped;
  }
  return {};
}

}  // namespace

Result<Tensor> take_tensor(Proto& proto, const std::string& where, ProtoContext& c) {
  Tensor tensor;
  tensor.name = proto.name();
  tensor.type = proto.data_type();
  tensor.dims.assign(proto.dims().begin(), proto.dims().end());
  if (tensor.dims.size() > kMaxRank)
    return c.damaged("%s: %zu dimensions, at most %zu are read", where.c_str(), tensor.dims.size(),
                     kMaxRank);
  auto n_values = count_values(tensor, where, c);
  if (!n_values) return n_values.error();
  if (proto.has_segment()) return c.damaged("%s: stored in segments", where.c_str());
  tensor.computable = known_type(tensor.type, tensor.dtype);
  if (!tensor.computable) return tensor;
  const size_t wanted = static_cast<size_t>(n_values.value()) * dtype_bytes(tensor.dtype);
  const int64_t n_typed = typed_values(proto);
  const bool external = proto.data_location() == Proto::EXTERNAL;
  if ((proto.has_raw_data() && !proto.raw_data().empty()) + (n_typed > 0) + external > 1)
    return c.damaged("%s: its values are stored twice", where.c_str());
  if (external) {
    OUTRIDER_TRY(put_external(tensor, proto, wanted, where, c));
  } else if (n_typed > 0) {
    put_typed(tensor, proto);
  } else if (proto.has_raw_data()) {
    const auto raw = std::make_shared<std::string>(std::move(*proto.mutable_raw_data()));
    tensor.data = reinterpret_cast<const std::byte*>(raw->data());
    tensor.n_bytes = raw->size();
    tensor.owner = raw;
    if (reinterpret_cast<uintptr_t>(tensor.data) % 8 != 0)
      put_copy(tensor, tensor.data, tensor.n_bytes);
  }
  if (tensor.n_bytes != wanted)
    return c.damaged("%s: %zu bytes of values, its type and shape need %zu", where.c_str(),
                     tensor.n_bytes, wanted);
  OUTRIDER_TRY(check_bools(tensor, where, c));
  return tensor;
}

}  // namespace outrider::onnx
