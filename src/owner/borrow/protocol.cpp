#include "owner/borrow/protocol.h"

#include <cstring>
#include <iterator>

#include "base/json.h"
#include "base/json_text.h"
#include "base/printable.h"

namespace outrider::owner {
namespace {

constexpr int64_t kMaxSleepS = 7 * 24 * 3600;
constexpr size_t kMaxPathBytes = 256;
constexpr const char* kOps[] = {"borrow", "bounce", "server", "return"};
constexpr const char* kMedia[] = {"none", "usb", "tcp"};

// Reads the fields of one object; the first fault is kept.
class Fields {
 public:
  Fields(const char* what, const Json& json) : what_(what), json_(json) {}
  std::string text(const char* key, size_t max_bytes, bool needed) {
    const Json* value = json_.find(key);
    if (value == nullptr && !needed) return {};
    if (value == nullptr || !value->is_string() || value->text().size() > max_bytes ||
        printable(value->text(), max_bytes) != value->text()) {
      fail(key, "printable text", max_bytes);
      return {};
    }
    return value->text();
  }
  int64_t integer(const char* key, int64_t most) {
    const Json* value = json_.find(key);
    if (value == nullptr) return 0;
    const bool good = value->is_number() && value->is_integer() && value->integer() >= 0 &&
                      value->integer() <= most;
    if (!good) fail(key, "a whole number from 0 to", static_cast<size_t>(most));
    return good ? value->integer() : 0;
  }
  bool flag(const char* key) {
    const Json* value = json_.find(key);
    if (value == nullptr) return false;
    if (!value->is_bool()) fail(key, "true or false, bytes", 5);
    return value->is_bool() && value->boolean();
  }
  Result<void> result() const { return result_; }

 private:
  void fail(const char* key, const char* wanted, size_t limit) {
    if (result_)
      result_ = make_error(Code::kInvalid, "owner: %s: field \"%s\": wanted %s (%zu at most)",
                           what_, key, wanted, limit);
  }
  const char* what_;
  const Json& json_;
  Result<void> result_;
};

Result<Json> parse(const char* what, std::string_view line) {
  auto json = Json::parse(line, Json::Dialect::kStandard,
                          {.max_bytes = kMaxLineBytes, .max_depth = 2, .max_values = 64});
  if (!json) return make_error(Code::kInvalid, "owner: %s: %s", what, json.error().text);
  if (!json.value().is_object())
    return make_error(Code::kInvalid, "owner: %s: not an object", what);
  return json;
}

void add(std::string& out, const char* key, const std::string& value, size_t max_bytes) {
  if (!value.empty()) out += std::string(",\"") + key + "\":" + quoted(value, max_bytes);
}

void add(std::string& out, const char* key, int64_t value) {
  out += std::string(",\"") + key + "\":" + std::to_string(value);
}

void add(std::string& out, const char* key, bool value) {
  out += std::string(",\"") + key + "\":" + (value ? "true" : "false");
}

}  // namespace

const char* medium_name(Medium medium) {
  return kMedia[static_cast<size_t>(medium)];
}

std::string quoted(std::string_view text, size_t max_bytes) {
  return json_quoted(printable(text.substr(0, max_bytes), max_bytes));
}

bool is_name(std::string_view name) {
  if (name.empty() || name.size() > kMaxNameBytes) return false;
  for (const char c : name) {
    const bool good = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                      c == '.' || c == '_' || c == '-';
    if (!good) return false;
  }
  return true;
}

std::string to_line(const Request& request) {
  std::string out = std::string("{\"op\":\"") + kOps[static_cast<size_t>(request.op)] + '"';
  if (request.op == Op::kBorrow) add(out, "name", request.name, kMaxNameBytes);
  if (request.op == Op::kServer) {
    add(out, "protocol", request.server.protocol);
    add(out, "sleep_after", request.server.sleep_after_s);
    add(out, "device", request.server.device, kMaxTextBytes);
    add(out, "backend", request.server.backend, kMaxTextBytes);
    add(out, "software", request.server.software, kMaxTextBytes);
  }
  if (request.op == Op::kReturn) {
    add(out, "enabled", request.enabled);
    add(out, "opened", request.opened);
    add(out, "sessions", request.n_sessions);
  }
  return out + "}\n";
}

Result<Request> read_request(std::string_view line) {
  auto json = parse("request", line);
  if (!json) return json.error();
  Fields of("request", json.value());
  const std::string op = of.text("op", 16, true);
  Request out;
  bool known = false;
  for (size_t i = 0; i < std::size(kOps); ++i) {
    if (op != kOps[i]) continue;
    out.op = static_cast<Op>(i);
    known = true;
  }
  OUTRIDER_TRY(of.result());
  if (!known)
    return make_error(Code::kInvalid,
                      "owner: request: op \"%s\", known are borrow, bounce, server, "
                      "return",
                      op.c_str());
  if (out.op == Op::kBorrow) {
    out.name = of.text("name", kMaxNameBytes, true);
    OUTRIDER_TRY(of.result());
    if (!is_name(out.name))
      return make_error(Code::kInvalid,
                        "owner: request: name \"%s\", wanted 1 to 64 of A-Z a-z 0-9 . _ -",
                        out.name.c_str());
  }
  if (out.op == Op::kServer) {
    out.server.protocol = of.integer("protocol", 65535);
    out.server.sleep_after_s = of.integer("sleep_after", kMaxSleepS);
    out.server.device = of.text("device", kMaxTextBytes, false);
    out.server.backend = of.text("backend", kMaxTextBytes, false);
    out.server.software = of.text("software", kMaxTextBytes, false);
  }
  if (out.op == Op::kReturn) {
    out.enabled = of.flag("enabled");
    out.opened = of.flag("opened");
    out.n_sessions = of.integer("sessions", UINT32_MAX);
  }
  OUTRIDER_TRY(of.result());
  return out;
}

std::string to_line(const Reply& reply) {
  std::string out = reply.ok ? "{\"ok\":true" : "{\"ok\":false";
  if (reply.retry) add(out, "retry", true);
  add(out, "detail", reply.detail, kMaxTextBytes);
  if (reply.medium != Medium::kNone) add(out, "medium", medium_name(reply.medium), 8);
  if (reply.medium == Medium::kUsb) {
    add(out, "gadget", reply.gadget, kMaxPathBytes);
    add(out, "mount", reply.mount, kMaxPathBytes);
    add(out, "controller", reply.controller, kMaxPathBytes);
    add(out, "controllers", reply.controllers, kMaxPathBytes);
    add(out, "serial", reply.serial, kMaxNameBytes);
    add(out, "enabled", reply.enabled);
    add(out, "opened", reply.opened);
    add(out, "sessions", reply.n_sessions);
  }
  if (reply.medium == Medium::kTcp) {
    add(out, "endpoint", reply.endpoint, kMaxTextBytes);
    add(out, "local_only", reply.local_only);
  }
  return out + "}\n";
}

Result<Reply> read_reply(std::string_view line) {
  auto json = parse("reply", line);
  if (!json) return json.error();
  Fields of("reply", json.value());
  Reply out;
  out.ok = of.flag("ok");
  out.retry = of.flag("retry");
  out.detail = of.text("detail", kMaxTextBytes, false);
  const std::string medium = of.text("medium", 8, false);
  if (medium == "usb") {
    out.medium = Medium::kUsb;
    out.gadget = of.text("gadget", kMaxPathBytes, true);
    out.mount = of.text("mount", kMaxPathBytes, true);
    out.controller = of.text("controller", kMaxPathBytes, true);
    out.controllers = of.text("controllers", kMaxPathBytes, true);
    out.serial = of.text("serial", kMaxNameBytes, true);
    out.enabled = of.flag("enabled");
    out.opened = of.flag("opened");
    out.n_sessions = of.integer("sessions", UINT32_MAX);
  } else if (medium == "tcp") {
    out.medium = Medium::kTcp;
    out.endpoint = of.text("endpoint", kMaxTextBytes, true);
    out.local_only = of.flag("local_only");
  } else if (!medium.empty()) {
    return make_error(Code::kInvalid, "owner: reply: medium \"%s\", known are usb, tcp",
                      medium.c_str());
  }
  OUTRIDER_TRY(of.result());
  return out;
}

bool LineReader::add(std::string_view bytes) {
  kept_ += bytes;
  const size_t last = kept_.rfind('\n');
  const size_t open = last == std::string::npos ? kept_.size() : kept_.size() - last - 1;
  return open <= kMaxLineBytes && kept_.size() <= 4 * kMaxLineBytes;
}

bool LineReader::next(std::string& line) {
  const size_t end = kept_.find('\n');
  if (end == std::string::npos || end > kMaxLineBytes) return false;
  line = kept_.substr(0, end);
  kept_.erase(0, end + 1);
  return true;
}

}  // namespace outrider::owner
