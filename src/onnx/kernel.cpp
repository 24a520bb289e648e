#include "onnx/kernel.h"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

#include "base/printable.h"
#include "tensor/float16.h"

namespace outrider::onnx {

std::string NodeContext::where() const {
  const std::string& first =
      !node_.outputs.empty() && !node_.outputs[0].empty() ? node_.outputs[0] : node_.name;
  return "node " + printable(node_.op, 40) + " \"" + printable(first) + "\"";
}

Error NodeContext::wrong(const char* format, ...) const {
  char text[360];
  va_list args;
  va_start(args, format);
  std::vsnprintf(text, sizeof text, format, args);
  va_end(args);
  return make_error(Code::kNotFound, "%s: %s", where().c_str(), text);
}

Error NodeContext::unsupported(const char* format, ...) const {
  char text[360];
  va_list args;
  va_start(args, format);
  std::vsnprintf(text, sizeof text, format, args);
  va_end(args);
  return make_error(Code::kUnsupported, "%s: %s", where().c_str(), text);
}

Result<std::vector<int64_t>> NodeContext::known_ints(size_t i, const char* what) {
  if (!has(i)) return wrong("%s is missing", what);
  const TensorType& t = type(i);
  if ((t.dtype != DType::kI64 && t.dtype != DType::kI32) || t.shape.rank() > 1)
    return wrong("%s is %s, wanted i64 or i32 of rank 0 or 1", what, t.text().c_str());
  if (!is_constant(i)) {
    note_undetermined(i);
    return unsupported("%s depends on the inputs; this build needs it at open", what);
  }
  const auto n = static_cast<size_t>(t.shape.n_values());
  std::vector<int64_t> values(n);
  for (size_t k = 0; k < n; ++k)
    values[k] = t.dtype == DType::kI64 ? constant<int64_t>(i)[k] : constant<int32_t>(i)[k];
  return values;
}

Result<double> NodeContext::known_number(size_t i, const char* what) {
  if (!has(i)) return wrong("%s is missing", what);
  const TensorType& t = type(i);
  if (t.shape.n_values() != 1) return wrong("%s is %s, wanted one value", what, t.text().c_str());
  if (!is_constant(i)) {
    note_undetermined(i);
    return unsupported("%s depends on the inputs; this build needs it at open", what);
  }
  switch (t.dtype) {
    case DType::kF32:
      return static_cast<double>(*constant<float>(i));
    case DType::kF64:
      return *constant<double>(i);
    case DType::kF16:
      return static_cast<double>(f16_to_f32(*constant<uint16_t>(i)));
    case DType::kI64:
      return static_cast<double>(*constant<int64_t>(i));
    case DType::kI32:
      return static_cast<double>(*constant<int32_t>(i));
    case DType::kI8:
      return static_cast<double>(*constant<int8_t>(i));
    default:
      return static_cast<double>(*constant<uint8_t>(i));
  }
}

int64_t NodeContext::integer(const char* name, int64_t otherwise) const {
  const Attribute* a = node_.find(name);
  return a != nullptr && a->kind == Attribute::Kind::kInt ? a->i : otherwise;
}
float NodeContext::real(const char* name, float otherwise) const {
  const Attribute* a = node_.find(name);
  return a != nullptr && a->kind == Attribute::Kind::kFloat ? a->f : otherwise;
}
std::string NodeContext::text(const char* name, const char* otherwise) const {
  const Attribute* a = node_.find(name);
  return a != nullptr && a->kind == Attribute::Kind::kString ? a->s : otherwise;
}
std::vector<int64_t> NodeContext::integers(const char* name) const {
  const Attribute* a = node_.find(name);
  return a != nullptr && a->kind == Attribute::Kind::kInts ? a->ints : std::vector<int64_t>();
}
std::vector<float> NodeContext::reals(const char* name) const {
  const Attribute* a = node_.find(name);
  return a != nullptr && a->kind == Attribute::Kind::kFloats ? a->floats : std::vector<float>();
}

void NodeContext::output(size_t i, DType dtype, const Shape& shape) {
  if (outputs_.size() <= i) outputs_.resize(i + 1);
  outputs_[i] = {{dtype, shape}, -1, true};
}

void NodeContext::blocked_output(size_t i, const Shape& shape) {
  output(i, DType::kF32, shape);
  outputs_[i].blocked = true;
}

void NodeContext::output_is_input(size_t i, size_t j, const Shape& shape) {
  output(i, dtype(j), shape);
  outputs_[i].alias = static_cast<int>(j);
}

std::span<std::byte> NodeContext::keep(size_t n_bytes) {
  const ConstantPool::Block block = around_.pool->take(n_bytes);
  if (kept_.empty() || kept_.back() != block.owner) kept_.push_back(block.owner);
  return {block.data, n_bytes};
}

Result<void> NodeContext::require_type(size_t i, std::initializer_list<DType> allowed) const {
  if (!has(i)) return wrong("input %zu is missing", i);
  std::string list;
  for (const DType dtype : allowed) {
    if (type(i).dtype == dtype) return {};
    list += (list.empty() ? "" : ", ") + std::string(short_type_name(dtype));
  }
  return unsupported("input %zu has element type %s; this build has %s", i,
                     short_type_name(type(i).dtype), list.c_str());
}

Result<void> NodeContext::require_inputs(size_t least, size_t most) const {
  for (size_t i = 0; i < least; ++i)
    if (!has(i)) return wrong("input %zu is missing", i);
  for (size_t i = most; i < n_inputs(); ++i)
    if (has(i)) return wrong("%zu inputs, at most %zu are allowed", n_inputs(), most);
  return {};
}

Result<int> NodeContext::axis(int64_t axis, int rank) const {
  if (axis < -rank || axis >= rank)
    return wrong("axis %lld of an array of rank %d", static_cast<long long>(axis), rank);
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

}  // namespace outrider::onnx
