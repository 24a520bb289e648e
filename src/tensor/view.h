// A look at a row-major matrix somebody else owns. Rows may be strided.
#pragma once
#include <cstdint>

namespace outrider {

template <class T>
struct View {
  T* data = nullptr;
  int64_t rows = 0, cols = 0;
  int64_t stride = 0;  // values from one row to the next, >= cols

  View() = default;
  View(T* d, int64_t r, int64_t c) : data(d), rows(r), cols(c), stride(c) {}
  View(T* d, int64_t r, int64_t c, int64_t s) : data(d), rows(r), cols(c), stride(s) {}
  operator View<const T>() const { return {data, rows, cols, stride}; }

  T* row(int64_t i) const { return data + i * stride; }
  View rows_from(int64_t first, int64_t n) const { return {row(first), n, cols, stride}; }
  View cols_from(int64_t first, int64_t n) const { return {data + first, rows, n, stride}; }
};

}  // namespace outrider
