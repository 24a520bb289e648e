#include "models/pack_list.h"

#include <algorithm>
#include <cstring>

#include "base/in_parallel.h"

namespace outrider {
namespace {

// Row i of a head is row of_pair(i) of the file.
int64_t of_pair(int64_t i, int64_t head_rows) {
  return i < head_rows / 2 ? 2 * i : 2 * (i - head_rows / 2) + 1;
}

// The part as it is to be packed: the file's rows, or a reordered copy of them in `copy`.
Matrix ordered(const PackPart& part, std::vector<std::byte>& copy) {
  const Matrix& m = part.matrix;
  if (part.head_rows == 0) return m;
  const size_t bytes = row_bytes(m.dtype, m.n_in);
  copy.resize(stored_bytes(m));
  const auto* from = static_cast<const std::byte*>(m.data);
  for (int64_t i = 0; i < m.n_out; ++i) {
    const int64_t head = i / part.head_rows * part.head_rows;
    const int64_t row = head + of_pair(i - head, part.head_rows);
    std::memcpy(copy.data() + static_cast<size_t>(i) * bytes,
                from + static_cast<size_t>(row) * bytes, bytes);
  }
  return {m.dtype, m.n_out, m.n_in, copy.data()};
}

}  // namespace

size_t stored_bytes(const Matrix& m) {
  return row_bytes(m.dtype, m.n_in) * static_cast<size_t>(m.n_out);
}

void drop_pages(const Matrix& m, std::span<const MappedFile* const> files) {
  const auto* first = static_cast<const std::byte*>(m.data);
  for (const MappedFile* file : files) {
    if (first >= file->bytes().data() && first < file->bytes().data() + file->size()) {
      file->drop_pages(first, stored_bytes(m));
    }
  }
}

Result<Matrix> copy_matrix(const Matrix& stored, Arena& arena) {
  const size_t bytes = stored_bytes(stored);
  OUTRIDER_TRY(arena.reserve(Arena::cost<std::byte>(bytes), /*prefault=*/false));
  auto* copy = static_cast<std::byte*>(arena.take_bytes(bytes));
  // In blocks: a gigabyte is mostly new pages to be mapped, which threads share.
  constexpr size_t kBlockBytes = size_t{32} << 20;
  const std::span from(static_cast<const std::byte*>(stored.data), bytes);
  in_parallel((bytes + kBlockBytes - 1) / kBlockBytes, [&](size_t i) {
    const auto block =
        from.subspan(i * kBlockBytes, std::min(kBlockBytes, bytes - i * kBlockBytes));
    populate(block);
    std::memcpy(copy + i * kBlockBytes, block.data(), block.size());
  });
  arena.seal();
  return Matrix{stored.dtype, stored.n_out, stored.n_in, copy};
}

void unpair_rows(std::vector<float>& values, int64_t head_rows) {
  if (head_rows == 0) return;
  const std::vector<float> before = values;
  for (size_t i = 0; i < values.size(); ++i) {
    const auto at = static_cast<int64_t>(i), head = at / head_rows * head_rows;
    values[i] = before[static_cast<size_t>(head + of_pair(at - head, head_rows))];
  }
}

Result<void> PackList::run(Ops& ops, Arena& storage, std::span<const MappedFile* const> files) {
  size_t total = 0;
  std::vector<size_t> bytes;
  for (const Job& job : jobs_) {
    std::vector<Matrix> parts;
    for (const PackPart& part : job.parts) parts.push_back(part.matrix);
    auto size = ops.packed_bytes(parts, job.stack, job.precision);
    if (!size) return size.error();
    bytes.push_back(size.value());
    total += Arena::cost<std::byte>(size.value());
  }
  OUTRIDER_TRY(storage.reserve(total, /*prefault=*/false));
  for (size_t i = 0; i < jobs_.size(); ++i) {
    const Job& job = jobs_[i];
    std::vector<std::vector<std::byte>> copies(job.parts.size());
    std::vector<Matrix> parts;
    for (size_t j = 0; j < job.parts.size(); ++j) {
      OUTRIDER_ASSERT(job.parts[j].head_rows % 2 == 0);
      parts.push_back(ordered(job.parts[j], copies[j]));
    }
    auto packed = ops.pack(parts, job.stack, job.precision, storage.take<std::byte>(bytes[i]));
    if (!packed) return packed.error();
    *job.out = packed.value();
    for (const PackPart& part : job.parts) drop_pages(part.matrix, files);
  }
  storage.seal();
  return {};
}

}  // namespace outrider
