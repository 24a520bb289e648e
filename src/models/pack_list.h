// Collects the matrices that must be packed, so that all storage is taken at once.
#pragma once
#include <initializer_list>
#include <span>
#include <vector>

#include "base/arena.h"
#include "base/mapped_file.h"
#include "tensor/ops.h"

namespace outrider {

// Bytes of a matrix as it lies in its file.
size_t stored_bytes(const Matrix& m);
// The form in memory replaces the file's pages: no second copy stays there.
void drop_pages(const Matrix& m, std::span<const MappedFile* const> files);
// Copies a matrix into `arena` (not yet reserved; sealed afterwards) and returns the copy.
// Errors: kNoMemory.
Result<Matrix> copy_matrix(const Matrix& stored, Arena& arena);

// A part of a stack. head_rows > 0: before it is packed, the rows of every head of so many rows are
// reordered, so that what were rows (2j, 2j + 1) becomes rows (j, j + head_rows / 2).
struct PackPart {
  PackPart(const Matrix& m, int64_t rows = 0) : matrix(m), head_rows(rows) {}
  Matrix matrix;
  int64_t head_rows;
};
// The same reordering of a vector of one value a row; nothing when head_rows is 0.
void unpair_rows(std::vector<float>& values, int64_t head_rows);

class PackList {
 public:
  // `out` is filled by run().
  void add(std::initializer_list<PackPart> parts, Precision precision, Weight* out,
           Stack stack = Stack::kRows) {
    jobs_.push_back({parts, stack, precision, out});
  }

  // [setup] Errors: those of Ops::packed_bytes and Ops::pack, kNoMemory. Seals storage.
  Result<void> run(Ops& ops, Arena& storage, std::span<const MappedFile* const> files);

 private:
  struct Job {
    std::vector<PackPart> parts;
    Stack stack;
    Precision precision;
    Weight* out;
  };
  std::vector<Job> jobs_;
};

}  // namespace outrider
