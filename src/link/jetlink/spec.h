// What both ends know of a driving model: its identity, the shapes of its graph, and every size on
// the wire that follows from them. Only the host reads the graph; this is its JSON form.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "base/sha256.h"

namespace outrider::link::jetlink {

inline constexpr uint32_t kDefaultFrameSkip = 4;  // 20 Hz frames, 5 Hz history
inline constexpr uint32_t kMaxFrameSkip = 1000;
inline constexpr int64_t kMaxModelBytes = int64_t{1} << 40;

// What a client asks for. frame_skip is part of it.
struct ModelId {
  std::string sha256;  // 64 lower-case hexadecimal digits
  int64_t nbytes = 0;
  uint32_t frame_skip = kDefaultFrameSkip;
  bool same_engine(const ModelId& other) const {
    return sha256 == other.sha256 && frame_skip == other.frame_skip;
  }
};

// Of the output vector, with Python's rules: negative counts from the end, nullopt is open, both
// are clamped.
struct Slice {
  std::optional<int64_t> start, stop;
  bool operator==(const Slice&) const = default;
};
using Shape = std::vector<int64_t>;

struct ModelSpec {
  ModelId id;
  std::optional<std::string> checkpoint;
  std::map<std::string, Shape> inputs, outputs;
  std::map<std::string, Slice> slices;

  bool stateful() const { return inputs.contains("new_img"); }
};

// Sizes of the messages of one model. Numbers are counts of floats unless they say bytes.
struct Sizes {
  uint32_t height = 0, width = 0;                // of one plane
  uint64_t warped_bytes = 0;                     // 2 cameras of 6 planes
  uint32_t desire = 0, traffic = 0, action = 0;  // packed, in this order
  uint32_t prev_feat = 0;                        // wire version 2, queued graphs: after them
  uint64_t output = 0;                           // the whole vector
  uint64_t hidden_start = 0, hidden_stop = 0;    // inside it; equal: none
  uint64_t packed() const { return uint64_t{desire} + traffic + action; }
  uint64_t reply() const { return output - (hidden_stop - hidden_start); }
  uint64_t request_bytes(uint16_t version) const;            // payload of an INFER_REQ
  uint64_t reply_bytes(uint16_t version, bool whole) const;  // of an OK one, without telemetry
};

// [setup] Errors: kShape or kInvalid naming input, output or slice, what was found and what is
// allowed. Products are checked: a request fits a message.
Result<Sizes> sizes_of(const ModelSpec& spec);

// One JSON object, the keys of the wire.
std::string to_json(const ModelSpec& spec);
// Errors: kInvalid naming the field. frame_skip and checkpoint may be left out.
Result<ModelSpec> spec_from_json(const Json& json);

}  // namespace outrider::link::jetlink
