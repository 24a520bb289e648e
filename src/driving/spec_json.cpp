// The spec record of a link. Source: link specification 7.
#include "base/json_text.h"
#include "driving/spec.h"

namespace outrider::driving {
namespace {

void put_shapes(std::string& out, const char* key, const std::vector<NamedShape>& ports) {
  out += std::string(",\"") + key + "\":{";
  for (size_t i = 0; i < ports.size(); ++i) {
    out += (i > 0 ? "," : "") + json_quoted(ports[i].name) + ":[";
    for (size_t k = 0; k < ports[i].dims.size(); ++k)
      out += (k > 0 ? "," : "") + std::to_string(ports[i].dims[k]);
    out += "]";
  }
  out += "}";
}

}  // namespace

std::string spec_json(const Spec& spec) {
  std::string out = "{\"frame_skip\":" + std::to_string(spec.frame_skip);
  out += ",\"checkpoint\":" + (spec.has_checkpoint ? json_quoted(spec.checkpoint) : "null");
  put_shapes(out, "input_shapes", spec.inputs);
  put_shapes(out, "output_shapes", spec.outputs);
  std::vector<NamedShape> slices;
  for (const NamedRange& s : spec.slices) slices.push_back({s.name, {s.range.begin, s.range.end}});
  put_shapes(out, "output_slices", slices);
  return out + "}";
}

}  // namespace outrider::driving
