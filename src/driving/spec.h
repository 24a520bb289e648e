// What a driving graph is: layout, frame, scalars, queues, outputs. All sizes follow from the
// graph's ports and two entries of its metadata; a device gets the same facts as a spec record over
// a link. Plain values, for the model side and the link side alike: nothing here computes a policy.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace outrider::driving {

// Half-open, in floats of the output vector.
struct Range {
  int64_t begin = 0, end = 0;
  int64_t size() const { return end - begin; }
  bool operator==(const Range&) const = default;
};
struct NamedShape {
  std::string name;
  std::vector<int64_t> dims;
  bool operator==(const NamedShape&) const = default;
};
struct NamedRange {
  std::string name;
  Range range;
  bool operator==(const NamedRange&) const = default;
};

enum class Layout : uint8_t {
  kQueued,   // inputs img, big_img, desire_pulse, features_buffer: the runtime keeps the history
  kStateful  // input new_img: the graph keeps it, in state inputs X with outputs next_X
};

inline constexpr int64_t kDefaultFrameSkip = 4;  // 20 Hz frames, 5 Hz context
inline constexpr int64_t kMaxFrameSkip = 64;
inline constexpr int64_t kViews = 2, kPlanes = 6;  // road and wide camera; 4 luma phases, U, V
inline constexpr int64_t kMaxHistoryBytes = int64_t{1} << 30;  // of all queues together
inline constexpr int64_t kMaxPortBytes = int64_t{1} << 30;     // of one port, as float32
inline constexpr size_t kMaxPorts = 256;

struct Spec {
  Layout layout = Layout::kQueued;
  int64_t frame_skip = kDefaultFrameSkip;
  bool has_checkpoint = false;
  std::string checkpoint;  // words of the file: hostile
  std::vector<NamedShape> inputs, outputs;
  std::vector<NamedRange> slices;  // resolved against the output vector, in the file's order

  // From these follows:
  int64_t height = 0, width = 0;  // of one plane: half the model's picture
  int64_t n_desire = 0, n_traffic = 0, n_action = 0;
  // Queued graphs only:
  int64_t n_frames = 0;                            // stacked in img
  int64_t n_feature_rows = 0, feature_floats = 0;  // rows sampled, floats of one
  int64_t n_desire_rows = 0;                       // groups pooled
  int64_t n_outputs = 0;
  Range hidden;  // empty: none

  int64_t view_bytes() const { return kPlanes * height * width; }
  int64_t frames_bytes() const { return kViews * view_bytes(); }  // u8 {2,6,H,W}
  // Desire, traffic_convention, action_t, in this order.
  int64_t n_packed() const { return n_desire + n_traffic + n_action; }
  // Floats of a reply: the output vector without the hidden state.
  int64_t n_reply() const { return n_outputs - hidden.size(); }
  // Rows of the queues.
  int64_t image_ring_rows() const { return frame_skip * (n_frames - 1) + 1; }
  int64_t feature_ring_rows() const { return frame_skip * n_feature_rows; }
  int64_t desire_ring_rows() const { return frame_skip * n_desire_rows; }

  const NamedShape* find_input(std::string_view name) const;
  const NamedShape* find_output(std::string_view name) const;
  const Range* find_slice(std::string_view name) const;
};

// What a graph's file tells about itself.
struct GraphFacts {
  std::vector<NamedShape> inputs, outputs;  // every dimension has a size
  std::vector<std::pair<std::string, std::string>> metadata;
};

inline constexpr const char* kSlicesKey = "output_slices";
inline constexpr const char* kCheckpointKey = "model_checkpoint";

// Does it look like a driving graph: `new_img`, or `img` and `big_img`, an output `outputs` and
// metadata "output_slices"? Only a hint: read_spec() decides.
bool looks_like_driving(const GraphFacts& facts);

// [setup] Errors: kNotFound (the file contradicts itself: an input is missing or has a shape that
// no driving graph has, unreadable metadata, a slice outside the output), kShape (hidden state and
// features_buffer differ, sizes beyond the limits), kInvalid (frame_skip outside 1..64). Each names
// input, slice or key with value found and value allowed.
Result<Spec> read_spec(const GraphFacts& facts, int64_t frame_skip);

// What a link's spec record tells of a graph (JSON, one line): frame_skip, checkpoint (string or
// null), input_shapes, output_shapes, output_slices. The file's sha256 and nbytes are put in front
// by who knows them; link/jetlink/spec.h reads the whole record.
std::string spec_json(const Spec& spec);

}  // namespace outrider::driving
