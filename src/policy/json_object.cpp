#include "policy/json_object.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace outrider {
namespace {

std::string shown(const Json& json) {
  switch (json.kind()) {
    case Json::Kind::kNull:
      return "null";
    case Json::Kind::kBool:
      return json.boolean() ? "true" : "false";
    case Json::Kind::kNumber:
      return json.text().substr(0, 60);
    case Json::Kind::kString:
      return "\"" + json.text().substr(0, 60) + "\"";
    case Json::Kind::kArray:
      return "a list of " + std::to_string(json.items().size());
    case Json::Kind::kObject:
      return "an object";
  }
  return {};
}

}  // namespace

JsonObject::JsonObject(const Json& json, std::string where, std::initializer_list<const char*> keys)
    : json_(json), where_(std::move(where)) {
  if (!json.is_object()) {
    fail(make_error(Code::kInvalid, "%.300s is %s, wanted an object", where_.c_str(),
                    shown(json).c_str()));
    return;
  }
  for (const Json::Member& member : json.members()) {
    if (std::any_of(keys.begin(), keys.end(), [&](const char* key) { return member.name == key; }))
      continue;
    std::string list;
    for (const char* key : keys) list += (list.empty() ? "" : ", ") + std::string(key);
    fail(make_error(Code::kInvalid, "%.200s: unknown key \"%.60s\"; allowed here: %s",
                    where_.c_str(), member.name.c_str(), list.c_str()));
    return;
  }
}

void JsonObject::wrong(const char* key, const Json& found, const std::string& wanted) {
  fail(make_error(Code::kInvalid, "%.250s: %s is %s, allowed is %.150s", where_.c_str(), key,
                  shown(found).c_str(), wanted.c_str()));
}

const Json* JsonObject::find(const char* key) {
  return ok() ? json_.find(key) : nullptr;
}

void JsonObject::text(const char* key, std::string& out) {
  const Json* value = find(key);
  if (value == nullptr) return;
  if (!value->is_string() || value->text().find('\0') != std::string::npos)
    return wrong(key, *value, "a string");
  out = value->text();
}

void JsonObject::integer(const char* key, int64_t least, int64_t most, int64_t& out) {
  const Json* value = find(key);
  if (value == nullptr) return;
  if (!value->is_integer() || value->integer() < least || value->integer() > most)
    return wrong(key, *value, "an integer " + std::to_string(least) + ".." + std::to_string(most));
  out = value->integer();
}

void JsonObject::real(const char* key, double least, double most, double& out) {
  const Json* value = find(key);
  if (value == nullptr) return;
  if (!value->is_number() || !(value->number() >= least && value->number() <= most)) {
    char range[80];
    std::snprintf(range, sizeof range, "a number %g..%g", least, most);
    return wrong(key, *value, range);
  }
  out = value->number();
}

void JsonObject::flag(const char* key, bool& out) {
  const Json* value = find(key);
  if (value == nullptr) return;
  if (!value->is_bool()) return wrong(key, *value, "true or false");
  out = value->boolean();
}

int JsonObject::choice(const char* key, std::span<const char* const> choices) {
  const Json* value = find(key);
  if (value == nullptr) return -1;
  std::string list;
  for (size_t i = 0; i < choices.size(); ++i) {
    if (value->is_string() && value->text() == choices[i]) return static_cast<int>(i);
    list += (list.empty() ? "\"" : ", \"") + std::string(choices[i]) + "\"";
  }
  wrong(key, *value, list);
  return -1;
}

const Json* JsonObject::array(const char* key, size_t most) {
  const Json* value = find(key);
  if (value == nullptr) return nullptr;
  if (!value->is_array() || value->items().size() > most) {
    wrong(key, *value, "a list of at most " + std::to_string(most));
    return nullptr;
  }
  return value;
}

}  // namespace outrider
