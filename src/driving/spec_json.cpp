// The spec record of a link, written and read. Source: link specification 7.
#include <algorithm>

#include "base/json.h"
#include "base/printable.h"
#include "driving/slices.h"
#include "driving/spec.h"

namespace outrider::driving {
namespace {

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<uint8_t>(c) < 0x20) {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\u%04x", c);
      out += escape;
      continue;
    }
    out += c;
  }
  return out + "\"";
}

void put_shapes(std::string& out, const char* key, const std::vector<NamedShape>& ports) {
  out += std::string(",\"") + key + "\":{";
  for (size_t i = 0; i < ports.size(); ++i) {
    out += (i > 0 ? "," : "") + quoted(ports[i].name) + ":[";
    for (size_t k = 0; k < ports[i].dims.size(); ++k)
      out += (k > 0 ? "," : "") + std::to_string(ports[i].dims[k]);
    out += "]";
  }
  out += "}";
}

Error bad(const char* what) {
  return make_error(Code::kNotFound, "spec record: %s", what);
}

Result<std::vector<int64_t>> read_numbers(const Json& value, const std::string& name) {
  std::vector<int64_t> numbers;
  if (!value.is_array() || value.items().size() > 16)
    return make_error(Code::kNotFound, "spec record: %s is no list of up to 16 numbers",
                      printable(name).c_str());
  for (const Json& item : value.items()) {
    if (!item.is_number() || !item.is_integer())
      return make_error(Code::kNotFound, "spec record: %s: \"%s\" is no integer",
                        printable(name).c_str(), printable(item.text(), 24).c_str());
    numbers.push_back(item.integer());
  }
  return numbers;
}

Result<std::vector<NamedShape>> read_shapes(const Json& json, const char* key) {
  std::vector<NamedShape> ports;
  const Json* object = json.find(key);
  if (object == nullptr || !object->is_object())
    return make_error(Code::kNotFound, "spec record: \"%s\" is missing or no object", key);
  for (const Json::Member& member : object->members()) {
    auto dims = read_numbers(member.value, member.name);
    if (!dims) return dims.error();
    ports.push_back({member.name, std::move(dims.value())});
  }
  return ports;
}

bool is_digest(const std::string& text) {
  return text.size() == 64 && std::ranges::all_of(text, [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

// The record has its slices where a file has the metadata entry.
Result<std::string> read_slices(const Json& json) {
  const Json* object = json.find("output_slices");
  if (object == nullptr || !object->is_object()) return bad("\"output_slices\" is missing");
  std::string text = "{";
  for (const Json::Member& member : object->members()) {
    auto ends = read_numbers(member.value, member.name);
    if (!ends) return ends.error();
    if (ends.value().size() != 2) return bad("a slice has not two ends");
    text += (text.size() > 1 ? "," : "") + quoted(member.name) + ":[" +
            std::to_string(ends.value()[0]) + "," + std::to_string(ends.value()[1]) + "]";
  }
  return text + "}";
}

}  // namespace

std::string spec_json(const Spec& spec, std::string_view sha256, int64_t nbytes) {
  std::string out = "{";
  if (!sha256.empty())
    out += "\"sha256\":" + quoted(sha256) + ",\"nbytes\":" + std::to_string(nbytes) + ",";
  out += "\"frame_skip\":" + std::to_string(spec.frame_skip);
  out += ",\"checkpoint\":" + (spec.has_checkpoint ? quoted(spec.checkpoint) : "null");
  put_shapes(out, "input_shapes", spec.inputs);
  put_shapes(out, "output_shapes", spec.outputs);
  std::vector<NamedShape> slices;
  for (const NamedRange& s : spec.slices) slices.push_back({s.name, {s.range.begin, s.range.end}});
  put_shapes(out, "output_slices", slices);
  return out + "}";
}

Result<SpecRecord> parse_spec_json(std::string_view text) {
  auto json = Json::parse(text, Json::Dialect::kStandard,
                          {.max_bytes = size_t{1} << 20, .max_depth = 8, .max_values = 1 << 16});
  if (!json) return make_error(Code::kNotFound, "spec record: %s", json.error().text);
  if (!json.value().is_object()) return bad("no object");
  SpecRecord record;
  const Json *sha = json.value().find("sha256"), *nbytes = json.value().find("nbytes"),
             *skip = json.value().find("frame_skip"), *name = json.value().find("checkpoint");
  if (sha == nullptr || !sha->is_string() || !is_digest(sha->text()))
    return bad("\"sha256\" is not 64 lower-case hex digits");
  if (nbytes == nullptr || !nbytes->is_number() || !nbytes->is_integer() || nbytes->integer() < 0)
    return bad("\"nbytes\" is not an integer of 0 or more");
  if (skip == nullptr || !skip->is_number() || !skip->is_integer())
    return bad("\"frame_skip\" is no integer");
  GraphFacts facts;
  auto inputs = read_shapes(json.value(), "input_shapes");
  if (!inputs) return inputs.error();
  auto outputs = read_shapes(json.value(), "output_shapes");
  if (!outputs) return outputs.error();
  auto slices = read_slices(json.value());
  if (!slices) return slices.error();
  facts.inputs = std::move(inputs.value());
  facts.outputs = std::move(outputs.value());
  facts.metadata.emplace_back(kSlicesKey, std::move(slices.value()));
  if (name != nullptr && !name->is_null()) {
    if (!name->is_string()) return bad("\"checkpoint\" is neither a string nor null");
    facts.metadata.emplace_back(kCheckpointKey, name->text());
  }
  auto spec = read_spec(facts, skip->integer());
  if (!spec) return spec.error();
  record.spec = std::move(spec.value());
  record.sha256 = sha->text();
  record.nbytes = nbytes->integer();
  return record;
}

}  // namespace outrider::driving
