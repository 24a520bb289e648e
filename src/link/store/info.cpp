#include "link/store/info.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>

#include "base/json.h"
#include "base/printable.h"
#include "base/utf8.h"
#include "link/store/limits.h"

namespace outrider::store {
namespace {

constexpr int64_t kFormat = 1;
constexpr int64_t kSecondNs = 1'000'000'000;
// File times move with the kernel's tick, 10 ms at most; some file systems keep seconds, or two.
constexpr int64_t kFineTickNs = kSecondNs / 10, kCoarseTickNs = 3 * kSecondNs;
constexpr Role kRoles[] = {Role::kModel, Role::kProjector, Role::kOther};
constexpr size_t kMaxCheckedBytes = 160;

bool is_control(char c) {
  return static_cast<unsigned char>(c) < 0x20 || c == 0x7F;
}

bool has_control(std::string_view text) {
  return std::any_of(text.begin(), text.end(), is_control);
}

// As it is, but for quote and backslash: a name that check_info() refuses is refused by read_info()
// too, and never becomes another one.
std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

Error bad(const char* what) {
  return make_error(Code::kInvalid, "store: info.json: %s; remove the file and push it again",
                    what);
}

// The member as text, or an error; `text` is left alone when an optional one is missing.
Result<void> take_text(const Json& json, const char* key, std::string* text) {
  const Json* value = json.find(key);
  if (value == nullptr) return bad((std::string(key) + " is missing").c_str());
  if (!value->is_string()) return bad((std::string(key) + " is no string").c_str());
  *text = value->text();
  return {};
}

Result<void> take_companions(const Json& json, std::vector<std::string>* companions) {
  const Json* list = json.find("companions");
  if (list == nullptr || !list->is_array()) return bad("companions is no list");
  if (list->items().size() > kMaxCompanions) return bad("too many companions");
  for (const Json& item : list->items()) {
    if (!item.is_string()) return bad("a companion is no string");
    companions->push_back(item.text());
  }
  return {};
}

Result<void> take_role(const Json& json, Role* role) {
  std::string text;
  OUTRIDER_TRY(take_text(json, "role", &text));
  for (const Role known : kRoles) {
    if (text != role_name(known)) continue;
    *role = known;
    return {};
  }
  return bad("role is none of model, projector, other");
}

Result<void> take_integer(const Json& json, const char* key, int64_t least, int64_t* number) {
  const Json* value = json.find(key);
  if (value == nullptr || !value->is_integer() || value->integer() < least)
    return bad((std::string(key) + " is no positive whole number").c_str());
  *number = value->integer();
  return {};
}

}  // namespace

const char* role_name(Role role) {
  switch (role) {
    case Role::kModel:
      return "model";
    case Role::kProjector:
      return "projector";
    case Role::kOther:
      return "other";
  }
  return "?";
}

Result<void> check_info(const EntryInfo& info) {
  if (!is_sha256(info.sha256))
    return make_error(Code::kInvalid,
                      "store: sha256 is \"%s\" (%zu bytes), wanted 64 lower-case hex digits",
                      printable(info.sha256, 70).c_str(), info.sha256.size());
  if (info.n_bytes == 0)
    return make_error(Code::kInvalid, "store: %.16s: a file of 0 bytes, wanted 1 or more",
                      info.sha256.c_str());
  if (info.name.empty() || info.name.size() > kMaxNameBytes || has_control(info.name))
    return make_error(Code::kInvalid,
                      "store: name is \"%s\" (%zu bytes), wanted 1 to %zu bytes without control "
                      "characters",
                      printable(info.name).c_str(), info.name.size(), kMaxNameBytes);
  if (!utf8_valid(info.name))
    return make_error(Code::kInvalid, "store: name \"%s\" is not well-formed UTF-8",
                      printable(info.name).c_str());
  if (info.companions.size() > kMaxCompanions)
    return make_error(Code::kInvalid, "store: %.16s: %zu companions, at most %zu are allowed",
                      info.sha256.c_str(), info.companions.size(), kMaxCompanions);
  for (size_t i = 0; i < info.companions.size(); ++i) {
    const std::string& companion = info.companions[i];
    const auto end = info.companions.begin() + static_cast<std::ptrdiff_t>(i);
    if (!is_sha256(companion) || companion == info.sha256 ||
        std::find(info.companions.begin(), end, companion) != end)
      return make_error(Code::kInvalid,
                        "store: companion %zu of %.16s is \"%s\", wanted another file's sha256, "
                        "each once",
                        i, info.sha256.c_str(), printable(companion, 70).c_str());
  }
  if (info.role != Role::kModel && !info.companions.empty())
    return make_error(Code::kInvalid, "store: %.16s: a %s has companions, only a model may",
                      info.sha256.c_str(), role_name(info.role));
  return {};
}

std::string info_text(const EntryInfo& info) {
  std::string text = "{\"format\":" + std::to_string(kFormat) + ",\n \"sha256\":\"" + info.sha256 +
                     "\",\n \"bytes\":" + std::to_string(info.n_bytes) +
                     ",\n \"name\":" + quoted(info.name) + ",\n \"role\":\"" +
                     role_name(info.role) + "\",\n \"companions\":[";
  for (size_t i = 0; i < info.companions.size(); ++i)
    text += (i == 0 ? "\"" : ",\n  \"") + info.companions[i] + "\"";
  return text + "],\n \"checked\":" + quoted(info.checked) + "}\n";
}

Result<EntryInfo> read_info(std::string_view text) {
  constexpr Json::Limits kLimits{.max_bytes = kMaxInfoBytes, .max_depth = 2, .max_values = 64};
  auto json = Json::parse(text, Json::Dialect::kStandard, kLimits);
  if (!json) return json.error();
  const Json& object = json.value();
  if (!object.is_object()) return bad("it is no object");
  int64_t format = 0, n_bytes = 0;
  OUTRIDER_TRY(take_integer(object, "format", 1, &format));
  if (format != kFormat) return bad("its format is none that this build knows");
  if (object.members().size() != 7) return bad("it has unknown keys");
  EntryInfo info;
  OUTRIDER_TRY(take_integer(object, "bytes", 1, &n_bytes));
  info.n_bytes = static_cast<uint64_t>(n_bytes);
  OUTRIDER_TRY(take_text(object, "sha256", &info.sha256));
  OUTRIDER_TRY(take_text(object, "name", &info.name));
  OUTRIDER_TRY(take_role(object, &info.role));
  OUTRIDER_TRY(take_companions(object, &info.companions));
  OUTRIDER_TRY(take_text(object, "checked", &info.checked));
  if (info.checked.size() > kMaxCheckedBytes || has_control(info.checked))
    return bad("checked is too long or has control characters");
  OUTRIDER_TRY(check_info(info));
  return info;
}

std::string look_of(const FileInfo& file) {
  char text[kMaxCheckedBytes];
  std::snprintf(text, sizeof text, "%" PRIx64 ":%" PRIx64 ":%" PRIx64 ":%" PRId64 ":%" PRId64,
                file.device, file.inode, file.size_bytes, file.mtime_ns, file.ctime_ns);
  return text;
}

bool is_settled(const FileInfo& file, int64_t wall_ns) {
  const bool coarse = file.mtime_ns % kSecondNs == 0 && file.ctime_ns % kSecondNs == 0;
  const int64_t tick_ns = coarse ? kCoarseTickNs : kFineTickNs;
  const auto apart = [&](int64_t time_ns) {
    return time_ns < wall_ns - tick_ns || time_ns > wall_ns + tick_ns;
  };
  return apart(file.mtime_ns) && apart(file.ctime_ns);
}

}  // namespace outrider::store
