#include "onnx/shape.h"

namespace outrider::onnx {

std::string Shape::text() const {
  std::string out = "{";
  for (const int64_t dim : dims()) out += (out.size() > 1 ? ", " : "") + std::to_string(dim);
  return out + "}";
}

std::string TensorType::text() const {
  return short_type_name(dtype) + (" " + shape.text());
}

const char* short_type_name(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "f32";
    case DType::kF16:
      return "f16";
    case DType::kBf16:
      return "bf16";
    case DType::kF64:
      return "f64";
    case DType::kU8:
      return "u8";
    case DType::kI8:
      return "i8";
    case DType::kI32:
      return "i32";
    case DType::kI64:
      return "i64";
    case DType::kBool:
      return "bool";
    default:
      return "quantised";
  }
}

}  // namespace outrider::onnx
