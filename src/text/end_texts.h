// The texts by which a piece is known to end a turn, where a file does not say so by an id.
// Source: gguf-models.md C.1, end of generation.
#pragma once
#include <cstdint>
#include <vector>

#include "text/piece_table.h"

namespace outrider {

// Adds the ids of those texts that are pieces.
void add_end_texts(const PieceTable& table, std::vector<int32_t>& ends);

}  // namespace outrider
