#include "onnx/model.h"

namespace outrider::onnx {
namespace {

struct TypeRow {
  const char* name;
  bool known;
  DType dtype;
};
// In the order of TensorProto.DataType.
constexpr TypeRow kTypes[] = {
    {"UNDEFINED", false, DType::kF32}, {"FLOAT", true, DType::kF32},
    {"UINT8", true, DType::kU8},       {"INT8", true, DType::kI8},
    {"UINT16", false, DType::kF32},    {"INT16", false, DType::kF32},
    {"INT32", true, DType::kI32},      {"INT64", true, DType::kI64},
    {"STRING", false, DType::kF32},    {"BOOL", true, DType::kBool},
    {"FLOAT16", true, DType::kF16},    {"DOUBLE", true, DType::kF64},
    {"UINT32", false, DType::kF32},    {"UINT64", false, DType::kF32},
    {"COMPLEX64", false, DType::kF32}, {"COMPLEX128", false, DType::kF32},
    {"BFLOAT16", true, DType::kBf16},
};
constexpr TypeNumber kTypeCount = sizeof kTypes / sizeof kTypes[0];

}  // namespace

const char* type_name(TypeNumber type) {
  return type >= 0 && type < kTypeCount ? kTypes[type].name : "unknown";
}

bool known_type(TypeNumber type, DType& dtype) {
  if (type < 0 || type >= kTypeCount || !kTypes[type].known) return false;
  dtype = kTypes[type].dtype;
  return true;
}

TypeNumber type_number(DType dtype) {
  for (TypeNumber type = 0; type < kTypeCount; ++type)
    if (kTypes[type].known && kTypes[type].dtype == dtype) return type;
  return 0;
}

size_t dtype_bytes(DType dtype) {
  return dtype_info(dtype).block_bytes;
}

int64_t Tensor::n_values() const {
  int64_t n = 1;
  for (const int64_t dim : dims) n *= dim;
  return n;
}

const Attribute* Node::find(std::string_view attribute) const {
  for (const Attribute& a : attributes)
    if (a.name == attribute) return &a;
  return nullptr;
}

}  // namespace outrider::onnx
