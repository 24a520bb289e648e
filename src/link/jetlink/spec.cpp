#include "link/jetlink/spec.h"

#include <algorithm>

#include "base/json_text.h"
#include "base/printable.h"
#include "link/jetlink/wire.h"

namespace outrider::link::jetlink {
namespace {

constexpr size_t kMaxTensors = 256, kMaxDims = 16, kMaxSlices = 256, kMaxNameBytes = 256;
constexpr int64_t kMaxElements = int64_t{1} << 40;

std::string shape_text(const Shape& shape) {
  std::string out = "[";
  for (const int64_t size : shape) out += (out.size() > 1 ? "," : "") + std::to_string(size);
  return out + "]";
}

// Elements, or nothing when a size is not positive or there are too many.
std::optional<uint64_t> elements(const Shape& shape, size_t from = 0) {
  int64_t n = 1;
  for (size_t i = from; i < shape.size(); ++i) {
    if (shape[i] < 1 || shape[i] > kMaxElements / n) return std::nullopt;
    n *= shape[i];
  }
  return static_cast<uint64_t>(n);
}

Error wrong(const char* what, const std::string& name, const std::string& found,
            const char* allowed) {
  return make_error(Code::kShape, "driving model: %s \"%s\" is %s, allowed: %s", what,
                    printable(name).c_str(), found.c_str(), allowed);
}

Result<const Shape*> find_input(const ModelSpec& spec, const char* name) {
  const auto at = spec.inputs.find(name);
  if (at == spec.inputs.end())
    return make_error(Code::kShape, "driving model: input \"%s\" is missing", name);
  return &at->second;
}

// Floats of a small input, at most 2^20.
Result<uint32_t> count_of(const ModelSpec& spec, const char* name) {
  auto shape = find_input(spec, name);
  if (!shape) return shape.error();
  const auto n = elements(*shape.value());
  if (!n || *n > (1u << 20))
    return wrong("input", name, shape_text(*shape.value()), "1 to 1048576 numbers");
  return static_cast<uint32_t>(*n);
}

Result<void> picture_sizes(const ModelSpec& spec, Sizes& out) {
  const char* name = spec.stateful() ? "new_img" : "img";
  auto found = find_input(spec, name);
  if (!found) return found.error();
  const Shape& shape = *found.value();
  const char* allowed = spec.stateful() ? "(2,6,H,W)" : "(1,6 * n,H,W)";
  const bool good =
      shape.size() == 4 && (spec.stateful() ? shape[0] == 2 && shape[1] == 6
                                            : shape[0] == 1 && shape[1] >= 6 && shape[1] % 6 == 0);
  const auto n = elements(shape);
  if (!good || !n) return wrong("input", name, shape_text(shape), allowed);
  if (shape[2] > 16384 || shape[3] > 16384)
    return wrong("input", name, shape_text(shape), "planes of at most 16384 x 16384");
  out.height = static_cast<uint32_t>(shape[2]);
  out.width = static_cast<uint32_t>(shape[3]);
  out.warped_bytes = uint64_t{12} * out.height * out.width;
  if (spec.stateful()) return {};
  auto big = find_input(spec, "big_img");
  if (!big) return big.error();
  if (*big.value() != shape)
    return wrong("input", "big_img", shape_text(*big.value()), "the shape of \"img\"");
  return {};
}

Result<void> queued_sizes(const ModelSpec& spec, Sizes& out) {
  auto pulse = find_input(spec, "desire_pulse");
  if (!pulse) return pulse.error();
  auto features = find_input(spec, "features_buffer");
  if (!features) return features.error();
  const Shape& p = *pulse.value();
  const Shape& f = *features.value();
  if (p.size() != 3 || !elements(p) || p[2] > (1 << 20))
    return wrong("input", "desire_pulse", shape_text(p), "(1,rows,numbers)");
  const auto row = f.size() >= 3 && elements(f) ? elements(f, 2) : std::nullopt;
  if (!row || *row > (1u << 22))
    return wrong("input", "features_buffer", shape_text(f), "(1,rows,numbers...)");
  out.desire = static_cast<uint32_t>(p[2]);
  out.prev_feat = static_cast<uint32_t>(*row);
  return {};
}

int64_t resolve(std::optional<int64_t> at, int64_t open, int64_t n) {
  if (!at) return open;
  return std::clamp<int64_t>(*at < 0 ? *at + n : *at, 0, n);
}

Result<void> output_sizes(const ModelSpec& spec, Sizes& out) {
  const auto at = spec.outputs.find("outputs");
  if (at == spec.outputs.end())
    return make_error(Code::kShape, "driving model: output \"outputs\" is missing");
  const auto n = elements(at->second);
  if (!n || *n * 4 + kReplyHeadBytes > kMaxPayloadBytes)
    return wrong("output", "outputs", shape_text(at->second), "1 to 4194299 numbers");
  out.output = *n;
  const auto hidden = spec.slices.find("hidden_state");
  if (hidden == spec.slices.end()) return {};
  const auto size = static_cast<int64_t>(*n);
  const int64_t start = resolve(hidden->second.start, 0, size);
  const int64_t stop = resolve(hidden->second.stop, size, size);
  if (start >= stop) return {};
  out.hidden_start = static_cast<uint64_t>(start);
  out.hidden_stop = static_cast<uint64_t>(stop);
  return {};
}

// ---- JSON -------------------------------------------------------------------------------------

void append(std::string& out, const std::map<std::string, Shape>& shapes) {
  out += '{';
  bool first = true;
  for (const auto& [name, shape] : shapes) {
    out += (std::exchange(first, false) ? "" : ",") + json_quoted(name) + ":" + shape_text(shape);
  }
  out += '}';
}

std::string number_or_null(std::optional<int64_t> value) {
  return value ? std::to_string(*value) : "null";
}

Error bad_field(const char* field, const char* allowed) {
  return make_error(Code::kInvalid, "spec: \"%s\" is missing or wrong, allowed: %s", field,
                    allowed);
}

Result<std::map<std::string, Shape>> read_shapes(const Json& json, const char* field) {
  constexpr const char* kAllowed = "an object of at most 256 lists of whole numbers";
  const Json* object = json.find(field);
  if (object == nullptr || !object->is_object() || object->members().size() > kMaxTensors)
    return bad_field(field, kAllowed);
  std::map<std::string, Shape> out;
  for (const Json::Member& member : object->members()) {
    if (!member.value.is_array() || member.value.items().size() > kMaxDims ||
        member.name.size() > kMaxNameBytes)
      return bad_field(field, kAllowed);
    Shape shape;
    for (const Json& item : member.value.items()) {
      if (!item.is_integer()) return bad_field(field, kAllowed);
      shape.push_back(item.integer());
    }
    out.emplace(member.name, std::move(shape));
  }
  return out;
}

Result<std::map<std::string, Slice>> read_slices(const Json& json) {
  constexpr const char* kAllowed = "an object of at most 256 pairs of whole numbers or null";
  const Json* object = json.find("output_slices");
  if (object == nullptr || !object->is_object() || object->members().size() > kMaxSlices)
    return bad_field("output_slices", kAllowed);
  std::map<std::string, Slice> out;
  for (const Json::Member& member : object->members()) {
    const auto& items = member.value.items();
    if (!member.value.is_array() || items.size() != 2 || member.name.size() > kMaxNameBytes)
      return bad_field("output_slices", kAllowed);
    Slice slice;
    std::optional<int64_t>* ends[] = {&slice.start, &slice.stop};
    for (size_t i = 0; i < 2; ++i) {
      if (items[i].is_null()) continue;
      if (!items[i].is_integer()) return bad_field("output_slices", kAllowed);
      *ends[i] = items[i].integer();
    }
    out.emplace(member.name, slice);
  }
  return out;
}

}  // namespace

uint64_t Sizes::request_bytes(uint16_t version) const {
  const uint64_t floats = packed() + (version == kVersion2 ? prev_feat : 0);
  return kFrameHeadBytes + warped_bytes + 4 * floats;
}

uint64_t Sizes::reply_bytes(uint16_t version, bool whole) const {
  return kReplyHeadBytes + 4 * (whole || version == kVersion2 ? output : reply());
}

Result<Sizes> sizes_of(const ModelSpec& spec) {
  Sizes out;
  OUTRIDER_TRY(picture_sizes(spec, out));
  if (spec.stateful()) {
    auto desire = count_of(spec, "desire");
    if (!desire) return desire.error();
    out.desire = desire.value();
  } else {
    OUTRIDER_TRY(queued_sizes(spec, out));
  }
  auto traffic = count_of(spec, "traffic_convention");
  if (!traffic) return traffic.error();
  auto action = count_of(spec, "action_t");
  if (!action) return action.error();
  out.traffic = traffic.value();
  out.action = action.value();
  OUTRIDER_TRY(output_sizes(spec, out));
  if (out.request_bytes(kVersion2) > kMaxPayloadBytes)
    return make_error(Code::kShape, "driving model: a frame has %llu bytes, allowed: 16777216",
                      static_cast<unsigned long long>(out.request_bytes(kVersion2)));
  return out;
}

std::string to_json(const ModelSpec& spec) {
  std::string out = "{\"sha256\":" + json_quoted(spec.id.sha256) +
                    ",\"nbytes\":" + std::to_string(spec.id.nbytes) +
                    ",\"frame_skip\":" + std::to_string(spec.id.frame_skip) + ",\"checkpoint\":" +
                    (spec.checkpoint ? json_quoted(*spec.checkpoint) : "null") +
                    ",\"input_shapes\":";
  append(out, spec.inputs);
  out += ",\"output_shapes\":";
  append(out, spec.outputs);
  out += ",\"output_slices\":{";
  bool first = true;
  for (const auto& [name, slice] : spec.slices)
    out += (std::exchange(first, false) ? "" : ",") + json_quoted(name) + ":[" +
           number_or_null(slice.start) + "," + number_or_null(slice.stop) + "]";
  return out + "}}";
}

Result<ModelSpec> spec_from_json(const Json& json) {
  ModelSpec out;
  const Json* sha = json.find("sha256");
  if (sha == nullptr || !sha->is_string() || !is_sha256(sha->text()))
    return bad_field("sha256", "64 lower-case hexadecimal digits");
  out.id.sha256 = sha->text();
  const Json* nbytes = json.find("nbytes");
  if (nbytes == nullptr || !nbytes->is_integer() || nbytes->integer() < 0)
    return bad_field("nbytes", "a whole number from 0 on");
  out.id.nbytes = nbytes->integer();
  if (const Json* skip = json.find("frame_skip"); skip != nullptr) {
    if (!skip->is_integer() || skip->integer() < 1 || skip->integer() > kMaxFrameSkip)
      return bad_field("frame_skip", "a whole number from 1 to 1000");
    out.id.frame_skip = static_cast<uint32_t>(skip->integer());
  }
  if (const Json* checkpoint = json.find("checkpoint");
      checkpoint != nullptr && !checkpoint->is_null()) {
    if (!checkpoint->is_string()) return bad_field("checkpoint", "a text or null");
    out.checkpoint = checkpoint->text();
  }
  auto inputs = read_shapes(json, "input_shapes");
  if (!inputs) return inputs.error();
  auto outputs = read_shapes(json, "output_shapes");
  if (!outputs) return outputs.error();
  auto slices = read_slices(json);
  if (!slices) return slices.error();
  out.inputs = std::move(inputs.value());
  out.outputs = std::move(outputs.value());
  out.slices = std::move(slices.value());
  return out;
}

}  // namespace outrider::link::jetlink
