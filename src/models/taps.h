// What stages computed on the way, by name. Off unless somebody asked; recording may allocate.
#pragma once
#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <vector>

#include "tensor/view.h"

namespace outrider {

struct Tap {
  std::array<int64_t, 4> shape{};
  uint32_t rank = 0;
  std::vector<float> values;
};

class TapRecorder {
 public:
  void record(const std::string& name, View<const float> rows) {
    Tap& tap = taps_[name];
    tap.shape = {rows.rows, rows.cols, 0, 0};
    tap.rank = 2;
    tap.values.resize(static_cast<size_t>(rows.rows * rows.cols));
    for (int64_t i = 0; i < rows.rows; ++i) {
      std::copy_n(rows.row(i), rows.cols, tap.values.data() + i * rows.cols);
    }
  }
  void reshape(const std::string& name, std::array<int64_t, 4> shape, uint32_t rank) {
    taps_[name].shape = shape;
    taps_[name].rank = rank;
  }
  void clear() { taps_.clear(); }
  const std::map<std::string, Tap>& taps() const { return taps_; }

 private:
  std::map<std::string, Tap> taps_;
};

}  // namespace outrider
