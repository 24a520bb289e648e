// The metadata entry "output_slices": which part of the output vector is which head. Exporters
// write a base64 text of a Python pickle of {name: slice}; JSON {name: [start, stop]} is read as
// well.
//
// The pickle is data here, never a program: the reader knows the few instructions that a dictionary
// of slices needs (protocols 0 to 5), builds plain values, and the only name it accepts is the
// built-in `slice`. Anything else is refused with the instruction and its offset.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "driving/spec.h"

namespace outrider::driving {

inline constexpr size_t kMaxSlicesBytes = size_t{1}
                                          << 18;  // of the entry, and of what it decodes to
inline constexpr size_t kMaxSlices = 1024;
inline constexpr size_t kMaxSliceNameBytes = 96;

// slice(start, stop, step) as written; absent: None.
struct RawSlice {
  std::optional<int64_t> start, stop, step;
  bool operator==(const RawSlice&) const = default;
};
using RawSlices = std::vector<std::pair<std::string, RawSlice>>;

// [setup] Errors: kNotFound with what was found and where. Names are unique, 1..96 bytes of
// printable ASCII.
Result<RawSlices> decode_slices(std::string_view text);
// The bytes of a pickle. Errors: as decode_slices().
Result<RawSlices> unpickle_slices(std::string_view pickle);

// As Python resolves it for a vector of n values: negative counts from the end, absent is the end,
// what lies outside is clamped. Errors: kNotFound for a step other than 1.
Result<Range> resolve_slice(const RawSlice& slice, int64_t n);

// Base64 of a pickle (protocol 4), as exporters write it: what decode_slices() reads.
std::string encode_slices(const std::vector<NamedRange>& slices);

}  // namespace outrider::driving
