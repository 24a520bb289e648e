// policy.json: reading with its schema, and writing every value out.
#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/json_text.h"
#include "policy/description.h"
#include "policy/json_object.h"

namespace outrider {
namespace {

constexpr const char* kRobots[] = {"custom", "libero", "droid", "aloha"};
constexpr const char* kFamilies[] = {"pi0", "pi05", "pi0_fast"};
constexpr const char* kRules[] = {"openpi", "lerobot"};
constexpr const char* kForms[] = {"none", "z_score", "quantile", "min_max"};
constexpr const char* kTooLong[] = {"refuse", "cut"};
constexpr const char* kUndecodable[] = {"refuse", "zeros", "fit"};
// Of both kinds of families; the ones behind the first three are PI0-FAST's alone.
constexpr const char* kSlots[] = {kCameraSlots[0], kCameraSlots[1], kCameraSlots[2],
                                  kFastCameraSlots[1], kFastCameraSlots[2]};
constexpr const char* kResizes[] = {"pil", "torch"};
constexpr double kAnyReal = 1e300;

// ---- reading ------------------------------------------------------------------------------------

void read_camera(const Json& json, const std::string& where, PolicyCamera& out, Error& failure) {
  JsonObject object(json, where, {"name", "slot", "required", "rotate_180", "height", "width"});
  object.text("name", out.name);
  if (const int slot = object.choice("slot", kSlots); slot >= 0) {
    out.fast_slot = slot > 2;
    out.slot = out.fast_slot ? slot - 2 : slot;
  }
  if (object.find("slot") == nullptr)
    object.fail(make_error(Code::kInvalid, "%.300s: slot is missing; allowed are %s, %s, %s",
                           where.c_str(), kCameraSlots[0], kCameraSlots[1], kCameraSlots[2]));
  object.flag("required", out.required);
  object.flag("rotate_180", out.rotate_180);
  object.integer("height", 0, 65535, out.height);
  object.integer("width", 0, 65535, out.width);
  if ((out.height == 0) != (out.width == 0))
    object.fail(make_error(
        Code::kInvalid, "%.300s: height %lld and width %lld; give both or neither", where.c_str(),
        static_cast<long long>(out.height), static_cast<long long>(out.width)));
  failure = object.failure();
}

void read_cameras(JsonObject& root, PolicyDescription& out) {
  const Json* list = root.array("cameras", kCameraSlots.size());
  if (list == nullptr) return;
  out.cameras.clear();
  for (size_t i = 0; i < list->items().size(); ++i) {
    PolicyCamera camera;
    Error failure;
    read_camera(list->items()[i], root.where() + ": cameras[" + std::to_string(i) + "]", camera,
                failure);
    if (failure.code != Code::kOk) return root.fail(failure);
    out.cameras.push_back(std::move(camera));
  }
  // Bound by name: the order in the file means nothing, the slot decides.
  std::stable_sort(out.cameras.begin(), out.cameras.end(),
                   [](const auto& a, const auto& b) { return a.slot < b.slot; });
}

void read_convert(JsonObject& object, std::vector<AffineDim>& out) {
  const Json* list = object.array("convert", kMaxConverted);
  if (list == nullptr) return;
  out.clear();
  for (size_t i = 0; i < list->items().size(); ++i) {
    JsonObject dim(list->items()[i], object.where() + ".convert[" + std::to_string(i) + "]",
                   {"from", "scale", "offset"});
    AffineDim affine;
    affine.from = static_cast<int64_t>(i);
    dim.integer("from", 0, kMaxStatisticsWidth, affine.from);
    dim.real("scale", -kAnyReal, kAnyReal, affine.scale);
    dim.real("offset", -kAnyReal, kAnyReal, affine.offset);
    if (!dim.ok()) return object.fail(dim.failure());
    out.push_back(affine);
  }
}

void read_state(JsonObject& root, PolicyDescription& out) {
  const Json* json = root.find("state");
  if (json == nullptr) return;
  JsonObject object(*json, root.where() + ": state", {"fields", "convert"});
  if (const Json* list = object.array("fields", 64); list != nullptr) {
    out.state.clear();
    for (size_t i = 0; i < list->items().size(); ++i) {
      JsonObject item(list->items()[i], object.where() + ".fields[" + std::to_string(i) + "]",
                      {"name", "size", "unit"});
      StateField field;
      item.text("name", field.name);
      item.integer("size", 1, kMaxStatisticsWidth, field.size);
      item.text("unit", field.unit);
      if (item.ok() && (field.name.empty() || field.size == 0))
        item.fail(
            make_error(Code::kInvalid, "%.300s: name and size are needed", item.where().c_str()));
      if (!item.ok()) return root.fail(item.failure());
      out.state.push_back(std::move(field));
    }
  }
  read_convert(object, out.state_convert);
  if (!object.ok()) root.fail(object.failure());
}

// true and false by dimension, or runs: [6, -1].
void read_delta_mask(JsonObject& object, PolicyDescription& out) {
  const Json* list = object.array("delta_mask", static_cast<size_t>(kMaxStatisticsWidth));
  if (list == nullptr) return;
  const auto all = [&](auto&& is) {
    return std::all_of(list->items().begin(), list->items().end(), is);
  };
  if (all([](const Json& item) { return item.is_bool(); })) {
    out.delta_mask.clear();
    for (const Json& item : list->items()) out.delta_mask.push_back(item.boolean());
    return;
  }
  if (!all([](const Json& item) { return item.is_integer(); }))
    return object.wrong("delta_mask", *list, "true and false by dimension, or runs like [6, -1]");
  std::vector<int64_t> runs;
  for (const Json& item : list->items()) runs.push_back(item.integer());
  auto mask = delta_mask_of(runs);
  if (!mask)
    return object.fail(
        make_error(Code::kInvalid, "%.250s.%s", object.where().c_str(), mask.error().text));
  out.delta_mask = std::move(mask.value());
}

void read_actions(JsonObject& root, PolicyDescription& out) {
  const Json* json = root.find("actions");
  if (json == nullptr) return;
  JsonObject object(*json, root.where() + ": actions",
                    {"size", "names", "unit", "convert", "delta_mask"});
  object.integer("size", 1, kMaxStatisticsWidth, out.action_width);
  object.text("unit", out.action_unit);
  if (const Json* list = object.array("names", static_cast<size_t>(kMaxStatisticsWidth));
      list != nullptr) {
    out.action_names.clear();
    for (const Json& item : list->items()) {
      if (!item.is_string())
        return object.wrong("names", item, "strings"), root.fail(object.failure());
      out.action_names.push_back(item.text());
    }
  }
  read_convert(object, out.action_convert);
  read_delta_mask(object, out);
  if (!object.ok()) root.fail(object.failure());
}

void read_prompt(JsonObject& root, PolicyDescription& out) {
  const Json* json = root.find("prompt");
  if (json == nullptr) return;
  JsonObject object(*json, root.where() + ": prompt",
                    {"default", "state_in_text", "rule", "max_tokens", "too_long"});
  object.text("default", out.default_prompt);
  if (object.find("state_in_text") != nullptr) {
    bool in_text = false;
    object.flag("state_in_text", in_text);
    out.state_in_text = in_text;
  }
  if (const int i = object.choice("rule", kRules); i >= 0)
    out.prompt_rule = static_cast<PromptRule>(i);
  object.integer("max_tokens", 0, 1024, out.max_tokens);
  if (const int i = object.choice("too_long", kTooLong); i >= 0)
    out.too_long = static_cast<TooLong>(i);
  if (!object.ok()) root.fail(object.failure());
}

void read_normalisation(JsonObject& root, PolicyDescription& out) {
  const Json* json = root.find("normalisation");
  if (json == nullptr) return;
  JsonObject object(*json, root.where() + ": normalisation",
                    {"state", "actions", "rule", "epsilon"});
  if (const int i = object.choice("state", kForms); i >= 0)
    out.state_form = static_cast<NormForm>(i);
  if (const int i = object.choice("actions", kForms); i >= 0)
    out.action_form = static_cast<NormForm>(i);
  if (const int i = object.choice("rule", kRules); i >= 0) {
    out.norm_rule = static_cast<NormRule>(i);
    out.epsilon = out.norm_rule == NormRule::kOpenpi ? 1e-6 : 1e-8;
  }
  object.real("epsilon", 1e-30, 1, out.epsilon);
  if (!object.ok()) root.fail(object.failure());
}

void read_statistics(JsonObject& root, PolicyDescription& out) {
  const Json* json = root.find("statistics");
  if (json == nullptr) return;
  JsonObject object(*json, root.where() + ": statistics", {"state", "actions"});
  if (!object.ok()) return root.fail(object.failure());
  out.statistics.origin = root.where() + ": statistics";
  for (const auto& [key, field] : {std::pair{"state", &PolicyStatistics::state},
                                   std::pair{"actions", &PolicyStatistics::actions}}) {
    const Json* value = object.find(key);
    if (value == nullptr) continue;
    auto read = read_field_statistics(*value, out.statistics.origin + "." + key);
    if (!read) return root.fail(make_error(Code::kInvalid, "%s", read.error().text));
    out.statistics.*field = std::move(read.value());
  }
}

void read_action_tokens(JsonObject& root, PolicyDescription& out) {
  const Json* json = root.find("action_tokens");
  if (json == nullptr) return;
  JsonObject object(*json, root.where() + ": action_tokens", {"tokenizer", "most", "undecodable"});
  object.text("tokenizer", out.action_tokens.tokenizer);
  object.integer("most", 0, 1024, out.action_tokens.most);
  if (const int i = object.choice("undecodable", kUndecodable); i >= 0)
    out.action_tokens.undecodable = static_cast<Undecodable>(i);
  if (!object.ok()) root.fail(object.failure());
}

void read_model(JsonObject& root, PolicyDescription& out) {
  const Json* json = root.find("model");
  if (json == nullptr) return;
  JsonObject object(*json, root.where() + ": model", {"head_dim", "vision_heads", "action_dim"});
  object.integer("head_dim", 1, 4096, out.model.head_dim);
  object.integer("vision_heads", 1, 1024, out.model.vision_heads);
  object.integer("action_dim", 1, 4096, out.model.action_dim);
  if (!object.ok()) root.fail(object.failure());
}

// ---- writing ------------------------------------------------------------------------------------

// Compact JSON, one member after the other.
class Writer {
 public:
  void open(char bracket) {
    separate();
    text_ += bracket;
    first_ = true;
  }
  void close(char bracket) {
    text_ += bracket;
    first_ = false;
  }
  Writer& key(const char* name) {
    separate();
    text_ += json_quoted(name);
    text_ += ":";
    first_ = true;  // no comma between a key and its value
    return *this;
  }
  void put(const std::string& value) {
    separate();
    text_ += json_quoted(value);
  }
  void put(const char* value) { put(std::string(value)); }
  void put(bool value) {
    separate();
    text_ += value ? "true" : "false";
  }
  void put(int64_t value) {
    separate();
    text_ += std::to_string(value);
  }
  void put(double value) {  // the shortest text that reads back as the same double
    separate();
    char digits[40];
    const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
    text_.append(digits, end);
  }
  std::string take() { return std::move(text_); }

 private:
  void separate() {
    if (!first_) text_ += ",";
    first_ = false;
  }
  std::string text_;
  bool first_ = true;
};

void write_column(Writer& w, const char* name, const std::vector<double>& column) {
  if (column.empty()) return;
  w.key(name).open('[');
  for (const double value : column) w.put(value);
  w.close(']');
}

void write_field(Writer& w, const char* name, const FieldStatistics& field) {
  if (field.width() == 0) return;
  w.key(name).open('{');
  write_column(w, "mean", field.mean);
  write_column(w, "std", field.std);
  write_column(w, "q01", field.q01);
  write_column(w, "q99", field.q99);
  write_column(w, "min", field.min);
  write_column(w, "max", field.max);
  w.close('}');
}

void write_convert(Writer& w, const std::vector<AffineDim>& dims) {
  if (dims.empty()) return;
  w.key("convert").open('[');
  for (const AffineDim& d : dims) {
    w.open('{');
    w.key("from").put(d.from);
    w.key("scale").put(d.scale);
    w.key("offset").put(d.offset);
    w.close('}');
  }
  w.close(']');
}

void write_contract(Writer& w, const PolicyDescription& p) {
  w.key("cameras").open('[');
  for (const PolicyCamera& c : p.cameras) {
    w.open('{');
    w.key("name").put(c.name);
    w.key("slot").put(camera_slot_name(c));
    w.key("required").put(c.required);
    w.key("rotate_180").put(c.rotate_180);
    w.key("height").put(c.height);
    w.key("width").put(c.width);
    w.close('}');
  }
  w.close(']');
  w.key("state").open('{');
  w.key("fields").open('[');
  for (const StateField& field : p.state) {
    w.open('{');
    w.key("name").put(field.name);
    w.key("size").put(field.size);
    w.key("unit").put(field.unit);
    w.close('}');
  }
  w.close(']');
  write_convert(w, p.state_convert);
  w.close('}');
  w.key("actions").open('{');
  w.key("size").put(p.action_width);
  w.key("unit").put(p.action_unit);
  w.key("names").open('[');
  for (const std::string& name : p.action_names) w.put(name);
  w.close(']');
  write_convert(w, p.action_convert);
  w.key("delta_mask").open('[');
  for (const bool relative : p.delta_mask) w.put(relative);
  w.close(']');
  w.close('}');
}

void write_rules(Writer& w, const PolicyDescription& p) {
  w.key("prompt").open('{');
  w.key("default").put(p.default_prompt);
  if (p.state_in_text) w.key("state_in_text").put(*p.state_in_text);
  w.key("rule").put(kRules[static_cast<size_t>(p.prompt_rule)]);
  w.key("max_tokens").put(p.max_tokens);
  w.key("too_long").put(kTooLong[static_cast<size_t>(p.too_long)]);
  w.close('}');
  w.key("normalisation").open('{');
  if (p.state_form) w.key("state").put(norm_form_name(*p.state_form));
  if (p.action_form) w.key("actions").put(norm_form_name(*p.action_form));
  w.key("rule").put(norm_rule_name(p.norm_rule));
  w.key("epsilon").put(p.epsilon);
  w.close('}');
}

}  // namespace

Result<PolicyDescription> read_policy(std::string_view text, const std::string& name,
                                      PiFamily family, const PolicyDescription* base) {
  auto json =
      Json::parse(text, Json::Dialect::kStandard,
                  {.max_bytes = kMaxPolicyBytes, .max_depth = 16, .max_values = size_t{1} << 18});
  if (!json) return make_error(Code::kInvalid, "%.200s: %s", name.c_str(), json.error().text);
  JsonObject root(
      json.value(), name,
      {"robot", "family", "checkpoint", "tokenizer", "asset_id", "cameras", "state", "actions",
       "adapt_to_pi", "prompt", "normalisation", "statistics", "statistics_path", "action_tokens",
       "resize", "horizon", "num_steps", "rate_hz", "model"});
  Robot robot = Robot::kCustom;
  if (const int i = root.choice("robot", kRobots); i >= 0) robot = static_cast<Robot>(i);
  const int named = root.choice("family", kFamilies);
  if (named >= 0) family = static_cast<PiFamily>(named);
  PolicyDescription out = base != nullptr && json.value().find("robot") == nullptr
                              ? *base
                              : policy_defaults(robot, family);
  // What a folder knows of its model holds for any robot.
  if (base != nullptr) {
    out.horizon = base->horizon;
    out.num_steps = base->num_steps;
  }
  if (named >= 0) out.family = family;
  root.text("checkpoint", out.checkpoint);
  root.text("tokenizer", out.tokenizer);
  root.text("asset_id", out.asset_id);
  read_cameras(root, out);
  read_state(root, out);
  read_actions(root, out);
  root.flag("adapt_to_pi", out.adapt_to_pi);
  read_prompt(root, out);
  read_normalisation(root, out);
  read_statistics(root, out);
  root.text("statistics_path", out.statistics_path);
  read_action_tokens(root, out);
  if (const int i = root.choice("resize", kResizes); i >= 0)
    out.resize = static_cast<ResizeChoice>(i);
  root.integer("horizon", 0, 4096, out.horizon);
  root.integer("num_steps", 0, 1000, out.num_steps);
  root.real("rate_hz", 0, 1e6, out.rate_hz);
  read_model(root, out);
  if (!root.ok()) return root.failure();
  return out;
}

std::string policy_json(const PolicyDescription& p) {
  Writer w;
  w.open('{');
  w.key("robot").put(robot_name(p.robot));
  if (p.family) w.key("family").put(kFamilies[static_cast<size_t>(*p.family)]);
  if (!p.checkpoint.empty()) w.key("checkpoint").put(p.checkpoint);
  if (!p.tokenizer.empty()) w.key("tokenizer").put(p.tokenizer);
  if (!p.asset_id.empty()) w.key("asset_id").put(p.asset_id);
  write_contract(w, p);
  w.key("adapt_to_pi").put(p.adapt_to_pi);
  write_rules(w, p);
  if (p.statistics.state.width() > 0 || p.statistics.actions.width() > 0) {
    w.key("statistics").open('{');
    write_field(w, "state", p.statistics.state);
    write_field(w, "actions", p.statistics.actions);
    w.close('}');
  }
  if (!p.statistics_path.empty()) w.key("statistics_path").put(p.statistics_path);
  if (p.action_tokens != PolicyDescription::ActionTokens()) {
    w.key("action_tokens").open('{');
    if (!p.action_tokens.tokenizer.empty()) w.key("tokenizer").put(p.action_tokens.tokenizer);
    w.key("most").put(p.action_tokens.most);
    w.key("undecodable").put(kUndecodable[static_cast<size_t>(p.action_tokens.undecodable)]);
    w.close('}');
  }
  w.key("resize").put(kResizes[static_cast<size_t>(p.resize)]);
  w.key("horizon").put(p.horizon);
  w.key("num_steps").put(p.num_steps);
  w.key("rate_hz").put(p.rate_hz);
  if (p.model != PolicyDescription::ModelSizes()) {
    w.key("model").open('{');
    if (p.model.head_dim > 0) w.key("head_dim").put(p.model.head_dim);
    if (p.model.vision_heads > 0) w.key("vision_heads").put(p.model.vision_heads);
    if (p.model.action_dim > 0) w.key("action_dim").put(p.model.action_dim);
    w.close('}');
  }
  w.close('}');
  return w.take();
}

}  // namespace outrider
