#include "models/checked_file.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <vector>

#include "base/assert.h"
#include "base/block_sum.h"
#include "base/in_parallel.h"
#include "base/private_file.h"

namespace outrider {
namespace {

constexpr char kMagic[8] = {'O', 'U', 'T', 'R', 'P', 'A', 'C', 'K'};
constexpr uint32_t kRevision = 1;
constexpr uint64_t kBlockBytes = uint64_t{64} << 20;
constexpr uint64_t kPageBytes = 4096;

struct Head {
  char magic[8];
  uint32_t revision, key_bytes;
  uint64_t n_numbers, n_blocks, n_bytes, n_floats, file_bytes;
  uint64_t head_sum;  // of everything before the payload, this field taken as 0
};
static_assert(sizeof(Head) == 64);

constexpr uint64_t round_up(uint64_t n, uint64_t to) {
  return (n + to - 1) / to * to;
}
uint64_t numbers_at(const Head& head) {
  return round_up(sizeof(Head) + head.key_bytes, 8);
}
uint64_t payload_at(const Head& head) {
  return round_up(numbers_at(head) + 8 * (head.n_numbers + head.n_blocks), kPageBytes);
}

std::span<const std::byte> block(std::span<const std::byte> bytes, size_t i) {
  const size_t at = i * kBlockBytes;
  return bytes.subspan(at, std::min<size_t>(kBlockBytes, bytes.size() - at));
}

Error damaged(const char* what) {
  return make_error(Code::kInvalid, "it is damaged: %s", what);
}

uint64_t sum_of_head(std::span<const std::byte> before_payload) {
  OUTRIDER_ASSERT(before_payload.size() >= sizeof(Head));
  Head head;
  std::memcpy(&head, before_payload.data(), sizeof head);
  head.head_sum = 0;
  std::vector<std::byte> copy(before_payload.begin(), before_payload.end());
  std::memcpy(copy.data(), &head, sizeof head);
  return block_sum(copy);
}

// Every count is bounded by the file before it is used in a sum.
Result<void> check_sizes(const Head& head, uint64_t size) {
  if (std::memcmp(head.magic, kMagic, sizeof kMagic) != 0) return damaged("it begins otherwise");
  if (head.revision != kRevision)
    return make_error(Code::kInvalid, "it is of file revision %u, this build has %u", head.revision,
                      kRevision);
  if (head.file_bytes != size) return damaged("its size is not what it says");
  if (head.key_bytes > size || head.n_numbers > size / 8 || head.n_blocks > size / 8 ||
      head.n_bytes > size || head.n_floats > size / 4 || head.n_bytes % 64 != 0)
    return damaged("a count is larger than the file");
  const uint64_t payload = head.n_bytes + 4 * head.n_floats;
  if (payload_at(head) + payload != size ||
      head.n_blocks != round_up(payload, kBlockBytes) / kBlockBytes)
    return damaged("its parts do not fill it");
  return {};
}

}  // namespace

Result<CheckedFile> CheckedFile::open(const std::string& path, std::string_view key) {
  auto file = PrivateFile::open(path);
  if (!file) return file.error();
  const uint64_t size = file.value().size_bytes();
  if (size < sizeof(Head)) return damaged("shorter than its head");
  void* data = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.value().fd(), 0);
  if (data == MAP_FAILED) return make_error(Code::kNoMemory, "it cannot be mapped");
  (void)madvise(data, size, MADV_HUGEPAGE);
  (void)madvise(data, size, MADV_WILLNEED);
  CheckedFile checked(static_cast<const std::byte*>(data), size);
  OUTRIDER_TRY(checked.verify(key));
  return checked;
}

Result<void> CheckedFile::verify(std::string_view key) {
  const std::span all(data_, size_);
  Head head;
  std::memcpy(&head, data_, sizeof head);
  OUTRIDER_TRY(check_sizes(head, size_));
  const uint64_t payload = payload_at(head);
  if (sum_of_head(all.first(payload)) != head.head_sum) return damaged("its head");
  parts_.key = {reinterpret_cast<const char*>(data_) + sizeof head, head.key_bytes};
  if (parts_.key != key)
    return make_error(Code::kInvalid, "it was made of other files, options or by another build");
  // Offsets are multiples of 8, of a page and of 64 bytes: the casts are aligned.
  const auto* numbers = reinterpret_cast<const int64_t*>(data_ + numbers_at(head));
  parts_.numbers = {numbers, head.n_numbers};
  parts_.bytes = all.subspan(payload, head.n_bytes);
  parts_.floats = {reinterpret_cast<const float*>(data_ + payload + head.n_bytes), head.n_floats};
  const auto* sums = reinterpret_cast<const uint64_t*>(numbers + head.n_numbers);
  std::atomic<size_t> first_bad{head.n_blocks};
  in_parallel(head.n_blocks, [&](size_t i) {
    const auto mine = block(all.subspan(payload), i);
    populate(mine);
    if (block_sum(mine) == sums[i]) return;
    for (size_t seen = first_bad; i < seen && !first_bad.compare_exchange_weak(seen, i);) {
    }
  });
  if (first_bad == head.n_blocks) return {};
  return make_error(Code::kInvalid, "it is damaged: block %zu of %llu", first_bad.load(),
                    static_cast<unsigned long long>(head.n_blocks));
}

Result<void> CheckedFile::write(const std::string& dir, const std::string& name,
                                const CheckedParts& parts) {
  OUTRIDER_ASSERT(parts.bytes.size() % 64 == 0);
  const std::span<const std::byte> floats = std::as_bytes(parts.floats);
  const uint64_t payload = parts.bytes.size() + floats.size();
  Head head = {};
  std::memcpy(head.magic, kMagic, sizeof kMagic);
  head.revision = kRevision;
  head.key_bytes = static_cast<uint32_t>(parts.key.size());
  head.n_numbers = parts.numbers.size();
  head.n_blocks = round_up(payload, kBlockBytes) / kBlockBytes;
  head.n_bytes = parts.bytes.size();
  head.n_floats = parts.floats.size();
  head.file_bytes = payload_at(head) + payload;
  // A block may reach from the bytes into the floats: the last ones are summed from a copy.
  const size_t n_whole = parts.bytes.size() / kBlockBytes;
  std::vector<std::byte> rest(parts.bytes.begin() + static_cast<int64_t>(n_whole * kBlockBytes),
                              parts.bytes.end());
  rest.insert(rest.end(), floats.begin(), floats.end());
  std::vector<uint64_t> sums(head.n_blocks);
  in_parallel(sums.size(), [&](size_t i) {
    sums[i] = block_sum(i < n_whole ? block(parts.bytes, i) : block(rest, i - n_whole));
  });
  std::vector<std::byte> start(payload_at(head));
  std::memcpy(start.data() + sizeof head, parts.key.data(), parts.key.size());
  std::byte* numbers = start.data() + numbers_at(head);
  if (!parts.numbers.empty())
    std::memcpy(numbers, parts.numbers.data(), parts.numbers.size_bytes());
  if (!sums.empty())
    std::memcpy(numbers + parts.numbers.size_bytes(), sums.data(), sums.size() * sizeof sums[0]);
  std::memcpy(start.data(), &head, sizeof head);
  head.head_sum = sum_of_head(start);
  std::memcpy(start.data(), &head, sizeof head);
  const std::span<const std::byte> pieces[] = {start, parts.bytes, floats};
  return write_private_file(dir, name, pieces);
}

CheckedFile::CheckedFile(CheckedFile&& other) noexcept
    : data_(other.data_), size_(other.size_), parts_(other.parts_) {
  other.data_ = nullptr;
}

CheckedFile::~CheckedFile() {
  if (data_ != nullptr) munmap(const_cast<std::byte*>(data_), size_);
}

}  // namespace outrider
