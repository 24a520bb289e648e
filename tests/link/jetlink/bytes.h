// Bytes as hexadecimal text, and small models for tests of the Jetlink dialect.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "link/jetlink/spec.h"

namespace outrider::link::jetlink {

inline std::string hex(std::span<const std::byte> bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (const std::byte b : bytes) {
    out += kDigits[std::to_integer<unsigned>(b) >> 4];
    out += kDigits[std::to_integer<unsigned>(b) & 15];
  }
  return out;
}

inline std::vector<std::byte> from_text(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

// The queued layout with the shapes of the models that are shipped.
inline ModelSpec shipped_queued() {
  ModelSpec spec;
  spec.id = {std::string(64, 'a'), 765'953'504, 4};
  spec.inputs = {{"img", {1, 12, 128, 256}},   {"big_img", {1, 12, 128, 256}},
                 {"desire_pulse", {1, 33, 8}}, {"traffic_convention", {1, 2}},
                 {"action_t", {1, 2}},         {"features_buffer", {1, 32, 32, 512}}};
  spec.outputs = {{"outputs", {1, 18452}}};
  spec.slices = {{"plan", {917, 1907}}, {"hidden_state", {2066, 18450}}};
  return spec;
}

inline ModelSpec shipped_stateful() {
  ModelSpec spec = shipped_queued();
  spec.id.sha256 = std::string(64, 'b');
  spec.inputs = {{"new_img", {2, 6, 128, 256}},        {"desire", {8}},
                 {"traffic_convention", {1, 2}},       {"action_t", {1, 2}},
                 {"state_img_q", {2, 5, 6, 128, 256}}, {"state_desire_q", {132, 1, 8}},
                 {"state_feat_q", {128, 1, 16384}}};
  return spec;
}

// 4 x 6 pictures, 20 outputs of which 4 are hidden.
inline ModelSpec tiny_queued() {
  ModelSpec spec;
  spec.id = {std::string(64, 'c'), 1000, 4};
  spec.checkpoint = "tiny";
  spec.inputs = {{"img", {1, 12, 4, 6}},      {"big_img", {1, 12, 4, 6}},
                 {"desire_pulse", {1, 3, 8}}, {"traffic_convention", {1, 2}},
                 {"action_t", {1, 2}},        {"features_buffer", {1, 2, 2, 2}}};
  spec.outputs = {{"outputs", {1, 20}}};
  spec.slices = {{"plan", {0, 10}}, {"hidden_state", {12, 16}}};
  return spec;
}

}  // namespace outrider::link::jetlink
