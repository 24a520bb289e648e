// What somebody on the way may do to a stream that is encrypted already: the two ends have proved
// themselves, the device has sent the second half of the input, and the first half says what
// happens to the bytes between. The host delivers a true beginning of what was sent, and nothing
// else.
#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <thread>

#include "base/assert.h"
#include "link/secure/secure.h"

namespace outrider::link {
namespace {

// One direction: whoever reads waits for bytes or for its end.
struct Lane {
  std::mutex lock;
  std::condition_variable more;
  std::vector<std::byte> bytes;
  bool ended = false;
  void put(std::span<const Piece> pieces) {
    std::scoped_lock hold(lock);
    for (const Piece& piece : pieces) bytes.insert(bytes.end(), piece.begin(), piece.end());
    more.notify_all();
  }
  void end() {
    std::scoped_lock hold(lock);
    ended = true;
    more.notify_all();
  }
};

class End final : public Transport {
 public:
  End(Lane& out, Lane& in, uint32_t grid) : out_(out), in_(in) { facts_.pad_grid_bytes = grid; }
  ~End() override { out_.end(); }
  Moved send(std::span<const Piece> pieces, int64_t) noexcept override {
    size_t n = 0;
    for (const Piece& piece : pieces) n += piece.size();
    out_.put(pieces);
    return {Io::kDone, n};
  }
  Moved receive(std::span<std::byte> into, int64_t) noexcept override {
    std::unique_lock hold(in_.lock);
    in_.more.wait(hold, [&] { return !in_.bytes.empty() || in_.ended; });
    const size_t n = std::min(into.size(), in_.bytes.size());
    if (n == 0) return {Io::kClosed, 0};
    std::memcpy(into.data(), in_.bytes.data(), n);
    in_.bytes.erase(in_.bytes.begin(), in_.bytes.begin() + static_cast<ptrdiff_t>(n));
    return {Io::kDone, n};
  }
  void shut() noexcept override { in_.end(); }
  const TransportFacts& facts() const noexcept override { return facts_; }

 private:
  Lane &out_, &in_;
  TransportFacts facts_;
};

// Four bytes a change: what, where (two), how much.
void change(std::vector<std::byte>& bytes, std::span<const uint8_t> script) {
  for (; script.size() >= 4 && !bytes.empty(); script = script.subspan(4)) {
    const size_t at = (script[1] | script[2] << 8) % bytes.size();
    const auto here = bytes.begin() + static_cast<ptrdiff_t>(at);
    const size_t n = std::min<size_t>(1 + script[3], bytes.size() - at);
    const auto there = here + static_cast<ptrdiff_t>(n);
    switch (script[0] % 5) {
      case 0:
        *here ^= std::byte(1 << script[3] % 8);
        break;
      case 1:
        bytes.erase(here, there);
        break;
      case 2: {
        const std::vector<std::byte> again(here, there);
        bytes.insert(there, again.begin(), again.end());
        break;
      }
      case 3:
        bytes.insert(here, n, std::byte(script[3]));
        break;
      case 4:
        std::rotate(here, there, bytes.end());
        break;
    }
  }
}

SharedKey key() {
  SharedKey key;
  key.bytes.fill(7);
  return key;
}

void try_records(std::span<const uint8_t> script, std::span<const uint8_t> plain, uint32_t grid) {
  constexpr int64_t kDue = INT64_MAX;
  Lane forth, back;
  Result<std::unique_ptr<Transport>> host = make_error(Code::kNotReady, "not yet");
  std::thread thread(
      [&] { host = secure_as_host(std::make_unique<End>(back, forth, grid), key(), kDue); });
  auto device = secure_as_device(std::make_unique<End>(forth, back, grid), key(), kDue);
  thread.join();
  OUTRIDER_ASSERT(device && host);
  const auto all = std::as_bytes(plain);
  const size_t cut = all.size() / 3;
  for (const Piece piece : {all.first(cut), all.subspan(cut)})
    if (!piece.empty()) device.value()->send({&piece, 1}, kDue);
  change(forth.bytes, script);
  forth.end();
  std::vector<std::byte> got;
  std::vector<std::byte> room(300);
  Moved moved;
  while ((moved = host.value()->receive(room, kDue)).io == Io::kDone && moved.bytes > 0)
    got.insert(got.end(), room.begin(), room.begin() + static_cast<ptrdiff_t>(moved.bytes));
  OUTRIDER_ASSERT(moved.io == Io::kBroken || moved.io == Io::kClosed || moved.io == Io::kReset);
  OUTRIDER_ASSERT(got.size() <= all.size());
  OUTRIDER_ASSERT(std::equal(got.begin(), got.end(), all.begin()));
  if (script.size() < 4) OUTRIDER_ASSERT(got.size() == all.size());
}

}  // namespace
}  // namespace outrider::link

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const size_t n_script = std::min<size_t>(data[0] % 32, size - 2);
  const uint32_t grid = data[1] % 4 == 0 ? 1024 : 1;
  outrider::link::try_records({data + 2, n_script}, {data + 2 + n_script, size - 2 - n_script},
                              grid);
  return 0;
}
