#include "cli/service_text.h"

#include <filesystem>
#include <set>

#include "base/printable.h"
#include "cli/args.h"

namespace outrider::cli {
namespace {

constexpr int64_t kMaxMb = int64_t{1} << 30;

struct Where {
  std::string path, folder;
};

Error wrong(const Where& where, const Json& value, const char* key, const char* allowed) {
  return make_error(Code::kInvalid, "%s:%u: key \"%s\", allowed: %s", where.path.c_str(),
                    value.line(), key, allowed);
}

Result<void> check_names(const Where& where, const Json& object,
                         std::span<const char* const> known) {
  for (const Json::Member& member : object.members()) {
    bool found = false;
    for (const char* name : known) found = found || member.name == name;
    if (found) continue;
    const char* near = nearest_name(member.name, known);
    std::string all;
    for (const char* name : known) all += (all.empty() ? "" : ", ") + std::string(name);
    return make_error(Code::kInvalid, "%s:%u: unknown key \"%s\"%s%s%s; keys here are %s",
                      where.path.c_str(), member.value.line(), printable(member.name).c_str(),
                      near ? ", did you mean \"" : "", near ? near : "", near ? "\"?" : "",
                      all.c_str());
  }
  return {};
}

Result<void> read_number(const Where& where, const Json& object, const char* key, int64_t least,
                         int64_t most, int64_t& out) {
  const Json* value = object.find(key);
  if (value == nullptr) return {};
  if (!value->is_number() || !value->is_integer() || value->integer() < least ||
      value->integer() > most) {
    const std::string allowed =
        "a whole number from " + std::to_string(least) + " to " + std::to_string(most);
    return wrong(where, *value, key, allowed.c_str());
  }
  out = value->integer();
  return {};
}

Result<void> read_listen(const Where& where, const Json& object, std::vector<std::string>& out) {
  const Json* list = object.find("listen");
  if (list == nullptr) return {};
  constexpr const char* kAllowed = "a list of endpoints, e.g. [\"tcp://127.0.0.1:5610\"]";
  if (!list->is_array() || list->items().empty()) return wrong(where, *list, "listen", kAllowed);
  for (const Json& item : list->items()) {
    if (!item.is_string()) return wrong(where, item, "listen", kAllowed);
    out.push_back(item.text());
  }
  return {};
}

// What the system can open: a zero byte would end the path before its end.
bool is_path(const Json* value) {
  return value != nullptr && value->is_string() && !value->text().empty() &&
         value->text().find('\0') == std::string_view::npos;
}

std::string beside(const Where& where, const std::string& path) {
  return path.starts_with("/") || where.folder.empty() ? path : where.folder + "/" + path;
}

Result<void> read_models(const Where& where, const Json& object, std::vector<NamedModel>& out) {
  const Json* list = object.find("models");
  if (list == nullptr && object.find("store") != nullptr) return {};  // devices bring them
  constexpr const char* kAllowed =
      "a list of {\"name\": 1 to 255 of A-Z a-z 0-9 . _ -, \"config\": path}";
  if (list == nullptr)
    return make_error(Code::kInvalid, "%s: key \"models\" is missing: %s", where.path.c_str(),
                      kAllowed);
  if (!list->is_array() || list->items().empty()) return wrong(where, *list, "models", kAllowed);
  static constexpr const char* kKeys[] = {"name", "config"};
  std::set<std::string> names;
  for (const Json& item : list->items()) {
    if (!item.is_object()) return wrong(where, item, "models", kAllowed);
    OUTRIDER_TRY(check_names(where, item, kKeys));
    const Json *name = item.find("name"), *config = item.find("config");
    const bool good = name != nullptr && name->is_string() && !name->text().empty() &&
                      name->text().size() <= 255 && is_path(config) &&
                      printable(name->text(), 255) == name->text();
    if (!good) return wrong(where, item, "models", kAllowed);
    if (!names.insert(name->text()).second)
      return make_error(Code::kInvalid, "%s:%u: two models are called \"%s\"", where.path.c_str(),
                        item.line(), name->text().c_str());
    out.push_back({name->text(), beside(where, config->text())});
  }
  return {};
}

Result<void> read_store(const Where& where, const Json& object, StoreConfig& out) {
  const Json* store = object.find("store");
  if (store == nullptr) return {};
  constexpr const char* kAllowed = "{\"folder\": path, \"reserve_mb\": N, \"keep_last\": N}";
  static constexpr const char* kKeys[] = {"folder", "reserve_mb", "keep_last"};
  if (!store->is_object()) return wrong(where, *store, "store", kAllowed);
  OUTRIDER_TRY(check_names(where, *store, kKeys));
  const Json* folder = store->find("folder");
  if (!is_path(folder)) return wrong(where, *store, "store", kAllowed);
  out.folder = beside(where, folder->text());
  OUTRIDER_TRY(read_number(where, *store, "reserve_mb", 0, kMaxMb, out.reserve_mb));
  return read_number(where, *store, "keep_last", 0, 1024, out.keep_last);
}

Result<void> read_manage(const Where& where, const Json& object, std::string& out) {
  const Json* value = object.find("manage");
  if (value == nullptr) return {};
  for (const char* word : kManageWords)
    if (value->is_string() && value->text() == word) return out = word, Result<void>();
  const std::string found = value->is_string() ? printable(value->text(), 40) : "no string";
  return make_error(Code::kInvalid,
                    "%s:%u: key \"manage\" is \"%s\", allowed: \"auto\", \"yes\" or \"no\"",
                    where.path.c_str(), value->line(), found.c_str());
}

}  // namespace

Result<ServiceText> read_service_text(const Json& object, const std::string& path) {
  const Where where{path, std::filesystem::path(path).parent_path().string()};

  static constexpr const char* kKeys[] = {"listen",        "memory_budget_mb", "models",   "http",
                                          "max_instances", "max_peers",        "key_file", "store",
                                          "manage"};
  OUTRIDER_TRY(check_names(where, object, kKeys));
  if (const Json* http = object.find("http"))
    return make_error(Code::kUnsupported, "%s:%u: key \"http\": not in this build yet",
                      where.path.c_str(), http->line());
  ServiceText out;
  OUTRIDER_TRY(read_listen(where, object, out.listen));
  OUTRIDER_TRY(read_number(where, object, "memory_budget_mb", 0, kMaxMb, out.memory_budget_mb));
  OUTRIDER_TRY(read_number(where, object, "max_instances", 1, 256, out.max_instances));
  OUTRIDER_TRY(read_number(where, object, "max_peers", 1, 1024, out.max_peers));
  if (const Json* key = object.find("key_file")) {
    const bool none = key->is_string() && key->text().empty();
    if (!none && !is_path(key)) return wrong(where, *key, "key_file", "a path");
    if (!none) out.key_file = beside(where, key->text());
  }
  OUTRIDER_TRY(read_manage(where, object, out.manage));
  OUTRIDER_TRY(read_store(where, object, out.store));
  OUTRIDER_TRY(read_models(where, object, out.models));
  return out;
}

}  // namespace outrider::cli
