// The sizes of an array, fixed at open.
#pragma once
#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "base/assert.h"
#include "onnx/model.h"

namespace outrider::onnx {

class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<int64_t> dims) : Shape(std::span(dims.begin(), dims.size())) {}
  explicit Shape(std::span<const int64_t> dims) : rank_(static_cast<uint32_t>(dims.size())) {
    OUTRIDER_ASSERT(dims.size() <= kMaxRank);
    for (size_t i = 0; i < dims.size(); ++i) dims_[i] = dims[i];
  }

  int rank() const { return static_cast<int>(rank_); }
  int64_t operator[](int i) const { return dims_[static_cast<size_t>(i)]; }
  int64_t& operator[](int i) { return dims_[static_cast<size_t>(i)]; }
  int64_t back() const { return dims_[rank_ - 1]; }
  std::span<const int64_t> dims() const { return {dims_.data(), rank_}; }
  void push_back(int64_t dim) {
    OUTRIDER_ASSERT(rank_ < kMaxRank);
    dims_[rank_++] = dim;
  }
  bool operator==(const Shape& other) const {
    return rank_ == other.rank_ &&
           std::equal(dims_.begin(), dims_.begin() + rank_, other.dims_.begin());
  }

  // Product of dims [first, last), INT64_MAX when it is larger: the planner refuses such a value.
  int64_t product(int first, int last) const {
    int64_t n = 1;
    for (int i = first; i < last; ++i)
      if (__builtin_mul_overflow(n, (*this)[i], &n)) return INT64_MAX;
    return n;
  }
  int64_t n_values() const { return product(0, rank()); }
  // "{1, 48}"
  std::string text() const;

 private:
  std::array<int64_t, kMaxRank> dims_{};
  uint32_t rank_ = 0;
};

struct TensorType {
  DType dtype = DType::kF32;
  Shape shape;
  bool operator==(const TensorType&) const = default;
  size_t n_bytes() const { return static_cast<size_t>(shape.n_values()) * dtype_bytes(dtype); }
  // "f32 {1, 48}"
  std::string text() const;
};

// "f32", "i64", ...
const char* short_type_name(DType dtype);

}  // namespace outrider::onnx
