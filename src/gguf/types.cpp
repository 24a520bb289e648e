#include "gguf/types.h"

#include <iterator>

#include "base/assert.h"
#include "base/printable.h"

namespace outrider::gguf {
namespace {

enum class Support : uint8_t { kDecoded, kKnown, kRetired };

struct ElementType {
  const char* name;
  Support support;
  DType dtype = DType::kF32;
};

// Index is the id in the file. Retired: repacked 4-bit layouts and two types dropped before v1.
constexpr ElementType kElementTypes[] = {
    {"F32", Support::kDecoded, DType::kF32},
    {"F16", Support::kDecoded, DType::kF16},
    {"Q4_0", Support::kDecoded, DType::kQ4_0},
    {"Q4_1", Support::kDecoded, DType::kQ4_1},
    {"Q4_2", Support::kRetired},
    {"Q4_3", Support::kRetired},
    {"Q5_0", Support::kDecoded, DType::kQ5_0},
    {"Q5_1", Support::kDecoded, DType::kQ5_1},
    {"Q8_0", Support::kDecoded, DType::kQ8_0},
    {"Q8_1", Support::kKnown},
    {"Q2_K", Support::kDecoded, DType::kQ2_K},
    {"Q3_K", Support::kDecoded, DType::kQ3_K},
    {"Q4_K", Support::kDecoded, DType::kQ4_K},
    {"Q5_K", Support::kDecoded, DType::kQ5_K},
    {"Q6_K", Support::kDecoded, DType::kQ6_K},
    {"Q8_K", Support::kKnown},
    {"IQ2_XXS", Support::kKnown},
    {"IQ2_XS", Support::kKnown},
    {"IQ3_XXS", Support::kKnown},
    {"IQ1_S", Support::kKnown},
    {"IQ4_NL", Support::kKnown},
    {"IQ3_S", Support::kKnown},
    {"IQ2_S", Support::kKnown},
    {"IQ4_XS", Support::kKnown},
    {"I8", Support::kKnown},
    {"I16", Support::kKnown},
    {"I32", Support::kKnown},
    {"I64", Support::kKnown},
    {"F64", Support::kKnown},
    {"IQ1_M", Support::kKnown},
    {"BF16", Support::kDecoded, DType::kBf16},
    {"Q4_0_4_4", Support::kRetired},
    {"Q4_0_4_8", Support::kRetired},
    {"Q4_0_8_8", Support::kRetired},
    {"TQ1_0", Support::kKnown},
    {"TQ2_0", Support::kKnown},
    {"IQ4_NL_4_4", Support::kRetired},
    {"IQ4_NL_4_8", Support::kRetired},
    {"IQ4_NL_8_8", Support::kRetired},
    {"MXFP4", Support::kKnown},
};
constexpr uint32_t kElementTypeCount = uint32_t(std::size(kElementTypes));
static_assert(kElementTypeCount == 40);

constexpr const char* kSupported = kWeightTypes;

struct ValueType {
  const char* name;
  size_t bytes;
};
constexpr ValueType kValues[kValueTypes] = {
    {"u8", 1},   {"i8", 1},     {"u16", 2},   {"i16", 2}, {"u32", 4}, {"i32", 4}, {"f32", 4},
    {"bool", 1}, {"string", 0}, {"array", 0}, {"u64", 8}, {"i64", 8}, {"f64", 8},
};

}  // namespace

size_t scalar_bytes(GgufType type) {
  OUTRIDER_ASSERT(uint32_t(type) < kValueTypes);
  return kValues[uint32_t(type)].bytes;
}

const char* type_name(GgufType type) {
  OUTRIDER_ASSERT(uint32_t(type) < kValueTypes);
  return kValues[uint32_t(type)].name;
}

std::optional<DType> dtype_of(uint32_t id) {
  if (id >= kElementTypeCount || kElementTypes[id].support != Support::kDecoded) return {};
  return kElementTypes[id].dtype;
}

uint32_t id_of(DType type) {
  uint32_t id = 0;
  while (id < kElementTypeCount && dtype_of(id) != type) ++id;
  OUTRIDER_ASSERT(id < kElementTypeCount);
  return id;
}

Error refuse_type(std::string_view file, std::string_view tensor, uint32_t id) {
  const std::string path = short_path(file), name = printable(tensor);
  if (id >= kElementTypeCount)
    return make_error(Code::kUnsupported,
                      "%s: tensor %s has element type %u, which this build does not know; "
                      "supported: %s",
                      path.c_str(), name.c_str(), id, kSupported);
  const bool retired = kElementTypes[id].support == Support::kRetired;
  return make_error(
      Code::kUnsupported, "%s: tensor %s has %s element type %s (%u); %ssupported: %s",
      path.c_str(), name.c_str(), retired ? "the retired" : "the undecodable",
      kElementTypes[id].name, id, retired ? "re-convert with a current tool; " : "", kSupported);
}

}  // namespace outrider::gguf
