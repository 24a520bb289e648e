// What a stranger says to the secure channel, before anybody has proved anything: every byte after
// the connect is the input's. The first byte chooses which end listens and in what pieces the rest
// arrives. Without the key nobody may get through, whatever he sends.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>

#include "base/assert.h"
#include "link/secure/secure.h"

namespace outrider::link {
namespace {

// Gives the input in steps, then ends. What is sent to it is thrown away.
class Stranger final : public Transport {
 public:
  Stranger(std::span<const std::byte> bytes, size_t step, uint32_t grid)
      : bytes_(bytes), step_(step) {
    facts_.pad_grid_bytes = grid;
  }
  Moved send(std::span<const Piece> pieces, int64_t) noexcept override {
    size_t n = 0;
    for (const Piece& piece : pieces) n += piece.size();
    OUTRIDER_ASSERT(n % facts_.pad_grid_bytes == 0);
    return {Io::kDone, n};
  }
  Moved receive(std::span<std::byte> into, int64_t) noexcept override {
    OUTRIDER_ASSERT(!into.empty());
    const size_t n = std::min({into.size(), bytes_.size(), step_});
    if (n == 0) return {Io::kClosed, 0};
    std::memcpy(into.data(), bytes_.data(), n);
    bytes_ = bytes_.subspan(n);
    return {Io::kDone, n};
  }
  void shut() noexcept override {}
  const TransportFacts& facts() const noexcept override { return facts_; }

 private:
  std::span<const std::byte> bytes_;
  size_t step_;
  TransportFacts facts_;
};

SharedKey key_of(unsigned char fill) {
  SharedKey key;
  key.bytes.fill(fill);
  return key;
}

}  // namespace
}  // namespace outrider::link

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace outrider::link;
  if (size == 0) return 0;
  const auto rest = std::as_bytes(std::span(data + 1, size - 1));
  const size_t step = size_t{1} << (data[0] >> 1 & 7);
  const uint32_t grid = 1u << ((data[0] >> 4 & 7) * 2);
  auto stranger = std::make_unique<Stranger>(rest, step, grid);
  const bool as_host = (data[0] & 1) != 0;
  const auto made = as_host ? secure_as_host(std::move(stranger), key_of(7), 0)
                            : secure_as_device(std::move(stranger), key_of(7), 0);
  OUTRIDER_ASSERT(!made);
  OUTRIDER_ASSERT(made.error().text[0] != '\0');
  return 0;
}
