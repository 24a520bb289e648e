// Any bytes as what a driving graph says about itself: its output_slices (as text and as a pickle)
// and the name of its checkpoint. Either a one-line refusal, or facts that hold together.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/assert.h"
#include "base/json.h"
#include "driving/heads.h"
#include "driving/slices.h"
#include "driving/spec.h"

namespace {

using namespace outrider;
using namespace outrider::driving;

void require_plain(const Error& error) {
  OUTRIDER_ASSERT(error.code != Code::kOk);
  for (const char c : error.message()) OUTRIDER_ASSERT(c >= 0x20 && c < 0x7F);
}

void require_sound(const Spec& spec) {
  for (const NamedRange& slice : spec.slices)
    OUTRIDER_ASSERT(slice.range.begin >= 0 && slice.range.begin <= slice.range.end &&
                    slice.range.end <= spec.n_outputs);
  OUTRIDER_ASSERT(spec.frames_bytes() > 0 && spec.n_packed() > 0 && spec.n_reply() >= 0);
  OUTRIDER_ASSERT(spec.frame_skip >= 1 && spec.frame_skip <= kMaxFrameSkip);
  const auto record = Json::parse(spec_json(spec));
  OUTRIDER_ASSERT(record);
  const Json* slices = record.value().find("output_slices");
  OUTRIDER_ASSERT(slices != nullptr && slices->members().size() == spec.slices.size());
}

void as_slices(std::string_view text) {
  if (auto slices = unpickle_slices(text); !slices) require_plain(slices.error());
  GraphFacts facts{
      {{"new_img", {2, 6, 2, 2}}, {"desire", {8}}, {"traffic_convention", {2}}, {"action_t", {2}}},
      {{"outputs", {1, 4000}}},
      {{kSlicesKey, std::string(text)}}};
  auto spec = read_spec(facts, 4);
  if (!spec) return require_plain(spec.error());
  require_sound(spec.value());
  auto heads = HeadParser::make(spec.value(), HeadsWanted::kKnown);
  static const std::vector<float> outputs(4000, 1.0f);
  OUTRIDER_ASSERT(heads && heads.value().parse(outputs.data()));
}

void as_checkpoint(std::string_view text) {
  GraphFacts facts{
      {{"new_img", {2, 6, 2, 2}}, {"desire", {8}}, {"traffic_convention", {2}}, {"action_t", {2}}},
      {{"outputs", {1, 8}}},
      {{kSlicesKey, "{\"plan\":[0,4]}"}, {kCheckpointKey, std::string(text)}}};
  auto spec = read_spec(facts, 4);
  if (!spec) return require_plain(spec.error());
  require_sound(spec.value());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  as_slices(text);
  as_checkpoint(text);
  return 0;
}
