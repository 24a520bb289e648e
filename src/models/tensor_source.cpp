#include "models/tensor_source.h"

#include <cstring>

namespace outrider {

std::optional<TensorInfo> GgufSource::find(std::string_view name) const {
  const GgufTensor* tensor = file_.tensor(name);
  if (tensor == nullptr) return std::nullopt;
  TensorInfo info{tensor->dtype, {}, tensor->data};
  for (uint32_t i = tensor->n_dims; i-- > 0;) info.shape.push_back(tensor->ne[i]);
  return info;
}

std::optional<TensorInfo> SafeTensorsSource::find(std::string_view name) const {
  const SafeTensor* tensor = file_.tensor(name);
  if (tensor == nullptr) return std::nullopt;
  return TensorInfo{tensor->dtype, tensor->shape, tensor->data};
}

std::string at_layer(std::string_view pattern, int64_t layer) {
  const size_t mark = pattern.find('#');
  if (mark == std::string_view::npos) return std::string(pattern);
  return std::string(pattern.substr(0, mark)) + std::to_string(layer) +
         std::string(pattern.substr(mark + 1));
}

std::string shape_text(const std::vector<int64_t>& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(shape[i]);
  }
  return text + "]";
}

namespace {

Error missing(const TensorSource& source, const std::string& name) {
  return make_error(Code::kNotFound, "%s: tensor %s is missing; this file is not complete",
                    source.path().c_str(), name.c_str());
}

Error wrong_shape(const TensorSource& source, const std::string& name, const TensorInfo& info,
                  const std::vector<int64_t>& wanted) {
  return make_error(Code::kNotFound, "%s: tensor %s has shape %s, wanted %s (row major)",
                    source.path().c_str(), name.c_str(), shape_text(info.shape).c_str(),
                    shape_text(wanted).c_str());
}

bool is_plain_float(DType type) {
  return type == DType::kF32 || type == DType::kF16 || type == DType::kBf16;
}

int64_t product(const std::vector<int64_t>& shape, size_t first) {
  int64_t n = 1;
  for (size_t i = first; i < shape.size(); ++i) n *= shape[i];
  return n;
}

}  // namespace

Matrix WeightReader::matrix(const std::string& name, int64_t n_out, int64_t n_in) {
  const auto found = source_.find(name);
  if (!found) {
    fail(missing(source_, name));
    return {};
  }
  const TensorInfo& info = *found;
  if (!dtype_info(info.dtype).can_be_weight) {
    fail(make_error(Code::kUnsupported,
                    "%s: tensor %s has element type %s; a weight matrix may be %s",
                    source_.path().c_str(), name.c_str(),
                    std::string(dtype_info(info.dtype).name).c_str(), kWeightTypes));
    return {};
  }
  if (info.shape.size() < 2 || info.shape[0] != n_out || product(info.shape, 1) != n_in) {
    fail(wrong_shape(source_, name, info, {n_out, n_in}));
    return {};
  }
  return {info.dtype, n_out, n_in, info.data};
}

std::vector<float> WeightReader::values(const std::string& name, int64_t n) {
  const auto found = source_.find(name);
  if (!found) {
    fail(missing(source_, name));
    return {};
  }
  const TensorInfo& info = *found;
  if (!is_plain_float(info.dtype)) {
    fail(make_error(
        Code::kUnsupported,
        "%s: tensor %s has element type %s; norms, biases and tables may be F32 F16 BF16",
        source_.path().c_str(), name.c_str(), std::string(dtype_info(info.dtype).name).c_str()));
    return {};
  }
  if (product(info.shape, 0) != n) {
    fail(wrong_shape(source_, name, info, {n}));
    return {};
  }
  std::vector<float> out(static_cast<size_t>(n));
  dequantize_row(info.dtype, info.data, out.data(), n);
  return out;
}

LinearRef WeightReader::linear(const std::string& prefix, int64_t n_out, int64_t n_in,
                               bool with_bias) {
  LinearRef ref;
  ref.w = matrix(prefix + ".weight", n_out, n_in);
  if (with_bias) ref.bias = values(prefix + ".bias", n_out);
  return ref;
}

}  // namespace outrider
