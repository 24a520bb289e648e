// The products of one PI0.5 run: 2 views, 48 prompt tokens, 50 action rows. "one_view" and "longest":
// the fewest rows of the vision tower, and three views with 200 prompt tokens.
#pragma once
#include <cstdint>

namespace outrider::bench {

struct Shape {
  const char* name;
  int64_t m, n_out, n_in;
};

inline constexpr Shape kLinears[] = {
    {"vision_patch", 512, 1152, 588},   {"vision_qkv", 512, 3456, 1152},
    {"vision_out", 512, 1152, 1152},    {"vision_up", 512, 4304, 1152},
    {"vision_down", 512, 1152, 4304},   {"vision_project", 512, 2048, 1152},
    {"prefix_qkv", 560, 2560, 2048},    {"prefix_out", 560, 2048, 2048},
    {"prefix_down", 560, 2048, 16384},  {"expert_qkv", 50, 2560, 1024},
    {"expert_out", 50, 1024, 2048},     {"expert_down", 50, 1024, 4096},
    {"expert_51_up", 51, 4096, 1024},   {"expert_modulate", 1, 3072, 1024},
    {"expert_action_in", 50, 1024, 32}, {"expert_action_out", 50, 32, 1024},
    {"decode_gemv", 1, 16384, 2048},    {"one_view_qkv", 256, 3456, 1152},
    {"one_view_out", 256, 1152, 1152},  {"one_view_up", 256, 4304, 1152},
    {"one_view_down", 256, 1152, 4304}, {"longest_qkv", 968, 2560, 2048},
    {"longest_out", 968, 2048, 2048},   {"longest_down", 968, 2048, 16384},
};
// Gate and up in one: n_out counts one of them.
inline constexpr Shape kGated[] = {{"prefix_gate_up", 560, 16384, 2048},
                                   {"longest_gate_up", 968, 16384, 2048},
                                   {"expert_gate_up", 50, 4096, 1024}};

}  // namespace outrider::bench
