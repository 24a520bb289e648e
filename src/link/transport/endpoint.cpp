// Endpoints as text, and the table of the kinds of transport.
#include <array>
#include <charconv>

#include "base/printable.h"
#include "link/transport/loopback.h"
#include "link/transport/tcp.h"
#include "link/transport/transport.h"

namespace outrider::link {
namespace {

constexpr size_t kMaxNameBytes = 64, kMaxHostBytes = 253;

Error refused(std::string_view text, const char* why) {
  return make_error(Code::kInvalid,
                    "endpoint \"%s\": %s; wanted tcp://HOST:PORT, usb:SERIAL or loopback:NAME",
                    printable(text).c_str(), why);
}

bool is_plain_name(std::string_view name) {
  for (char c : name) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '.' || c == '_' || c == '-';
    if (!plain) return false;
  }
  return true;
}

bool is_address_v6(std::string_view host) {
  for (char c : host) {
    const bool known = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F') ||
                       c == ':' || c == '.' || c == '%';
    if (!known) return false;
  }
  return host.find(':') != std::string_view::npos;
}

Result<Endpoint> parse_tcp(std::string_view text, std::string_view rest) {
  Endpoint out;
  out.kind = TransportKind::kTcp;
  const size_t colon = rest.rfind(':');
  if (colon == std::string_view::npos) return refused(text, "there is no port");
  std::string_view host = rest.substr(0, colon), port = rest.substr(colon + 1);
  const bool brackets = host.size() >= 2 && host.front() == '[' && host.back() == ']';
  if (brackets) host = host.substr(1, host.size() - 2);
  if (host.empty() || host.size() > kMaxHostBytes) return refused(text, "the host is missing");
  if (brackets ? !is_address_v6(host) : !is_plain_name(host))
    return refused(text, "the host is no name and no address");
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), out.port);
  if (port.empty() || error != std::errc() || end != port.data() + port.size())
    return refused(text, "the port is no number from 0 to 65535");
  out.host = host;
  return out;
}

// usb has no maker until the module that brings it registers one.
std::array<TransportMaker, 3> g_makers = {{
    {TransportKind::kLoopback, connect_loopback, listen_loopback},
    {TransportKind::kTcp, connect_tcp, listen_tcp},
    {TransportKind::kUsb, nullptr, nullptr},
}};

}  // namespace

const char* io_name(Io io) {
  static constexpr const char* kNames[] = {"done", "late", "closed", "reset",
                                           "gone", "shut", "broken"};
  return kNames[static_cast<size_t>(io)];
}

const char* kind_name(TransportKind kind) {
  static constexpr const char* kNames[] = {"loopback", "tcp", "usb"};
  return kNames[static_cast<size_t>(kind)];
}

std::string Endpoint::text() const {
  if (kind == TransportKind::kLoopback) return "loopback:" + name;
  if (kind == TransportKind::kUsb) return "usb:" + name;
  const bool v6 = host.find(':') != std::string::npos;
  return "tcp://" + (v6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

Result<Endpoint> parse_endpoint(std::string_view text) {
  const auto after = [&](std::string_view prefix) { return text.substr(prefix.size()); };
  if (text.starts_with("tcp://")) return parse_tcp(text, after("tcp://"));
  Endpoint out;
  if (text.starts_with("usb:")) {
    out.kind = TransportKind::kUsb;
    out.name = after("usb:");
  } else if (text.starts_with("loopback:")) {
    out.kind = TransportKind::kLoopback;
    out.name = after("loopback:");
    if (out.name.empty()) return refused(text, "the name is missing");
  } else {
    return refused(text, "its kind is unknown");
  }
  if (out.name.size() > kMaxNameBytes || !is_plain_name(out.name))
    return refused(text, "a name has at most 64 of A-Z a-z 0-9 . _ -");
  return out;
}

Result<std::unique_ptr<Transport>> connect_transport(const Endpoint& endpoint,
                                                     int64_t deadline_ns) {
  if (endpoint.kind == TransportKind::kTcp && endpoint.port == 0)
    return refused(endpoint.text(), "port 0 is only for listening");
  const TransportMaker& maker = g_makers[static_cast<size_t>(endpoint.kind)];
  if (maker.connect == nullptr)
    return make_error(Code::kUnsupported, "%s: this build has no %s transport",
                      endpoint.text().c_str(), kind_name(endpoint.kind));
  return maker.connect(endpoint, deadline_ns);
}

Result<std::unique_ptr<Listener>> listen_transport(const Endpoint& endpoint) {
  const TransportMaker& maker = g_makers[static_cast<size_t>(endpoint.kind)];
  if (maker.listen == nullptr)
    return make_error(Code::kUnsupported, "%s: this build has no %s transport",
                      endpoint.text().c_str(), kind_name(endpoint.kind));
  return maker.listen(endpoint);
}

void register_transport(const TransportMaker& maker) {
  g_makers[static_cast<size_t>(maker.kind)] = maker;
}

}  // namespace outrider::link
