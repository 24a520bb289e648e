#include "link/client/probe.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <ctime>

namespace outrider::link {

using wire::Cause;
using wire::Got;

namespace {

Error loss(const wire::Incoming& in, Got got, const char* what) {
  const Cause cause = got == Got::kRules ? Cause::kProtocol : wire::cause_of(in.io);
  char text[160];
  std::snprintf(text, sizeof text, "the connection ended (%s) while %s", io_name(in.io), what);
  return link_error(cause, text).error;
}

void pause(int64_t ns) {
  const timespec wait = {static_cast<time_t>(ns / 1'000'000'000),
                         static_cast<long>(ns % 1'000'000'000)};
  ::nanosleep(&wait, nullptr);
}

// One exchange: us, or -1 when no answer came in time.
Result<double> ping(Connection& connection, const Clock& clock, int64_t answer_ns) {
  const int64_t begin = clock.now_ns(), due = begin + answer_ns;
  const uint64_t id = connection.next_request();
  const Io io = connection.channel().send(wire::Ping(), {id, 0, 0, wire::kWantAnswer}, {}, due);
  wire::Incoming in;
  in.io = io;
  if (io != Io::kDone && io != Io::kLate) return loss(in, Got::kLost, "it was measured");
  const Got got = connection.wait(id, in, nullptr, nullptr, due);
  if (got == Got::kLate || got == Got::kCorrupted) return -1.0;
  if (got != Got::kMessage) return loss(in, got, "it was measured");
  return static_cast<double>(clock.now_ns() - begin) / 1e3;
}

// Bytes a second of n blocks one way, or 0.
Result<double> throughput(Connection& connection, const Clock& clock, const ProbeOptions& options,
                          bool forth) {
  const std::vector<std::byte> block(forth ? options.block_bytes : 0, std::byte{0x5A});
  const int64_t begin = clock.now_ns();
  constexpr int64_t kMostNs = 3'000'000'000;
  uint64_t bytes = 0;
  for (int i = 0; i < options.n_blocks && clock.now_ns() - begin < kMostNs; ++i) {
    wire::Probe probe;
    probe.return_bytes = forth ? 0 : options.block_bytes;
    const uint64_t id = connection.next_request();
    const int64_t due = clock.now_ns() + kMostNs;
    const Piece piece = block;
    const Io io = connection.channel().send(probe, {id, 0, 0, wire::kWantAnswer}, {&piece, 1}, due);
    wire::Incoming in;
    in.io = io;
    if (io != Io::kDone && io != Io::kLate) return loss(in, Got::kLost, "throughput was measured");
    Got got = Got::kMessage;
    wire::ProbeReply reply;
    do got = connection.wait(id, in, nullptr, nullptr, due);
    while (got == Got::kMessage && in.header.type == wire::type_of<wire::ProbeReply>() &&
           wire::decode(in.body, reply) && reply.left_bytes > 0);
    if (got == Got::kLate) break;
    if (got != Got::kMessage && got != Got::kCorrupted)
      return loss(in, got, "throughput was measured");
    bytes += options.block_bytes;
  }
  const double seconds = static_cast<double>(clock.now_ns() - begin) / 1e9;
  return seconds > 0 ? static_cast<double>(bytes) / seconds : 0.0;
}

double at(std::vector<double> sorted, double part) {
  if (sorted.empty()) return 0;
  std::ranges::sort(sorted);
  const auto i = static_cast<size_t>(part * static_cast<double>(sorted.size()));
  return sorted[std::min(i, sorted.size() - 1)];
}

__attribute__((format(printf, 1, 2))) std::string sentence(const char* format, ...) {
  char text[300];
  va_list args;
  va_start(args, format);
  std::vsnprintf(text, sizeof text, format, args);
  va_end(args);
  return text;
}

}  // namespace

Result<void> measure_link(Connection& connection, const Clock& clock, const ProbeOptions& options,
                          LinkMeasurement& out) {
  wire::Channel& channel = connection.channel();
  out.host = connection.host().name.view();
  out.peer = channel.facts().peer;
  out.kind = kind_name(channel.facts().kind);
  out.version = channel.version();
  for (int i = 0; i < options.n_pings; ++i) {
    ++out.sent;
    auto trip = ping(connection, clock, options.answer_ns);
    if (!trip) return trip.error();
    if (trip.value() < 0)
      ++out.lost;
    else
      out.trip_us.push_back(trip.value());
    pause(options.pause_ns);
  }
  if (connection.has(wire::kFeatureProbe)) {
    auto forth = throughput(connection, clock, options, true);
    if (!forth) return forth.error();
    auto back = throughput(connection, clock, options, false);
    if (!back) return back.error();
    out.forth_mb_s = forth.value() / 1e6;
    out.back_mb_s = back.value() / 1e6;
  }
  out.clock_known = channel.clock_sync().known();
  out.offset_ns = channel.clock_sync().offset_ns();
  out.bound_ns = channel.clock_sync().bound_ns();
  out.corrupted = channel.counters().corrupted;
  out.resyncs = channel.counters().resyncs;
  return {};
}

std::vector<std::string> judge_link(const LinkMeasurement& m, bool& good) {
  std::vector<std::string> out;
  const double p50 = at(m.trip_us, 0.5), p99 = at(m.trip_us, 0.99);
  if (m.corrupted + m.resyncs > 0)
    out.push_back(
        sentence("%llu messages were damaged: cable, plug, hub or memory is faulty; the "
                 "damage was found and nothing of it was used",
                 static_cast<unsigned long long>(m.corrupted + m.resyncs)));
  if (m.lost > 0)
    out.push_back(
        sentence("%lld of %lld answers did not come in time: the host stalls, or the "
                 "network drops; look at its load, then at the path",
                 static_cast<long long>(m.lost), static_cast<long long>(m.sent)));
  if (p99 > 20'000)
    out.push_back(
        sentence("one answer in a hundred takes %.1f ms or more: not fit for a 20 Hz loop; "
                 "a wireless hop, power saving or a busy host are the usual causes",
                 p99 / 1e3));
  else if (p50 > 0 && p99 > 10 * p50 && p99 > 2'000)
    out.push_back(
        sentence("the tail is long: half of the answers take %.2f ms, one in a hundred "
                 "%.2f ms; power saving or other traffic",
                 p50 / 1e3, p99 / 1e3));
  // Two pictures of 224x224x3 at 20 Hz are 6 MB/s; a tenth of a period each is what one may spend.
  constexpr double kFrameBytes = 301'056;
  if (m.forth_mb_s > 0 && kFrameBytes / (m.forth_mb_s * 1e6) > 0.010)
    out.push_back(
        sentence("a frame of two 224x224 pictures takes %.1f ms to the host at %.1f MB/s: "
                 "too slow for 20 Hz without trouble",
                 kFrameBytes / (m.forth_mb_s * 1e3), m.forth_mb_s));
  good = out.empty() && !m.trip_us.empty();
  if (m.trip_us.empty()) out.push_back("no answer came at all");
  out.push_back(good ? "good: nothing is wrong with this link" : "not good: see above");
  return out;
}

Result<wire::StatusReply> ask_status(Connection& connection, int64_t deadline_ns) {
  const uint64_t id = connection.next_request();
  const Io io =
      connection.channel().send(wire::Status(), {id, 0, 0, wire::kWantAnswer}, {}, deadline_ns);
  wire::Incoming in;
  in.io = io;
  if (io != Io::kDone) return loss(in, Got::kLost, "its state was asked for");
  const Got got = connection.wait(id, in, nullptr, nullptr, deadline_ns);
  if (got == Got::kLate)
    return link_error(Cause::kDeadline, "the host did not tell its state in time").error;
  if (got != Got::kMessage) return loss(in, got, "its state was asked for");
  wire::StatusReply reply;
  if (in.header.type != wire::type_of<wire::StatusReply>() || !wire::decode(in.body, reply))
    return link_error(Cause::kProtocol, "the answer to STATUS is none").error;
  return reply;
}

}  // namespace outrider::link
