#include "tandem/input_ring.h"

#include <cstring>

namespace outrider::tandem {
namespace {

constexpr int64_t kSpareSlots = 2;

uint64_t payload_bytes(const Port& port) {
  return Arena::cost<std::byte>(port.bytes) +
         (port.image ? Arena::cost<frt_image_view>(port.n_views) : 0);
}

constexpr uint32_t bytes_per_pixel(uint32_t format) {
  constexpr uint32_t kBytes[] = {3, 3, 4, 4, 1};
  return format < std::size(kBytes) ? kBytes[format] : 0;
}

// Views keep their pixels at the same offset in every slot's room.
void copy_payload(const InputRing::Payload& from, InputRing::Payload& to) noexcept {
  if (to.version == from.version) return;
  to.version = from.version;
  to.bytes = from.bytes;
  if (from.views.empty()) {
    std::memcpy(to.data.data(), from.data.data(), from.bytes);
    return;
  }
  for (size_t i = 0; i < from.bytes / sizeof(frt_image_view); ++i) {
    to.views[i] = from.views[i];
    const auto* pixels = static_cast<const std::byte*>(from.views[i].data);
    const auto offset = static_cast<size_t>(pixels - from.data.data());
    to.views[i].data = to.data.data() + offset;
    std::memcpy(to.data.data() + offset, pixels, from.views[i].bytes);
  }
}

}  // namespace

uint64_t InputRing::room_bytes(const Ports& ports, int64_t n_ticks, bool with_answers) {
  uint64_t one = 0;
  for (const Port& port : ports.in) one += payload_bytes(port);
  const auto n_slots = static_cast<uint64_t>(n_ticks + kSpareSlots);
  return one * (n_slots + 1) + (with_answers ? answer_bytes(ports) * n_slots : 0);
}

InputRing::InputRing(const Ports& ports, int64_t n_ticks, bool with_answers, Arena& arena)
    : ports_(ports), n_ticks_(n_ticks), with_answers_(with_answers) {
  for (const Port& port : ports.in) staged_.push_back(take_payload(port, arena));
  for (int64_t i = 0; i < n_ticks + kSpareSlots; ++i) {
    auto slot = std::make_unique<Slot>();
    for (const Port& port : ports.in) slot->inputs.push_back(take_payload(port, arena));
    if (with_answers) slot->answer = take_answer(ports, arena);
    slots_.push_back(std::move(slot));
  }
}

InputRing::Payload InputRing::take_payload(const Port& port, Arena& arena) {
  Payload payload;
  payload.data = arena.take<std::byte>(port.bytes);
  if (port.image) payload.views = arena.take<frt_image_view>(port.n_views);
  return payload;
}

int InputRing::stage(size_t input, const void* data, uint64_t bytes) noexcept {
  Payload& to = staged_[input];
  to.version = 0;
  if (ports_.in[input].image) {
    if (const int code = stage_image(to, data, bytes); code != FRT_OK) return code;
  } else {
    if (bytes > to.data.size()) return FRT_ERR_SHAPE;
    if (bytes > 0) std::memcpy(to.data.data(), data, bytes);
  }
  to.bytes = bytes;
  to.version = ++version_;
  return FRT_OK;
}

// Rows are packed: what the view points at is the caller's and may be gone after the call.
int InputRing::stage_image(Payload& to, const void* data, uint64_t bytes) noexcept {
  const uint64_t n = bytes / sizeof(frt_image_view);
  if (bytes % sizeof(frt_image_view) != 0) return FRT_ERR_INVALID;
  if (n > to.views.size()) return FRT_ERR_SHAPE;
  size_t used = 0;
  for (uint64_t i = 0; i < n; ++i) {
    frt_image_view view = static_cast<const frt_image_view*>(data)[i];
    const uint64_t pixel = bytes_per_pixel(view.pixel_format);
    if (pixel == 0 || view.data == nullptr || view.width <= 0 || view.height <= 0 ||
        view.stride_bytes < 0)
      return FRT_ERR_INVALID;
    const uint64_t row = static_cast<uint64_t>(view.width) * pixel;
    const auto rows = static_cast<uint64_t>(view.height);
    const uint64_t stride = view.stride_bytes == 0 ? row : static_cast<uint64_t>(view.stride_bytes);
    if (stride < row || view.bytes < (rows - 1) * stride + row) return FRT_ERR_INVALID;
    if (row * rows > to.data.size() - used) return FRT_ERR_SHAPE;
    const auto* from = static_cast<const std::byte*>(view.data);
    std::byte* pixels = to.data.data() + used;
    for (uint64_t y = 0; y < rows; ++y) std::memcpy(pixels + y * row, from + y * stride, row);
    view.data = pixels;
    view.bytes = row * rows;
    view.stride_bytes = static_cast<int32_t>(row);
    to.views[i] = view;
    used += row * rows;
  }
  return FRT_OK;
}

void InputRing::commit(int64_t tick) noexcept {
  for (;;) {
    Slot* oldest = nullptr;
    for (const auto& slot : slots_)
      if (slot->claim.load(std::memory_order_relaxed) == 0 &&
          (oldest == nullptr || slot->tick.load(std::memory_order_relaxed) <
                                    oldest->tick.load(std::memory_order_relaxed)))
        oldest = slot.get();
    uint32_t free = 0;
    // One borrower holds one slot at a time: another one is always free.
    if (oldest == nullptr ||
        !oldest->claim.compare_exchange_strong(free, 1, std::memory_order_acquire))
      continue;
    for (size_t i = 0; i < staged_.size(); ++i) copy_payload(staged_[i], oldest->inputs[i]);
    oldest->tick.store(tick, std::memory_order_relaxed);
    oldest->answered.store(-1, std::memory_order_relaxed);
    oldest->claim.store(0, std::memory_order_release);
    current_ = oldest;
    newest_.store(tick, std::memory_order_release);
    return;
  }
}

void InputRing::put_answer(const Answer& answer) noexcept {
  if (!with_answers_ || current_ == nullptr) return;
  copy_answer(answer, current_->answer);
  current_->answered.store(current_->tick.load(std::memory_order_relaxed),
                           std::memory_order_release);
}

InputRing::Slot* InputRing::borrow(int64_t tick) noexcept {
  for (const auto& slot : slots_) {
    if (slot->tick.load(std::memory_order_relaxed) != tick) continue;
    uint32_t free = 0;
    if (!slot->claim.compare_exchange_strong(free, 2, std::memory_order_acquire)) return nullptr;
    if (slot->tick.load(std::memory_order_relaxed) == tick) return slot.get();
    give_back(slot.get());
    return nullptr;
  }
  return nullptr;
}

void InputRing::give_back(Slot* slot) noexcept {
  slot->claim.store(0, std::memory_order_release);
}

}  // namespace outrider::tandem
