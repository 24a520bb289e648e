// Rows in the blocks of a model file to the panels of block_format.h.
#pragma once
#include <cstddef>

#include "kernels/block_format.h"
#include "tensor/dtype.h"

namespace outrider {

// -1: the type has no block format.
int block_format_of(DType dtype);

// In which blocks precision `stored` keeps the type: its own, or those that hold it best. -1: none.
int stored_format_of(DType dtype);
// A row's blocks in those of `format`, when they hold its numbers exactly (Q5_0 in Q8_0, Q3_K in
// Q6_K); false, and nothing written, otherwise.
bool rewrite_blocks(DType from, const std::byte* row, int format, int64_t n_in, std::byte* out);

// Fills one panel: block_panel_bytes(format, n_in) bytes, 64-byte aligned. rows: 16 rows of n_in
// values in the file's blocks, each at any address, or null for an output that does not exist.
// n_in a multiple of block_length(format).
void pack_block_panel(int format, const std::byte* const* rows, int64_t n_in, std::byte* out);

}  // namespace outrider
