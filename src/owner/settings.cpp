#include "owner/settings.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>

#include "base/json.h"
#include "base/log.h"
#include "base/printable.h"
#include "owner/borrow/protocol.h"

namespace outrider::owner {
namespace {

constexpr size_t kMaxSettings = 64, kMaxPathBytes = 256, kMaxValueBytes = 256;

std::optional<int64_t> number_of(const std::string& text) {
  int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && at == end ? std::optional(value) : std::nullopt;
}

bool writable_text(const std::string& text, size_t max_bytes) {
  return text.size() <= max_bytes && printable(text, max_bytes) == text;
}

}  // namespace

Settings::Settings(System& system, std::string journal, std::vector<std::string> roots)
    : system_(system), journal_(std::move(journal)), roots_(std::move(roots)) {
  if (roots_.empty()) roots_ = {"/sys/", "/proc/sys/"};
}

bool Settings::allowed(const std::string& path) const {
  if (path.size() > kMaxPathBytes || path.find("/../") != std::string::npos ||
      !writable_text(path, kMaxPathBytes))
    return false;
  for (const std::string& root : roots_)
    if (path.starts_with(root)) return true;
  return false;
}

bool Settings::changed(const std::string& path) const {
  return std::any_of(entries_.begin(), entries_.end(),
                     [&](const Entry& entry) { return entry.path == path; });
}

Result<void> Settings::save() const {
  if (entries_.empty()) {
    const int error = system_.remove(journal_);
    if (error == 0 || error == -ENOENT) return {};
    return make_error(Code::kFailed, "owner: %s cannot be removed: %s",
                      short_path(journal_).c_str(), std::strerror(-error));
  }
  std::string text = "{\"version\":1,\"boot_id\":" + quoted(system_.boot_id()) + ",\"settings\":[";
  for (const Entry& e : entries_) {
    if (&e != &entries_.front()) text += ',';
    text += "{\"path\":" + quoted(e.path) + ",\"old\":" + quoted(e.old_value) +
            ",\"restore_path\":" + quoted(e.restore_path) +
            ",\"restore\":" + quoted(e.restore_value) + ",\"wanted\":" + quoted(e.wanted) +
            ",\"seen\":" + quoted(e.seen) + "}";
  }
  const int error = system_.replace(journal_, text + "]}\n", true);
  if (error == 0) return {};
  return make_error(Code::kFailed, "owner: %s cannot be written: %s; no setting is changed",
                    short_path(journal_).c_str(), std::strerror(-error));
}

Result<void> Settings::load(std::vector<Entry>& entries) {
  std::string text;
  const int error = system_.read(journal_, text);
  if (error == -ENOENT) return {};
  const auto damaged = [&](const char* why) {
    return make_error(Code::kFailed,
                      "owner: %s: %s; settings of a killed owner cannot be put back, a reboot does",
                      short_path(journal_).c_str(), why);
  };
  if (error != 0) return damaged(std::strerror(-error));
  auto json = Json::parse(text, Json::Dialect::kStandard,
                          {.max_bytes = kMaxFileBytes, .max_depth = 4, .max_values = 1024});
  if (!json) return damaged(json.error().text);
  const Json *version = json.value().find("version"), *boot = json.value().find("boot_id"),
             *list = json.value().find("settings");
  if (version == nullptr || !version->is_integer() || version->integer() != 1 || boot == nullptr ||
      !boot->is_string() || list == nullptr || !list->is_array() ||
      list->items().size() > kMaxSettings)
    return damaged("not a record of this version");
  if (boot->text() != system_.boot_id()) return {};  // the kernel's own values are back
  for (const Json& item : list->items()) {
    Entry e;
    const std::pair<const char*, std::string*> fields[] = {{"path", &e.path},
                                                           {"old", &e.old_value},
                                                           {"restore", &e.restore_value},
                                                           {"restore_path", &e.restore_path},
                                                           {"wanted", &e.wanted},
                                                           {"seen", &e.seen}};
    for (const auto& [key, into] : fields) {
      const Json* value = item.find(key);
      if (value == nullptr || !value->is_string()) return damaged("a setting lacks a field");
      *into = value->text();
    }
    if (!allowed(e.path) || !allowed(e.restore_path))
      return damaged("it names a file that is no setting");
    entries.push_back(std::move(e));
  }
  return {};
}

Result<int> Settings::recover() {
  std::vector<Entry> found;
  auto loaded = load(found);
  if (!loaded) {
    (void)system_.remove(journal_);
    return loaded.error();
  }
  entries_ = std::move(found);
  const int n = static_cast<int>(entries_.size());
  if (n > 0)
    log_line(LogLevel::kWarn, "owner: the last owner was killed with %d settings changed", n);
  return n - restore_all();
}

Result<void> Settings::set(const std::string& path, const std::string& value) {
  if (!allowed(path) || !writable_text(value, kMaxValueBytes))
    return make_error(Code::kInvalid, "owner: %s is no setting of the system",
                      printable(path, kMaxPathBytes).c_str());
  std::string old_value;
  if (const int error = system_.read(path, old_value); error != 0)
    return make_error(error == -ENOENT ? Code::kNotFound : Code::kFailed, "owner: %s: %s",
                      path.c_str(), std::strerror(-error));
  auto at = std::find_if(entries_.begin(), entries_.end(),
                         [&](const Entry& entry) { return entry.path == path; });
  if (at != entries_.end() && at->wanted == value && (old_value == value || old_value == at->seen))
    return {};
  if (at == entries_.end()) {
    if (old_value == value) return {};  // so it is: nothing to put back either
    if (entries_.size() >= kMaxSettings || !writable_text(old_value, kMaxValueBytes))
      return make_error(Code::kFailed, "owner: %s: its old value cannot be kept", path.c_str());
    Entry entry{path, old_value, path, old_value, value, ""};
    // A zero there means that the ratio beside it is in use; the zero itself is refused.
    if (path.ends_with("_bytes") && old_value == "0") {
      const std::string ratio = path.substr(0, path.size() - 5) + "ratio";
      std::string share;
      if (system_.read(ratio, share) == 0 && writable_text(share, kMaxValueBytes)) {
        entry.restore_path = ratio;
        entry.restore_value = share;
      }
    }
    entries_.push_back(std::move(entry));
    at = entries_.end() - 1;
  } else {
    at->wanted = value;
    at->seen.clear();
  }
  if (auto saved = save(); !saved) {
    if (at->seen.empty() && old_value == at->old_value) entries_.erase(at);
    return saved;
  }
  if (const int error = system_.write(path, value); error != 0) {
    if (old_value == at->old_value) entries_.erase(at);
    (void)save().code();
    return make_error(Code::kFailed, "owner: %s refuses \"%s\": %s", path.c_str(), value.c_str(),
                      std::strerror(-error));
  }
  std::string seen;
  if (system_.read(path, seen) == 0 && writable_text(seen, kMaxValueBytes)) at->seen = seen;
  (void)save().code();  // without it the next start puts the value back without a look
  return {};
}

Result<void> Settings::raise(const std::string& path, const std::string& value) {
  std::string now;
  if (allowed(path) && !changed(path) && system_.read(path, now) == 0) {
    const auto has = number_of(now), wants = number_of(value);
    if (has && wants && *has >= *wants) return {};
  }
  return set(path, value);
}

Result<void> Settings::put_back(const Entry& entry) {
  std::string now;
  if (system_.read(entry.path, now) == 0 && !entry.seen.empty() && now != entry.seen &&
      now != entry.wanted && now != entry.old_value) {
    log_line(LogLevel::kWarn, "owner: %s is \"%s\", changed by somebody else: left",
             entry.path.c_str(), printable(now, 64).c_str());
    return {};
  }
  const int error = system_.write(entry.restore_path, entry.restore_value);
  if (error == 0 || error == -ENOENT) return {};
  return make_error(Code::kFailed, "owner: %s cannot be put back to \"%s\": %s",
                    entry.restore_path.c_str(), entry.restore_value.c_str(), std::strerror(-error));
}

Result<void> Settings::restore(const std::string& path) {
  const auto at = std::find_if(entries_.begin(), entries_.end(),
                               [&](const Entry& entry) { return entry.path == path; });
  if (at == entries_.end()) return {};
  OUTRIDER_TRY(put_back(*at));
  entries_.erase(at);
  return save();
}

int Settings::restore_all() {
  int n_failed = 0;
  for (size_t i = entries_.size(); i-- > 0;) {
    if (auto done = put_back(entries_[i]); !done) {
      log_line(LogLevel::kError, "%s", done.error().text);
      ++n_failed;
      continue;
    }
    entries_.erase(entries_.begin() + static_cast<ptrdiff_t>(i));
  }
  if (auto saved = save(); !saved) log_line(LogLevel::kError, "%s", saved.error().text);
  return n_failed;
}

}  // namespace outrider::owner
