// Facts of the shipped driving graphs, and small ones of the same kind.
#pragma once
#include "driving/slices.h"
#include "driving/spec.h"

namespace outrider::driving::test {

// The 18452-float output of the big models.
inline std::vector<NamedRange> big_slices() {
  return {{"lane_lines", {0, 528}},
          {"lane_lines_prob", {528, 536}},
          {"road_edges", {536, 800}},
          {"meta", {800, 855}},
          {"desire_pred", {855, 887}},
          {"pose", {887, 899}},
          {"wide_from_device_euler", {899, 905}},
          {"road_transform", {905, 917}},
          {"plan", {917, 1907}},
          {"lead", {1907, 2051}},
          {"lead_prob", {2051, 2054}},
          {"desire_state", {2054, 2062}},
          {"action", {2062, 2066}},
          {"hidden_state", {2066, 18450}},
          {"pad", {18450, 18452}}};
}

inline GraphFacts big_queued() {
  return {{{"img", {1, 12, 128, 256}},
           {"big_img", {1, 12, 128, 256}},
           {"desire_pulse", {1, 33, 8}},
           {"traffic_convention", {1, 2}},
           {"action_t", {1, 2}},
           {"features_buffer", {1, 32, 32, 512}}},
          {{"outputs", {1, 18452}}},
          {{kSlicesKey, encode_slices(big_slices())}, {kCheckpointKey, "made"}}};
}

inline GraphFacts big_stateful() {
  return {{{"new_img", {2, 6, 128, 256}},
           {"desire", {8}},
           {"traffic_convention", {1, 2}},
           {"action_t", {1, 2}},
           {"state_img_q", {2, 5, 6, 128, 256}},
           {"state_desire_q", {132, 1, 8}},
           {"state_feat_q", {128, 1, 16384}}},
          {{"outputs", {1, 18452}},
           {"next_state_img_q", {2, 5, 6, 128, 256}},
           {"next_state_desire_q", {132, 1, 8}},
           {"next_state_feat_q", {128, 1, 16384}}},
          {{kSlicesKey, encode_slices(big_slices())}}};
}

// Queued, with every size free: for staging.
struct SmallSizes {
  int64_t skip = 4, n_frames = 2, height = 2, width = 3;
  std::vector<int64_t> features = {1, 3, 2, 5};
  int64_t n_desire_rows = 3, n_desire = 4;
};
inline Spec small_queued(const SmallSizes& s) {
  int64_t row = 1;
  for (size_t i = 2; i < s.features.size(); ++i) row *= s.features[i];
  GraphFacts facts{{{"img", {1, 6 * s.n_frames, s.height, s.width}},
                    {"big_img", {1, 6 * s.n_frames, s.height, s.width}},
                    {"desire_pulse", {1, s.n_desire_rows, s.n_desire}},
                    {"traffic_convention", {1, 2}},
                    {"action_t", {1, 2}},
                    {"features_buffer", s.features}},
                   {{"outputs", {1, row + 7}}},
                   {{kSlicesKey, encode_slices({{"hidden_state", {5, 5 + row}}})}}};
  return read_spec(facts, s.skip).value();
}

}  // namespace outrider::driving::test
