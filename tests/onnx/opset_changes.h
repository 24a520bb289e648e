// What the standard changed of claimed operators in opsets 18 to 21, what this build does with it
// and which test of ours shows that (the standard's node tests that Debian has end at 17).
#pragma once
#include <cstdint>

namespace outrider::onnx::test {

struct OpsetChange {
  int64_t opset;
  const char* operators;
  const char* change;
  const char* here;
  const char* test;
};

inline constexpr const char* kDone = "done";
inline constexpr const char* kRefused = "refused";

inline constexpr OpsetChange kOpsetChanges[] = {
    {18, "ReduceMax, ReduceMean, ReduceMin, ReduceProd, ReduceL1, ReduceSumSquare",
     "axes as an input", kDone, "OnnxOpset18.reductions_take_their_axes_as_an_input"},
    {18, "ReduceL2, ReduceLogSum, ReduceLogSumExp", "axes as an input", kDone,
     "OnnxOpset18.every_other_reduction_takes_its_axes_as_an_input"},
    {18, "Reduce...", "noop_with_empty_axes", kDone,
     "OnnxOpset18.a_reduction_over_no_axes_is_over_all_or_over_none"},
    {18, "Split", "num_outputs, a smaller last part", kDone,
     "OnnxOpset18.split_into_unequal_parts"},
    {18, "Split", "num_outputs that is not the number of outputs", kRefused,
     "OnnxOpset18.split_into_another_number_than_outputs_is_refused"},
    {18, "Pad", "axes", kDone, "OnnxOpset18.pad_names_axes"},
    {18, "Resize", "antialias", kDone,
     "OnnxOpset18.resize_with_antialias_takes_the_mean_of_what_falls_together"},
    {18, "Resize", "keep_aspect_ratio_policy", kDone,
     "OnnxOpset18.resize_keeps_the_ratio_of_sides_when_asked"},
    {18, "Resize", "axes; from 19 half_pixel_symmetric", kDone, "OnnxOpset18.resize_names_axes"},
    {18, "LpPool", "dilations, ceil_mode", kDone, "OnnxOpset18.lp_pool_skips_places_and_rounds_up"},
    {18, "ScatterElements", "reduction max", kDone, "OnnxOpset18.scatter_keeps_the_largest"},
    {18, "ScatterElements, ScatterND", "reductions min, max", kDone,
     "OnnxOpset18.scatter_keeps_the_smallest_and_by_index_the_largest"},
    {18, "GroupNormalization", "new; from 21 scale and bias for each channel", kDone,
     "OnnxOpset18.group_norm_scales_groups_and_from_21_on_channels"},
    {18, "Mish; Gelu in 20", "new", kDone,
     "OnnxOpset18.mish_and_opset_20_gelu_follow_their_formulas"},
    {18,
     "BitwiseAnd, BitwiseNot, BitwiseOr, BitwiseXor, CenterCropPad, Col2Im, OptionalHasElement; "
     "DeformConv in 19; AffineGrid, DFT, GridSample, ImageDecoder, RegexFullMatch, StringConcat, "
     "StringSplit in 20",
     "new or changed", kRefused,
     "OnnxOpset18.operators_that_came_later_and_are_not_claimed_are_refused_by_name"},
    {19, "AveragePool", "dilations", kDone, "OnnxOpset19.average_pool_skips_places"},
    {19, "Pad", "mode wrap", kDone, "OnnxOpset19.pad_wraps_around"},
    {19, "Cast, CastLike", "8-bit real numbers; from 21 4-bit whole ones", kRefused,
     "OnnxOpset19.casts_to_numbers_of_8_and_4_bits_are_refused"},
    {19, "Equal", "texts", kRefused, "OnnxOpset19.equal_of_texts_is_refused"},
    {19, "Reshape", "more element types (none of ours); allowzero since 14", kDone,
     "OnnxOpset19.a_reshape_to_nothing_is_nothing_and_to_0_keeps_the_size"},
    {20, "ReduceMax, ReduceMin", "truth values", kDone, "OnnxOpset20.largest_and_smallest_truth"},
    {20, "IsInf, IsNaN", "half precision", kDone, "OnnxOpset20.halves_are_infinite_or_no_number"},
    {21, "QuantizeLinear, DequantizeLinear", "block_size", kDone,
     "OnnxQuantize.each_channel_or_block_has_its_scale"},
    {21, "QuantizeLinear", "output_dtype of 8 bits; others are refused", kDone,
     "OnnxOpset21.quantize_names_its_type_and_refuses_those_of_4_bits"},
    {21, "all that take constants", "4-bit constants", kRefused,
     "OnnxOpset21.constants_of_4_bits_are_refused_by_name"},
};

}  // namespace outrider::onnx::test
