// Number codes of the container: value types and tensor element types.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "gguf/gguf.h"
#include "tensor/dtype.h"

namespace outrider::gguf {

inline constexpr uint32_t kValueTypes = 13;
inline constexpr size_t kDefaultAlignment = 32;
// Below 8 an F32 or F64 tensor could start at an address it may not be read from.
inline constexpr uint32_t kMinAlignment = 8, kMaxAlignment = uint32_t{1} << 20;
inline constexpr size_t kMaxTensorNameBytes = 63, kMaxKeyBytes = 65535;
// Entries of either table. Large models have some thousands; the tables are the only memory that
// grows with a file's content.
inline constexpr uint64_t kMaxTableEntries = uint64_t{1} << 20;

// Bytes of one value of a fixed-size type; 0 for strings and arrays.
size_t scalar_bytes(GgufType type);
const char* type_name(GgufType type);

// Element type id of a file to ours; nullopt for everything that has no decoder here.
std::optional<DType> dtype_of(uint32_t id);
// The id written for `type`. Asserts that the container has one.
uint32_t id_of(DType type);
// Sentence for a refused id: what it is, and what to do.
Error refuse_type(std::string_view file, std::string_view tensor, uint32_t id);

}  // namespace outrider::gguf
