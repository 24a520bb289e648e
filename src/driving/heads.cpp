#include "driving/heads.h"

#include <algorithm>
#include <cmath>

namespace outrider::driving {
namespace {

constexpr HeadForm kForms[] = {
    {"plan", HeadRule::kMixture, 2, {33, 15, 0}, 1, true},
    {"lane_lines", HeadRule::kMixture, 3, {4, 33, 2}, 1, true},
    {"lane_lines_prob", HeadRule::kSigmoid, 1, {8, 0, 0}, 1, true},
    {"road_edges", HeadRule::kMixture, 3, {2, 33, 2}, 1, true},
    {"lead", HeadRule::kMixture, 3, {3, 6, 4}, 3, true},
    {"lead_prob", HeadRule::kSigmoid, 1, {3, 0, 0}, 1, true},
    {"meta", HeadRule::kSigmoid, 1, {0, 0, 0}, 1, true},
    {"desire_pred", HeadRule::kSoftmax, 2, {4, 8, 0}, 1, true},
    {"desire_state", HeadRule::kSoftmax, 1, {8, 0, 0}, 1, false},
    {"pose", HeadRule::kMixture, 1, {6, 0, 0}, 1, true},
    {"wide_from_device_euler", HeadRule::kMixture, 1, {3, 0, 0}, 1, true},
    {"road_transform", HeadRule::kMixture, 1, {6, 0, 0}, 1, true},
};
constexpr int64_t kMaxHypotheses = 16;

std::vector<int64_t> dims_of(const HeadForm& form, const Range& range) {
  std::vector<int64_t> dims(form.dims.begin(), form.dims.begin() + form.rank);
  if (dims[0] == 0) dims[0] = range.size();
  return dims;
}

int64_t count(const std::vector<int64_t>& dims) {
  int64_t n = 1;
  for (const int64_t dim : dims) n *= dim;
  return n;
}

// 1: means and deviations alone; more: so many hypotheses with their weights; 0: another size.
int64_t hypotheses(const HeadForm& form, const Range& range) {
  const int64_t n = count(dims_of(form, range));
  if (form.rule != HeadRule::kMixture) return range.size() == n ? 1 : 0;
  if (range.size() == 2 * n) return 1;
  const int64_t one = 2 * (n / form.n_selected) + form.n_selected;
  const int64_t n_hypotheses = range.size() / one;
  return range.size() % one == 0 && n_hypotheses > 1 && n_hypotheses <= kMaxHypotheses
             ? n_hypotheses
             : 0;
}

}  // namespace

float safe_exp(float x) noexcept {
  return std::exp(x > 11.0f ? 11.0f : x);
}

float sigmoid(float x) noexcept {
  return 1.0f / (1.0f + safe_exp(-x));
}

void softmax(float* x, int64_t n) noexcept {
  float most = x[0], sum = 0;
  for (int64_t i = 1; i < n; ++i) most = std::max(most, x[i]);
  for (int64_t i = 0; i < n; ++i) sum += x[i] = safe_exp(x[i] - most);
  for (int64_t i = 0; i < n; ++i) x[i] /= sum;
}

std::span<const HeadForm> head_forms() {
  return kForms;
}

Result<HeadParser> HeadParser::make(const Spec& spec, HeadsWanted wanted) {
  HeadParser parser;
  for (const HeadForm& form : kForms) {
    const Range* range = spec.find_slice(form.name);
    const bool must = wanted == HeadsWanted::kRequired && form.required;
    if (range == nullptr) {
      if (must)
        return make_error(Code::kNotFound, "driving: the model has no head \"%s\"", form.name);
      continue;
    }
    const int64_t n_hypotheses = hypotheses(form, *range);
    if (n_hypotheses > 0) {
      parser.add(form, *range, n_hypotheses);
      continue;
    }
    if (wanted == HeadsWanted::kRequired)
      return make_error(Code::kShape, "driving: head %s has %lld values, allowed is %lld%s",
                        form.name, static_cast<long long>(range->size()),
                        static_cast<long long>(count(dims_of(form, *range)) *
                                               (form.rule == HeadRule::kMixture ? 2 : 1)),
                        form.rule == HeadRule::kMixture ? ", or hypotheses with weights" : "");
    parser.unread_.push_back(std::string(form.name) + " (" + std::to_string(range->size()) + ")");
  }
  return parser;
}

void HeadParser::add(const HeadForm& form, const Range& range, int64_t n_hypotheses) {
  const std::vector<int64_t> dims = dims_of(form, range);
  Head head{&form, range, n_hypotheses, arrays_.size(), arrays_.size()};
  const bool mixture = form.rule == HeadRule::kMixture;
  for (int k = 0; k < (mixture ? 2 : 1); ++k) {
    HeadArray array{std::string(form.name) + (k == 1 ? "_std" : ""), dims, values_.size(),
                    static_cast<size_t>(count(dims))};
    values_.resize(values_.size() + array.n);
    arrays_.push_back(std::move(array));
  }
  if (mixture) ++head.deviation;
  heads_.push_back(head);
}

// Single: the first half is the means, the second the deviations' logarithms. With hypotheses each
// of them has n means, n deviations and its weights; for every selection the likeliest is taken.
void HeadParser::parse_mixture(const Head& head, const float* raw) noexcept {
  const HeadArray &mean = arrays_[head.mean], &deviation = arrays_[head.deviation];
  const int64_t n_selected = head.n_hypotheses > 1 ? head.form->n_selected : 1;
  const int64_t n = static_cast<int64_t>(mean.n) / n_selected;
  const int64_t stride = head.n_hypotheses > 1 ? 2 * n + n_selected : 2 * n;
  for (int64_t s = 0; s < n_selected; ++s) {
    const float* best = raw;
    // The order of weights is that of their softmax; of equal ones the last.
    for (int64_t h = 1; h < head.n_hypotheses; ++h) {
      const float* other = raw + h * stride;
      if (other[2 * n + s] >= best[2 * n + s]) best = other;
    }
    for (int64_t i = 0; i < n; ++i) {
      values_[mean.offset + static_cast<size_t>(s * n + i)] = best[i];
      values_[deviation.offset + static_cast<size_t>(s * n + i)] = safe_exp(best[n + i]);
    }
  }
}

bool HeadParser::parse(const float* outputs) noexcept {
  for (const Head& head : heads_) {
    const float* raw = outputs + head.range.begin;
    if (head.form->rule == HeadRule::kMixture) {
      parse_mixture(head, raw);
      continue;
    }
    const HeadArray& array = arrays_[head.mean];
    float* out = values_.data() + array.offset;
    const auto n = static_cast<int64_t>(array.n);
    if (head.form->rule == HeadRule::kSigmoid) {
      for (int64_t i = 0; i < n; ++i) out[i] = sigmoid(raw[i]);
      continue;
    }
    std::copy_n(raw, n, out);
    const int64_t row = array.dims.back();
    for (int64_t i = 0; i < n; i += row) softmax(out + i, row);
  }
  for (const HeadArray& array : arrays_)
    for (size_t i = 0; i < array.n; ++i)
      if (!std::isfinite(values_[array.offset + i])) {
        bad_ = &array;
        return false;
      }
  bad_ = nullptr;
  return true;
}

const HeadArray* HeadParser::find(std::string_view name) const {
  const auto at =
      std::ranges::find_if(arrays_, [&](const HeadArray& array) { return array.name == name; });
  return at == arrays_.end() ? nullptr : &*at;
}

}  // namespace outrider::driving
