#include "gguf/parser.h"

#include <algorithm>
#include <cinttypes>
#include <cstring>
#include <numeric>

#include "base/printable.h"
#include "gguf/types.h"

namespace outrider {

namespace {

// Smallest table entries: used to refuse counts that cannot fit the file before anything is taken.
constexpr uint64_t kMinKeyBytes = 8 + 1 + 4 + 1;  // length, one byte, type, u8
constexpr uint64_t kMinTensorBytes =
    8 + 1 + 4 + 8 + 4 + 8;  // length, one byte, dims, ne, type, offset

bool is_clean_name(std::string_view name) {
  return !name.empty() && std::none_of(name.begin(), name.end(), [](char c) {
    return static_cast<unsigned char>(c) < 0x20 || c == 0x7F;
  });
}

// Positions of items sorted by name, and the name that occurs twice, if any.
template <class Item, class NameOf>
std::string_view sort_by_name(const std::vector<Item>& items, NameOf name_of,
                              std::vector<uint32_t>& index) {
  index.resize(items.size());
  std::iota(index.begin(), index.end(), 0u);
  std::sort(index.begin(), index.end(),
            [&](uint32_t a, uint32_t b) { return name_of(items[a]) < name_of(items[b]); });
  const auto twice = std::adjacent_find(index.begin(), index.end(), [&](uint32_t a, uint32_t b) {
    return name_of(items[a]) == name_of(items[b]);
  });
  return twice == index.end() ? std::string_view() : name_of(items[*twice]);
}

}  // namespace

Error GgufCursor::truncated(const char* what, uint64_t needed) const {
  return make_error(Code::kNotFound,
                    "%s: %s: %s needs %" PRIu64
                    " bytes at offset %zu, the file has %zu left "
                    "(%zu in all); cut-off or damaged, fetch it again",
                    file_.c_str(), place_.c_str(), what, needed, position_, left(), bytes_.size());
}

Result<std::span<const std::byte>> GgufCursor::take(const char* what, uint64_t n_bytes) {
  if (n_bytes > left()) return truncated(what, n_bytes);
  const auto part = bytes_.subspan(position_, size_t(n_bytes));
  position_ += size_t(n_bytes);
  return part;
}

Result<uint32_t> GgufCursor::u32(const char* what) {
  auto part = take(what, sizeof(uint32_t));
  if (!part) return part.error();
  uint32_t value;
  std::memcpy(&value, part.value().data(), sizeof value);
  return value;
}

Result<uint64_t> GgufCursor::u64(const char* what) {
  auto part = take(what, sizeof(uint64_t));
  if (!part) return part.error();
  uint64_t value;
  std::memcpy(&value, part.value().data(), sizeof value);
  return value;
}

Result<std::string_view> GgufCursor::string(const char* what, uint64_t max_bytes) {
  auto length = u64(what);
  if (!length) return length.error();
  if (length.value() > left()) return truncated(what, length.value());
  if (length.value() > max_bytes)
    return make_error(Code::kNotFound, "%s: %s: %s has %" PRIu64 " bytes, allowed are %" PRIu64,
                      file_.c_str(), place_.c_str(), what, length.value(), max_bytes);
  auto part = take(what, length.value());
  if (!part) return part.error();
  return std::string_view(reinterpret_cast<const char*>(part.value().data()), part.value().size());
}

GgufParser::GgufParser(std::span<const std::byte> bytes, const char* name)
    : in_(bytes, short_path(name)) {
  out_.path_ = name;
}

Result<GgufFile> GgufParser::parse() {
  OUTRIDER_TRY(header());
  OUTRIDER_TRY(metadata());
  OUTRIDER_TRY(alignment());
  OUTRIDER_TRY(tensor_table());
  OUTRIDER_TRY(index_names());
  OUTRIDER_TRY(place_tensors());
  return std::move(out_);
}

Result<void> GgufParser::header() {
  auto magic = in_.take("magic", 4);
  if (!magic) return magic.error();
  const std::string_view word(reinterpret_cast<const char*>(magic.value().data()), 4);
  if (word != "GGUF")
    return make_error(Code::kNotFound, "%s: not a GGUF file: begins with \"%s\", wanted \"GGUF\"",
                      in_.file().c_str(), printable(word).c_str());
  auto version = in_.u32("version");
  if (!version) return version.error();
  out_.version_ = version.value();
  if (out_.version_ != 2 && out_.version_ != 3) {
    const bool swapped = __builtin_bswap32(out_.version_) <= 3 && out_.version_ != 0;
    return make_error(
        Code::kUnsupported,
        "%s: GGUF version %u%s, supported are 2 and 3; re-convert with a current tool",
        in_.file().c_str(), out_.version_, swapped ? " (big-endian file)" : "");
  }
  auto n_tensors = in_.u64("tensor count");
  if (!n_tensors) return n_tensors.error();
  auto n_keys = in_.u64("metadata count");
  if (!n_keys) return n_keys.error();
  n_tensors_ = n_tensors.value(), n_keys_ = n_keys.value();
  if (n_keys_ > in_.left() / kMinKeyBytes || n_tensors_ > in_.left() / kMinTensorBytes)
    return make_error(Code::kNotFound,
                      "%s: header claims %" PRIu64 " metadata entries and %" PRIu64
                      " tensors, impossible in %zu bytes; cut-off or damaged",
                      in_.file().c_str(), n_keys_, n_tensors_, in_.bytes().size());
  if (n_keys_ > gguf::kMaxTableEntries || n_tensors_ > gguf::kMaxTableEntries)
    return make_error(Code::kNotFound,
                      "%s: %" PRIu64 " metadata entries and %" PRIu64
                      " tensors, allowed are %" PRIu64 " of each",
                      in_.file().c_str(), n_keys_, n_tensors_, gguf::kMaxTableEntries);
  return {};
}

Result<void> GgufParser::metadata() {
  for (uint64_t i = 0; i < n_keys_; ++i) {
    const std::string entry =
        "metadata entry " + std::to_string(i + 1) + " of " + std::to_string(n_keys_);
    in_.set_place(entry);
    auto key = in_.string("key", gguf::kMaxKeyBytes);
    if (!key) return key.error();
    in_.set_place(entry + " (" + printable(key.value()) + ")");
    if (!is_clean_name(key.value()))
      return make_error(Code::kNotFound, "%s: %s: key is empty or holds control bytes",
                        in_.file().c_str(), in_.place().c_str());
    auto parsed = value();
    if (!parsed) return parsed.error();
    out_.metadata_.push_back({key.value(), parsed.value()});
  }
  return {};
}

Result<GgufValue> GgufParser::value() {
  auto type = in_.u32("value type");
  if (!type) return type.error();
  if (type.value() >= gguf::kValueTypes)
    return make_error(Code::kNotFound, "%s: %s: value type %u, known are 0..%u", in_.file().c_str(),
                      in_.place().c_str(), type.value(), gguf::kValueTypes - 1);
  GgufValue out;
  out.type = GgufType(type.value());
  if (out.type == GgufType::kArray) return array();
  if (out.type == GgufType::kString) {
    auto text = in_.string("string", UINT64_MAX);
    if (!text) return text.error();
    out.payload = std::as_bytes(std::span(text.value()));
    return out;
  }
  auto payload = in_.take(gguf::type_name(out.type), gguf::scalar_bytes(out.type));
  if (!payload) return payload.error();
  out.payload = payload.value();
  if (out.type == GgufType::kBool && uint8_t(out.payload[0]) > 1)
    return make_error(Code::kNotFound, "%s: %s: bool holds %u, allowed are 0 and 1",
                      in_.file().c_str(), in_.place().c_str(), unsigned(out.payload[0]));
  return out;
}

Result<GgufValue> GgufParser::array() {
  auto element = in_.u32("array element type");
  if (!element) return element.error();
  if (element.value() >= gguf::kValueTypes || GgufType(element.value()) == GgufType::kArray)
    return make_error(Code::kNotFound, "%s: %s: %s %u, allowed are the scalar types and string",
                      in_.file().c_str(), in_.place().c_str(),
                      element.value() == uint32_t(GgufType::kArray)
                          ? "array nested in an array, type"
                          : "array element type",
                      element.value());
  auto count = in_.u64("array length");
  if (!count) return count.error();
  GgufValue out;
  out.type = GgufType::kArray;
  out.element = GgufType(element.value());
  out.n_elements = count.value();
  // A string takes its length field at least.
  const size_t each = out.element == GgufType::kString ? 8 : gguf::scalar_bytes(out.element);
  if (out.n_elements > in_.left() / each)
    return make_error(
        Code::kNotFound,
        "%s: %s: array claims %" PRIu64 " elements of type %s, needing %s%" PRIu64
        " bytes each; the file has %zu left; cut-off or damaged",
        in_.file().c_str(), in_.place().c_str(), out.n_elements, gguf::type_name(out.element),
        out.element == GgufType::kString ? "at least " : "", uint64_t{each}, in_.left());
  if (out.element != GgufType::kString) {
    auto payload = in_.take("array", out.n_elements * each);
    if (!payload) return payload.error();
    out.payload = payload.value();
    return out;
  }
  const size_t begin = in_.position();
  for (uint64_t i = 0; i < out.n_elements; ++i)
    if (auto text = in_.string("string of the array", UINT64_MAX); !text) return text.error();
  out.payload = in_.bytes().subspan(begin, in_.position() - begin);
  return out;
}

// Must be known before the data region can be found. Looked up linearly: names are not indexed yet.
Result<void> GgufParser::alignment() {
  alignment_ = gguf::kDefaultAlignment;
  for (const auto& [key, value] : out_.metadata_) {
    if (key != "general.alignment") continue;
    if (value.type != GgufType::kU32)
      return make_error(Code::kNotFound, "%s: general.alignment is stored as %s, wanted u32",
                        in_.file().c_str(), gguf::type_name(value.type));
    uint32_t found;
    std::memcpy(&found, value.payload.data(), sizeof found);
    if (found < gguf::kMinAlignment || found > gguf::kMaxAlignment || (found & (found - 1)) != 0)
      return make_error(Code::kNotFound,
                        "%s: general.alignment is %u, allowed are powers of two from %u to %u",
                        in_.file().c_str(), found, gguf::kMinAlignment, gguf::kMaxAlignment);
    alignment_ = found;
  }
  return {};
}

Result<void> GgufParser::tensor_table() {
  for (uint64_t i = 0; i < n_tensors_; ++i) {
    in_.set_place("tensor table entry " + std::to_string(i + 1) + " of " +
                  std::to_string(n_tensors_));
    Placement placement;
    auto tensor = tensor_info(placement);
    if (!tensor) return tensor.error();
    out_.tensors_.push_back(tensor.value());
    placements_.push_back(placement);
  }
  return {};
}

Result<GgufTensor> GgufParser::tensor_info(Placement& placement) {
  GgufTensor tensor;
  auto name = in_.string("tensor name", gguf::kMaxTensorNameBytes);
  if (!name) return name.error();
  tensor.name = name.value();
  in_.set_place(in_.place() + " (" + printable(tensor.name) + ")");
  if (!is_clean_name(tensor.name))
    return make_error(Code::kNotFound, "%s: %s: tensor name is empty or holds control bytes",
                      in_.file().c_str(), in_.place().c_str());
  OUTRIDER_TRY(shape(tensor));
  auto type = in_.u32("element type");
  if (!type) return type.error();
  auto offset = in_.u64("offset");
  if (!offset) return offset.error();
  const auto dtype = gguf::dtype_of(type.value());
  if (!dtype) return gguf::refuse_type(in_.file(), tensor.name, type.value());
  tensor.dtype = *dtype;
  auto n_bytes = sized(tensor);
  if (!n_bytes) return n_bytes.error();
  placement = {offset.value(), n_bytes.value()};
  if (placement.offset % alignment_ != 0)
    return make_error(Code::kNotFound,
                      "%s: tensor %s: offset %" PRIu64 " is no multiple of the alignment %" PRIu64,
                      in_.file().c_str(), printable(tensor.name).c_str(), placement.offset,
                      alignment_);
  return tensor;
}

Result<void> GgufParser::shape(GgufTensor& tensor) {
  auto n_dims = in_.u32("dimension count");
  if (!n_dims) return n_dims.error();
  if (n_dims.value() < 1 || n_dims.value() > 4)
    return make_error(Code::kNotFound, "%s: tensor %s has %u dimensions, allowed are 1..4",
                      in_.file().c_str(), printable(tensor.name).c_str(), n_dims.value());
  tensor.n_dims = n_dims.value();
  int64_t n_values = 1;
  for (uint32_t i = 0; i < tensor.n_dims; ++i) {
    auto ne = in_.u64("dimension");
    if (!ne) return ne.error();
    if (ne.value() == 0 || ne.value() > uint64_t{INT64_MAX} ||
        __builtin_mul_overflow(n_values, int64_t(ne.value()), &n_values))
      return make_error(Code::kNotFound,
                        "%s: tensor %s: dimension %u is %" PRIu64
                        "; each must be positive and their product below 2^63",
                        in_.file().c_str(), printable(tensor.name).c_str(), i, ne.value());
    tensor.ne[i] = int64_t(ne.value());
  }
  return {};
}

// Bytes of the tensor's data.
Result<uint64_t> GgufParser::sized(const GgufTensor& tensor) const {
  const DTypeInfo& info = dtype_info(tensor.dtype);
  if (tensor.ne[0] % info.block_values != 0)
    return make_error(Code::kNotFound,
                      "%s: tensor %s: rows of %" PRId64 " values, %s needs a multiple of %u",
                      in_.file().c_str(), printable(tensor.name).c_str(), tensor.ne[0],
                      info.name.data(), info.block_values);
  uint64_t n_bytes = 0;
  if (__builtin_mul_overflow(uint64_t(tensor.n_values()) / info.block_values,
                             uint64_t{info.block_bytes}, &n_bytes))
    return make_error(
        Code::kNotFound, "%s: tensor %s: %" PRId64 " values of type %s overflow 2^64 bytes",
        in_.file().c_str(), printable(tensor.name).c_str(), tensor.n_values(), info.name.data());
  return n_bytes;
}

// Data begins at the next multiple of the alignment; each tensor must end inside the file. Filler
// behind the last tensor may be missing.
Result<void> GgufParser::place_tensors() {
  const uint64_t file_bytes = in_.bytes().size();
  const uint64_t data_begin = (in_.position() + alignment_ - 1) / alignment_ * alignment_;
  for (size_t i = 0; i < placements_.size(); ++i) {
    GgufTensor& tensor = out_.tensors_[i];
    const Placement& at = placements_[i];
    uint64_t begin = 0, end = 0;
    if (__builtin_add_overflow(data_begin, at.offset, &begin) ||
        __builtin_add_overflow(begin, at.n_bytes, &end))
      return make_error(Code::kNotFound,
                        "%s: tensor %s: offset %" PRIu64 " plus %" PRIu64 " bytes wraps past 2^64",
                        in_.file().c_str(), printable(tensor.name).c_str(), at.offset, at.n_bytes);
    if (end > file_bytes)
      return make_error(Code::kNotFound,
                        "%s: tensor %s needs bytes %" PRIu64 "..%" PRIu64 ", the file has %" PRIu64
                        "; cut-off or damaged, fetch it again",
                        in_.file().c_str(), printable(tensor.name).c_str(), begin, end, file_bytes);
    tensor.data = in_.bytes().data() + begin;
    tensor.n_bytes = size_t(at.n_bytes);
  }
  return refuse_overlaps(data_begin);
}

// No writer shares bytes between tensors: an overlap means a damaged offset, and the later weight
// would silently read the earlier one's values.
Result<void> GgufParser::refuse_overlaps(uint64_t data_begin) const {
  std::vector<uint32_t> order(placements_.size());
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(),
            [&](uint32_t a, uint32_t b) { return placements_[a].offset < placements_[b].offset; });
  for (size_t i = 1; i < order.size(); ++i) {
    const Placement &before = placements_[order[i - 1]], &at = placements_[order[i]];
    if (before.offset + before.n_bytes <= at.offset) continue;
    return make_error(Code::kNotFound,
                      "%s: tensor %s begins at byte %" PRIu64
                      ", inside tensor %s which ends at %" PRIu64,
                      in_.file().c_str(), printable(out_.tensors_[order[i]].name).c_str(),
                      data_begin + at.offset, printable(out_.tensors_[order[i - 1]].name).c_str(),
                      data_begin + before.offset + before.n_bytes);
  }
  return {};
}

Result<void> GgufParser::index_names() {
  const auto key = sort_by_name(
      out_.metadata_, [](const GgufFile::KeyValue& kv) { return kv.key; }, out_.key_index_);
  if (!key.empty())
    return make_error(Code::kNotFound, "%s: metadata key %s occurs twice", in_.file().c_str(),
                      printable(key).c_str());
  const auto name = sort_by_name(
      out_.tensors_, [](const GgufTensor& t) { return t.name; }, out_.tensor_index_);
  if (!name.empty())
    return make_error(Code::kNotFound, "%s: tensor name %s occurs twice", in_.file().c_str(),
                      printable(name).c_str());
  return {};
}

}  // namespace outrider
