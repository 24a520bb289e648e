#include "onnx/ops/broadcast.h"

namespace outrider::onnx {

Result<Shape> broadcast_shape(const NodeContext& c, const Shape& a, const Shape& b) {
  const int rank = std::max(a.rank(), b.rank());
  Shape out;
  for (int i = 0; i < rank; ++i) {
    const int ia = i - (rank - a.rank()), ib = i - (rank - b.rank());
    const int64_t da = ia < 0 ? 1 : a[ia], db = ib < 0 ? 1 : b[ib];
    if (da != db && da != 1 && db != 1)
      return c.wrong("shapes %s and %s do not fit each other", a.text().c_str(), b.text().c_str());
    out.push_back(da == 1 ? db : da);
  }
  return out;
}

Loops::Loops(const Shape& out, std::initializer_list<const Shape*> operands)
    : n_operands(static_cast<int>(operands.size())), n_values(out.n_values()) {
  int64_t wide[kMost][kMaxRank] = {};
  int k = 0;
  for (const Shape* operand : operands) {
    int64_t step = 1;
    for (int d = out.rank() - 1; d >= 0; --d) {
      const int own = d - (out.rank() - operand->rank());
      const int64_t size = own < 0 ? 1 : (*operand)[own];
      wide[k][d] = size == 1 ? 0 : step;
      step *= size;
    }
    ++k;
  }
  for (int d = 0; d < out.rank(); ++d) {
    if (out[d] == 1) continue;
    // Joined with the dimension before it when one step there is a whole run here, for everybody.
    bool joins = rank > 0;
    for (int o = 0; o < n_operands && joins; ++o)
      joins = stride[o][rank - 1] == wide[o][d] * out[d];
    if (!joins) ++rank;
    dims[rank - 1] = joins ? dims[rank - 1] * out[d] : out[d];
    for (int o = 0; o < n_operands; ++o) stride[o][rank - 1] = wide[o][d];
  }
}

}  // namespace outrider::onnx
