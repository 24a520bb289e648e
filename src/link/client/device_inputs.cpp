// set_input: from the caller's memory onto the wire, without a copy.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/utf8.h"
#include "link/client/device.h"

namespace outrider::link {

using wire::Got;
using wire::InputForm;

namespace {

constexpr uint64_t kUnknownPortBytes = 64 << 10;

uint64_t pixel_bytes(uint32_t format) {
  static constexpr uint64_t kBytes[] = {3, 3, 4, 4, 1};
  return format < 5 ? kBytes[format] : 0;
}

// Bytes of a picture that is as its view says, row by row; 0 when it is not.
struct Rows {
  uint64_t n = 0, row_bytes = 0, stride = 0;
  uint64_t packed() const { return n * row_bytes; }
};
Rows rows_of(const frt_image_view& view) {
  const uint64_t pixel = pixel_bytes(view.pixel_format);
  if (view.struct_size < sizeof view || view.data == nullptr || view.width <= 0 ||
      view.height <= 0 || view.stride_bytes < 0 || pixel == 0)
    return {};
  Rows rows{static_cast<uint64_t>(view.height), static_cast<uint64_t>(view.width) * pixel, 0};
  rows.stride = view.stride_bytes == 0 ? rows.row_bytes : static_cast<uint64_t>(view.stride_bytes);
  if (rows.stride < rows.row_bytes || rows.packed() > wire::kMaxPayloadBytes) return {};
  if (view.bytes < (rows.n - 1) * rows.stride + rows.row_bytes) return {};
  return rows;
}

bool all_finite(const void* data, uint64_t bytes) {
  const auto* at = static_cast<const std::byte*>(data);
  for (uint64_t i = 0; i + sizeof(uint32_t) <= bytes; i += sizeof(uint32_t)) {
    uint32_t bits;
    std::memcpy(&bits, at + i, sizeof bits);
    if ((bits & 0x7F800000u) == 0x7F800000u) return false;
  }
  return true;
}

bool plain_text(std::string_view text) {
  for (const char c : text)
    if (static_cast<unsigned char>(c) < 0x20) return false;
  return utf8_valid(text);
}

}  // namespace

Code Device::set_input(uint32_t port, const void* data, uint64_t bytes) noexcept {
  return lend_input(port, data, bytes, nullptr);
}

Code Device::lend_input(uint32_t port, const void* data, uint64_t bytes, uint64_t* loan) noexcept {
  if (loan != nullptr) *loan = 0;
  outputs_ready_ = false;
  run_open_ = false;
  int64_t deadline_ns = 0;
  if (const Code code = begin(deadline_ns); code != Code::kOk) return code;
  const Code code = stage(port, data, bytes, loan != nullptr, deadline_ns);
  if (loan != nullptr && code == Code::kOk && connection_->channel().has_lent()) {
    *loan = ++n_loans_;
    loan_.store(*loan, std::memory_order_release);
    ++counters_.inputs_lent;
  }
  give_token();
  if (code != Code::kOk) ++counters_.refused_inputs;
  return code;
}

// ---- loans

// With the token.
void Device::flush_loan(int64_t deadline_ns) noexcept {
  if (!connected()) return;
  const Io io = connection_->channel().flush(deadline_ns);
  if (io != Io::kDone && io != Io::kLate)
    lost(wire::cause_of(io), "the connection ended while an input was sent");
}

bool Device::is_free(uint64_t loan) noexcept {
  if (loan == 0 || loan_.load(std::memory_order_acquire) != loan) return true;
  const int64_t now = clock_->now_ns();
  if (!take_token(now)) return false;  // the link is looked after, and sent on by that
  flush_loan(now);
  give_token();
  return loan_.load(std::memory_order_acquire) != loan;
}

Code Device::wait_free(uint64_t loan, int64_t timeout_ns) noexcept {
  if (is_free(loan)) return Code::kOk;
  const int64_t now = clock_->now_ns();
  const int64_t due = timeout_ns < INT64_MAX - now ? now + timeout_ns : INT64_MAX;
  if (!take_token(due)) return Code::kNotReady;
  flush_loan(due);
  give_token();
  return is_free(loan) ? Code::kOk : Code::kNotReady;
}

// Fills input_ and pieces_.
void Device::describe_input(uint32_t port, const void* data, uint64_t bytes) noexcept {
  const wire::Port* known = port < ports_.size() ? &runtime_.ports.items[port] : nullptr;
  input_.port = port;
  input_.bytes = bytes;
  input_.form = static_cast<uint8_t>(InputForm::kNothing);
  input_.views.clear();
  pieces_.clear();
  const uint64_t limit = known == nullptr ? kUnknownPortBytes : known->max_bytes;
  if (data == nullptr) return;
  const bool pictures =
      known != nullptr && known->direction == FRT_PORT_IN &&
      (known->modality == FRT_MODALITY_IMAGE || known->modality == FRT_MODALITY_DEPTH) &&
      bytes > 0 && bytes % sizeof(frt_image_view) == 0 &&
      bytes / sizeof(frt_image_view) <= wire::kMaxViews;
  if (pictures) {
    input_.form = static_cast<uint8_t>(InputForm::kViews);
    uint64_t budget = limit;
    const auto* views = static_cast<const std::byte*>(data);
    for (uint64_t i = 0; i < bytes / sizeof(frt_image_view); ++i) {
      frt_image_view view;
      std::memcpy(&view, views + i * sizeof view, sizeof view);
      add_view(view, budget);
    }
  } else if (bytes <= limit) {
    input_.form = static_cast<uint8_t>(InputForm::kBytes);
    pieces_.push_back({static_cast<const std::byte*>(data), bytes});
  }
}

// A picture is sent without the gaps between its rows.
void Device::add_view(const frt_image_view& view, uint64_t& budget) noexcept {
  wire::View& sent = input_.views.add();
  sent = {view.struct_size,
          view.pixel_format,
          view.bytes,
          view.timestamp_ns,
          view.width,
          view.height,
          view.stride_bytes,
          0,
          0};
  const Rows rows = rows_of(view);
  const auto* at = static_cast<const std::byte*>(view.data);
  const bool packed = rows.stride == rows.row_bytes;
  const size_t n_pieces = packed ? 1 : rows.n;
  if (rows.n == 0 || rows.packed() > budget || pieces_.size() + n_pieces > pieces_.capacity())
    return;
  if (packed)
    pieces_.push_back({at, rows.packed()});
  else
    for (uint64_t y = 0; y < rows.n; ++y) pieces_.push_back({at + y * rows.stride, rows.row_bytes});
  budget -= rows.packed();
  sent.has_data = 1;
  sent.bytes = sent.sent_bytes = static_cast<uint32_t>(rows.packed());
  sent.stride_bytes = 0;
  const int64_t now = clock_->now_ns();
  const auto taken = static_cast<int64_t>(view.timestamp_ns);
  captured_ns_ = taken > 0 && taken <= now ? taken : now;
}

// The host took one of this kind before: the same sizes, and nothing in it that a model refuses.
bool Device::is_usual(uint32_t port, const void* data) const noexcept {
  if (port >= ports_.size() || !ports_[port].taken) return false;
  const PortState& state = ports_[port];
  if (input_.form == static_cast<uint8_t>(InputForm::kViews)) {
    if (input_.views.n != state.views.n) return false;
    for (uint16_t i = 0; i < input_.views.n; ++i) {
      const wire::View &a = input_.views.items[i], &b = state.views.items[i];
      if (a.has_data != 1 || a.width != b.width || a.height != b.height ||
          a.pixel_format != b.pixel_format || a.struct_size != b.struct_size)
        return false;
    }
    return true;
  }
  if (input_.form != static_cast<uint8_t>(InputForm::kBytes) || state.views.n != 0) return false;
  if (input_.bytes < state.least_bytes || input_.bytes > state.most_bytes) return false;
  const wire::Port& known = runtime_.ports.items[port];
  if (known.modality == FRT_MODALITY_TEXT)
    return plain_text({static_cast<const char*>(data), input_.bytes});
  const uint64_t unit = known.dtype == FRT_DTYPE_F32 || known.dtype == FRT_DTYPE_I32    ? 4
                        : known.dtype == FRT_DTYPE_F16 || known.dtype == FRT_DTYPE_BF16 ? 2
                        : known.dtype == FRT_DTYPE_I64                                  ? 8
                                                                                        : 1;
  if (input_.bytes % unit != 0) return false;
  return known.dtype != FRT_DTYPE_F32 || all_finite(data, input_.bytes);
}

void Device::remember(uint32_t port) noexcept {
  if (port >= ports_.size()) return;
  PortState& state = ports_[port];
  if (input_.form == static_cast<uint8_t>(InputForm::kNothing)) return;
  const bool first = !state.taken;
  state.taken = true;
  state.views = input_.views;
  state.least_bytes = first ? input_.bytes : std::min(state.least_bytes, input_.bytes);
  state.most_bytes = first ? input_.bytes : std::max(state.most_bytes, input_.bytes);
}

// A lent one goes behind what is still to be sent, and only as far as the system takes it at once.
Io Device::send_input(const wire::Outgoing& facts, int64_t deadline_ns) noexcept {
  wire::Channel& channel = connection_->channel();
  if (!facts.lent) return channel.send(input_, facts, pieces_, deadline_ns);
  if (const Io io = channel.flush(deadline_ns); io != Io::kDone) return io;
  Io io = channel.send(input_, facts, pieces_, clock_->now_ns());
  if (io == Io::kLate && !channel.begun()) io = channel.send(input_, facts, pieces_, deadline_ns);
  return io == Io::kLate && channel.has_lent() ? Io::kDone : io;
}

Code Device::stage(uint32_t port, const void* data, uint64_t bytes, bool lent,
                   int64_t deadline_ns) noexcept {
  describe_input(port, data, bytes);
  const bool usual = is_usual(port, data);
  wire::Channel& channel = connection_->channel();
  const uint64_t id = connection_->next_request();
  const uint8_t flags = usual ? uint8_t{0} : wire::kWantAnswer;
  const Io io = send_input({id, epoch_, captured_ns_, flags, lent && usual}, deadline_ns);
  if (channel.begun()) ++n_inputs_;
  PortState unknown;
  PortState& state = port < ports_.size() ? ports_[port] : unknown;
  state.failed = true;
  if (io == Io::kLate) return too_late("sending an input");
  if (io != Io::kDone)
    return lost(wire::cause_of(io), "the connection ended while an input was sent");
  if (usual) {
    state.failed = false;
    ++counters_.inputs_sent;
    error_[0] = '\0';
    return Code::kOk;
  }
  ++counters_.inputs_waited;
  wire::Incoming in;
  const Got got = connection_->wait(id, in, nullptr, this, deadline_ns);
  if (!connected()) return Code::kDevice;
  if (got == Got::kLate) return too_late("the answer to an input");
  if (got == Got::kCorrupted)
    return fail(Code::kDevice, "link: corrupted: the answer to an input was damaged on its way");
  if (got != Got::kMessage) return lost_by(got, in, "an input was answered");
  wire::Answer answer;
  wire::Fault fault;
  if (in.header.type == wire::type_of<wire::Fault>() && wire::decode(in.body, fault))
    return refuse(fault.code, fault.text);
  if (in.header.type != wire::type_of<wire::Answer>() || !wire::decode(in.body, answer))
    return lost(wire::Cause::kProtocol, "the answer to an input is none");
  state.failed = false;  // the runtime itself knows what it has
  if (answer.code != 0) return refuse(answer.code, answer.text);
  remember(port);
  error_[0] = '\0';
  return Code::kOk;
}

}  // namespace outrider::link
