#include "owner/config.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <functional>

#include "base/json.h"
#include "base/printable.h"
#include "link/transport/transport.h"
#include "owner/system.h"
#include "record/process.h"

namespace outrider::owner {
namespace {

using Set = std::function<bool(const Json& value)>;
struct Row {
  const char* key;
  const char* allowed;
  Set set;
};

// Holds an object against its rows: a key without a row, or a value that a row refuses, ends it.
Result<void> read_rows(const std::string& name, const Json& object, std::span<const Row> rows) {
  for (const Json::Member& member : object.members()) {
    const Row* found = nullptr;
    std::string all;
    for (const Row& row : rows) {
      if (member.name == row.key) found = &row;
      all += (all.empty() ? "" : ", ") + std::string(row.key);
    }
    if (found == nullptr)
      return make_error(Code::kInvalid, "%s:%u: unknown key \"%s\"; keys here are %s", name.c_str(),
                        member.value.line(), printable(member.name).c_str(), all.c_str());
    if (!found->set(member.value))
      return make_error(Code::kInvalid, "%s:%u: key \"%s\", allowed: %s", name.c_str(),
                        member.value.line(), found->key, found->allowed);
  }
  return {};
}

constexpr size_t kMaxPath = 200;
constexpr const char* kAPath = "an absolute path of at most 200 printable characters";

Set text(std::string& into, size_t max_bytes = kMaxTextBytes) {
  return [&into, max_bytes](const Json& value) {
    if (!value.is_string() || value.text().size() > max_bytes ||
        printable(value.text(), max_bytes) != value.text())
      return false;
    into = value.text();
    return true;
  };
}

Set path(std::string& into, bool may_be_empty = false) {
  return [&into, may_be_empty](const Json& value) {
    if (!text(into, kMaxPath)(value)) return false;
    return into.empty() ? may_be_empty : into[0] == '/';
  };
}

Set number(int64_t& into, int64_t least, int64_t most) {
  return [&into, least, most](const Json& value) {
    if (!value.is_number() || !value.is_integer() || value.integer() < least ||
        value.integer() > most)
      return false;
    into = value.integer();
    return true;
  };
}

Set flag(bool& into) {
  return [&into](const Json& value) {
    if (value.is_bool()) into = value.boolean();
    return value.is_bool();
  };
}

Set param_key(std::string& into) {
  return [&into](const Json& value) {
    if (!value.is_string() || value.text().size() > 64) return false;
    for (const char c : value.text()) {
      const bool good =
          (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
      if (!good) return false;
    }
    into = value.text();
    return true;
  };
}

Set command(std::vector<std::string>& into) {
  return [&into](const Json& value) {
    if (!value.is_array() || value.items().size() > 32) return false;
    into.clear();
    for (const Json& word : value.items()) {
      std::string one;
      if (!text(one, kMaxTextBytes)(word) || (into.empty() && one.empty())) return false;
      into.push_back(std::move(one));
    }
    return true;
  };
}

// Nested objects give their own refusal, with the line.
class Nested {
 public:
  explicit Nested(const std::string& name) : name_(name) {}
  Set object(std::function<std::vector<Row>()> rows) {
    return [this, rows = std::move(rows)](const Json& value) {
      if (!value.is_object()) return false;
      if (auto read = read_rows(name_, value, rows()); !read && result) result = read;
      return true;
    };
  }
  Set list(std::vector<Tuning>& into) {
    return [this, &into](const Json& value) {
      if (!value.is_array() || value.items().size() > 32) return false;
      into.clear();
      for (const Json& item : value.items()) {
        Tuning one;
        const Row rows[] = {{"path", kAPath, path(one.path)},
                            {"value", "a string", text(one.value)},
                            {"at_least", "true or false", flag(one.at_least)}};
        if (!item.is_object()) return false;
        if (auto read = read_rows(name_, item, rows); !read && result) result = read;
        if (one.path.empty()) return false;
        into.push_back(std::move(one));
      }
      return true;
    };
  }
  Result<void> result;

 private:
  const std::string& name_;
};

Result<void> check(const Config& config, const std::string& name) {
  const auto wrong = [&](const char* what) {
    return make_error(Code::kInvalid, "%s: %s", name.c_str(), what);
  };
  auto endpoint = link::parse_endpoint(config.tcp_listen);
  if (!endpoint || endpoint.value().kind != link::TransportKind::kTcp)
    return wrong("key \"tcp\".\"listen\", allowed: tcp://HOST:PORT");
  const bool local = endpoint.value().host == "127.0.0.1" || endpoint.value().host == "::1" ||
                     endpoint.value().host == "localhost";
  if (!local && config.key_file.empty() && !config.plaintext)
    return wrong(
        "key \"tcp\".\"listen\": other machines reach it; name a \"key_file\", or say "
        "\"plaintext\": true for a cable that is yours alone");
  if (!config.key_file.empty() && config.plaintext)
    return wrong("\"plaintext\" beside a \"key_file\": leave one of them away");
  if (config.keys.mode.empty() || config.keys.parked.empty())
    return wrong("\"keys\": mode and parked need a name");
  if (!config.default_model.sha256.empty() && !record::is_hex(config.default_model.sha256, 64))
    return wrong("\"default_model\".\"sha256\", allowed: 64 lower-case hexadecimal digits");
  if (config.default_model.path.empty() != config.default_model.sha256.empty())
    return wrong("\"default_model\" needs both \"path\" and \"sha256\"");
  return {};
}

void replace_all(std::string& word, const std::string& what, const std::string& with) {
  for (size_t at = 0; (at = word.find(what, at)) != std::string::npos; at += with.size())
    word.replace(at, what.size(), with);
}

}  // namespace

std::vector<Tuning> stock_tuning() {
  return {{"/proc/sys/vm/dirty_bytes", "16777216", false},
          {"/proc/sys/vm/dirty_background_bytes", "8388608", false},
          {"/proc/sys/vm/extra_free_kbytes", "32768", true},
          {"/proc/sys/net/core/wmem_max", "4194304", true},
          {"/proc/sys/net/core/rmem_max", "4194304", true}};
}

Result<Config> parse_config(std::string_view bytes, const std::string& name) {
  auto json = Json::parse(bytes, Json::Dialect::kStandard,
                          {.max_bytes = kMaxFileBytes, .max_depth = 8, .max_values = 1024});
  if (!json) return make_error(Code::kInvalid, "%s: %s", name.c_str(), json.error().text);
  if (!json.value().is_object())
    return make_error(Code::kInvalid, "%s: wanted a JSON object", name.c_str());
  Config c;
  c.tuning = stock_tuning();
  Nested nested(name);
  const auto keys = [&]() -> std::vector<Row> {
    constexpr const char* kAllowed = "a parameter's name, or \"\"";
    return {{"mode", kAllowed, param_key(c.keys.mode)},
            {"parked", kAllowed, param_key(c.keys.parked)},
            {"charge_phone", kAllowed, param_key(c.keys.charge_phone)},
            {"big_model", kAllowed, param_key(c.keys.big_model)},
            {"catalog", kAllowed, param_key(c.keys.catalog)},
            {"spec", kAllowed, param_key(c.keys.spec)},
            {"shutdown", kAllowed, param_key(c.keys.shutdown)},
            {"reboot", kAllowed, param_key(c.keys.reboot)},
            {"uninstall", kAllowed, param_key(c.keys.uninstall)}};
  };
  const auto usb = [&]() -> std::vector<Row> {
    constexpr const char* kId = "a whole number from 0 to 4294967294";
    return {{"serial", "1 to 64 of A-Z a-z 0-9 . _ -, or \"\"",
             [&](const Json& value) {
               return text(c.usb_serial)(value) && (c.usb_serial.empty() || is_name(c.usb_serial));
             }},
            {"controller", "a name below /sys/class/udc, or \"\"",
             [&](const Json& value) {
               return text(c.usb_controller)(value) &&
                      c.usb_controller.find('/') == std::string::npos;
             }},
            {"owner_uid", kId, number(c.usb_owner_uid, 0, 4294967294)},
            {"owner_gid", kId, number(c.usb_owner_gid, 0, 4294967294)}};
  };
  const auto tcp = [&]() -> std::vector<Row> {
    return {{"listen", "tcp://HOST:PORT", text(c.tcp_listen)},
            {"key_file", kAPath, path(c.key_file, true)},
            {"plaintext", "true or false", flag(c.plaintext)}};
  };
  const auto current = [&]() -> std::vector<Row> {
    return {{"path", kAPath, path(c.port_current.path, true)},
            {"cut", "a string", text(c.port_current.cut)}};
  };
  const auto model = [&]() -> std::vector<Row> {
    return {{"path", kAPath, path(c.default_model.path, true)},
            {"sha256", "64 lower-case hexadecimal digits", text(c.default_model.sha256)}};
  };
  constexpr const char* kArgv = "a list of at most 32 words, the program first";
  const Row rows[] = {{"socket", kAPath, path(c.socket)},
                      {"socket_mode", "384 (0600) or 432 (0660)",
                       [&](const Json& value) {
                         return number(c.socket_mode, 0, 0777)(value) &&
                                (c.socket_mode == 0600 || c.socket_mode == 0660);
                       }},
                      {"status", kAPath, path(c.status)},
                      {"runtime_record", kAPath, path(c.runtime_record)},
                      {"power_off_request", kAPath, path(c.power_off_request)},
                      {"state_dir", kAPath, path(c.state_dir)},
                      {"params_dir", kAPath, path(c.params_dir, true)},
                      {"log_file", kAPath, path(c.log_file, true)},
                      {"keys", "an object", nested.object(keys)},
                      {"usb", "an object", nested.object(usb)},
                      {"tcp", "an object", nested.object(tcp)},
                      {"tuning", "a list of {\"path\", \"value\", \"at_least\"}, at most 32",
                       nested.list(c.tuning)},
                      {"port_current", "an object", nested.object(current)},
                      {"default_model", "an object", nested.object(model)},
                      {"provision", kArgv, command(c.provision)},
                      {"power_off", kArgv, command(c.power_off)}};
  auto read = read_rows(name, json.value(), rows);
  if (!nested.result) return nested.result.error();
  if (!read) return read.error();
  OUTRIDER_TRY(check(c, name));
  return c;
}

Result<Config> read_config(const std::string& file) {
  std::string bytes;
  const int error = linux_system().read(file, bytes);
  if (error != 0)
    return make_error(error == -EFBIG ? Code::kInvalid : Code::kNotFound, "%s: %s",
                      short_path(file).c_str(),
                      error == -EFBIG ? "more than 65536 bytes" : std::strerror(-error));
  return parse_config(bytes, short_path(file));
}

std::vector<std::string> filled(const std::vector<std::string>& argv, const Config& config,
                                const std::string& sha256) {
  std::vector<std::string> out = argv;
  for (std::string& word : out) {
    replace_all(word, "{model}", config.default_model.path);
    replace_all(word, "{sha256}", sha256);
    replace_all(word, "{socket}", config.socket);
  }
  return out;
}

}  // namespace outrider::owner
