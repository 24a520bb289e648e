#include "safetensors/safetensors.h"

#include <algorithm>
#include <cinttypes>
#include <cstring>
#include <optional>
#include <span>

#include "base/json.h"
#include "base/printable.h"

namespace outrider {
namespace {

struct NamedType {
  std::string_view name;
  DType dtype;
};
constexpr NamedType kTypes[] = {
    {"F64", DType::kF64},   {"F32", DType::kF32}, {"F16", DType::kF16},
    {"BF16", DType::kBf16}, {"I64", DType::kI64}, {"I32", DType::kI32},
    {"U8", DType::kU8},     {"I8", DType::kI8},   {"BOOL", DType::kBool},
};
constexpr const char* kSupported = "F64 F32 F16 BF16 I64 I32 U8 I8 BOOL";

std::optional<DType> dtype_named(std::string_view name) {
  for (const NamedType& type : kTypes)
    if (type.name == name) return type.dtype;
  return std::nullopt;
}

}  // namespace

class SafeTensorsParser {
 public:
  SafeTensorsParser(std::span<const std::byte> bytes, const char* name)
      : bytes_(bytes), file_(short_path(name)) {
    out_.path_ = name;
  }

  Result<SafeTensorsFile> parse();

 private:
  Result<std::string_view> header();
  Result<void> tensor(const Json::Member& member);
  Result<void> fields(const Json::Member& member) const;
  Result<void> shape(const Json& list, SafeTensor& tensor) const;
  Result<void> place(const Json& offsets, SafeTensor& tensor) const;
  Result<void> covers_everything() const;
  Error bad(std::string_view tensor, const char* what) const {
    return make_error(Code::kNotFound, "%s: tensor %s: %s", file_.c_str(),
                      printable(tensor).c_str(), what);
  }

  std::span<const std::byte> bytes_, data_;
  std::string file_;
  SafeTensorsFile out_;
};

Result<SafeTensorsFile> SafeTensorsParser::parse() {
  auto text = header();
  if (!text) return text.error();
  // Deepest legal nesting: file, tensor, shape list, number.
  const Json::Limits limits{SafeTensorsFile::kMaxHeaderBytes, 4, SafeTensorsFile::kMaxHeaderValues};
  auto json = Json::parse(text.value(), Json::Dialect::kStandard, limits);
  if (!json) return make_error(Code::kNotFound, "%s: header: %s", file_.c_str(), json.error().text);
  if (!json.value().is_object())
    return make_error(Code::kNotFound, "%s: header is no JSON object", file_.c_str());
  for (const Json::Member& member : json.value().members()) {
    if (member.name == "__metadata__") continue;  // free text for people
    OUTRIDER_TRY(tensor(member));
  }
  OUTRIDER_TRY(covers_everything());
  std::sort(out_.tensors_.begin(), out_.tensors_.end(),
            [](const SafeTensor& a, const SafeTensor& b) { return a.name < b.name; });
  return std::move(out_);
}

// u64 length, then that many bytes of JSON, then the data.
Result<std::string_view> SafeTensorsParser::header() {
  uint64_t length = 0;
  if (bytes_.size() < sizeof length)
    return make_error(Code::kNotFound, "%s: header length needs 8 bytes, the file has %zu",
                      file_.c_str(), bytes_.size());
  std::memcpy(&length, bytes_.data(), sizeof length);
  const auto rest = bytes_.subspan(sizeof length);
  if (length > SafeTensorsFile::kMaxHeaderBytes)
    return make_error(Code::kNotFound,
                      "%s: header of %" PRIu64 " bytes, allowed are %zu; not a safetensors file?",
                      file_.c_str(), length, SafeTensorsFile::kMaxHeaderBytes);
  if (length > rest.size())
    return make_error(Code::kNotFound,
                      "%s: header needs %" PRIu64
                      " bytes, the file has %zu left; cut-off or damaged, "
                      "fetch it again",
                      file_.c_str(), length, rest.size());
  data_ = rest.subspan(size_t(length));
  return std::string_view(reinterpret_cast<const char*>(rest.data()), size_t(length));
}

Result<void> SafeTensorsParser::tensor(const Json::Member& member) {
  OUTRIDER_TRY(fields(member));
  const Json& type = *member.value.find("dtype");
  const auto dtype = dtype_named(type.text());
  if (!dtype)
    return make_error(Code::kUnsupported, "%s: tensor %s has element type %s; supported: %s",
                      file_.c_str(), printable(member.name).c_str(),
                      printable(type.text(), 24).c_str(), kSupported);
  SafeTensor tensor;
  tensor.name = member.name;
  tensor.dtype = *dtype;
  OUTRIDER_TRY(shape(*member.value.find("shape"), tensor));
  OUTRIDER_TRY(place(*member.value.find("data_offsets"), tensor));
  out_.tensors_.push_back(std::move(tensor));
  return {};
}

// Exactly dtype, shape and data_offsets, each of its kind. (The JSON reader refuses repeated
// names.)
Result<void> SafeTensorsParser::fields(const Json::Member& member) const {
  if (member.name.empty()) return bad("", "name is empty");
  if (!member.value.is_object()) return bad(member.name, "is no JSON object");
  const Json* dtype = member.value.find("dtype");
  const Json* shape = member.value.find("shape");
  const Json* offsets = member.value.find("data_offsets");
  if (dtype == nullptr || !dtype->is_string()) return bad(member.name, "dtype must be a string");
  if (shape == nullptr || !shape->is_array()) return bad(member.name, "shape must be a list");
  if (offsets == nullptr || !offsets->is_array() || offsets->items().size() != 2)
    return bad(member.name, "data_offsets must be a list of two");
  if (member.value.members().size() != 3)
    return bad(member.name, "unknown field beside dtype, shape and data_offsets");
  return {};
}

Result<void> SafeTensorsParser::shape(const Json& list, SafeTensor& tensor) const {
  if (list.items().size() > SafeTensorsFile::kMaxDims)
    return make_error(Code::kNotFound, "%s: tensor %s has %zu dimensions, allowed are %zu",
                      file_.c_str(), printable(tensor.name).c_str(), list.items().size(),
                      SafeTensorsFile::kMaxDims);
  int64_t n_values = 1;
  for (const Json& item : list.items()) {
    // Each step is checked, a zero further on included: no order of dimensions may wrap.
    if (!item.is_integer() || item.integer() < 0 ||
        __builtin_mul_overflow(n_values, std::max<int64_t>(item.integer(), 1), &n_values))
      return make_error(Code::kNotFound,
                        "%s: tensor %s: dimension %s; each must be a whole number from 0 and their "
                        "product below 2^63",
                        file_.c_str(), printable(tensor.name).c_str(),
                        printable(item.text(), 24).c_str());
    tensor.shape.push_back(item.integer());
  }
  return {};
}

Result<void> SafeTensorsParser::place(const Json& offsets, SafeTensor& tensor) const {
  const Json &first = offsets.items()[0], &last = offsets.items()[1];
  if (!first.is_integer() || !last.is_integer() || first.integer() < 0 ||
      last.integer() < first.integer())
    return bad(tensor.name, "data_offsets must be two ordered whole numbers from 0");
  const auto begin = uint64_t(first.integer()), end = uint64_t(last.integer());
  uint64_t needed = 0;
  if (__builtin_mul_overflow(uint64_t(tensor.n_values()),
                             uint64_t{dtype_info(tensor.dtype).block_bytes}, &needed) ||
      needed != end - begin)
    return make_error(Code::kNotFound,
                      "%s: tensor %s: data_offsets span %" PRIu64 " bytes, %" PRId64
                      " values of type %s need another number",
                      file_.c_str(), printable(tensor.name).c_str(), end - begin, tensor.n_values(),
                      dtype_info(tensor.dtype).name.data());
  if (end > data_.size())
    return make_error(Code::kNotFound,
                      "%s: tensor %s needs data bytes %" PRIu64 "..%" PRIu64
                      ", the file has %zu; cut-off or damaged, fetch it again",
                      file_.c_str(), printable(tensor.name).c_str(), begin, end, data_.size());
  tensor.data = data_.data() + begin;
  tensor.n_bytes = size_t(end - begin);
  return {};
}

// In order of place, every tensor must begin where the one before it ended, and the last one must
// end with the file.
Result<void> SafeTensorsParser::covers_everything() const {
  std::vector<const SafeTensor*> order;
  order.reserve(out_.tensors_.size());
  for (const SafeTensor& tensor : out_.tensors_) order.push_back(&tensor);
  std::sort(order.begin(), order.end(), [](const SafeTensor* a, const SafeTensor* b) {
    return a->data != b->data ? a->data < b->data : a->n_bytes < b->n_bytes;
  });
  size_t covered = 0;
  for (const SafeTensor* tensor : order) {
    const auto begin = size_t(tensor->data - data_.data());
    if (begin != covered)
      return make_error(
          Code::kNotFound,
          "%s: tensor %s begins at data byte %zu, %s the tensor before it ends at %zu",
          file_.c_str(), printable(tensor->name).c_str(), begin,
          begin < covered ? "an overlap:" : "a hole:", covered);
    covered += tensor->n_bytes;
  }
  if (covered != data_.size())
    return make_error(Code::kNotFound, "%s: %zu data bytes, the tensors cover %zu", file_.c_str(),
                      data_.size(), covered);
  return {};
}

int64_t SafeTensor::n_values() const {
  int64_t n = 1;
  for (const int64_t dim : shape) n *= dim;
  return n;
}

Result<SafeTensorsFile> SafeTensorsFile::open(const char* path) {
  auto map = MappedFile::open(path);
  if (!map) return map.error();
  auto file = parse(map.value().bytes(), path);
  if (!file) return file.error();
  file.value().file_ = std::move(map.value());  // the mapping keeps its address: views stay valid
  return file;
}

Result<SafeTensorsFile> SafeTensorsFile::parse(std::span<const std::byte> bytes, const char* name) {
  return SafeTensorsParser(bytes, name).parse();
}

const SafeTensor* SafeTensorsFile::tensor(std::string_view name) const {
  const auto at = std::lower_bound(
      tensors_.begin(), tensors_.end(), name,
      [](const SafeTensor& t, std::string_view wanted) { return t.name < wanted; });
  return at != tensors_.end() && at->name == name ? &*at : nullptr;
}

}  // namespace outrider
