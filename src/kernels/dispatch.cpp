#include "kernels/dispatch.h"

#include <cstdio>
#include <cstring>

namespace outrider {
namespace {

struct Choices {
  const KernelTable* tables[4] = {};
  const char* names[4] = {};
  char features[160] = {};
  int n = 0;

  void add(const KernelTable& table) {
    tables[n] = &table;
    names[n++] = table.name;
  }
  void feature(bool there, const char* name) {
    if (!there) return;
    const size_t used = std::strlen(features);
    std::snprintf(features + used, sizeof features - used, "%s%s", used ? " " : "", name);
  }
};

#if defined(__x86_64__)
// The avx512 table, with the dot tiles when the processor has the instruction.
const KernelTable& avx512_table() {
  static const KernelTable table = [] {
    KernelTable t = kAvx512Table;
    if (__builtin_cpu_supports("avx512bf16"))
      std::memcpy(t.tile[kTileBf16Dot], kAvx512Bf16Tiles, sizeof kAvx512Bf16Tiles);
    return t;
  }();
  return table;
}
#endif

const Choices& choices() {
  static const Choices all = [] {
    Choices c;
#if defined(__x86_64__)
    __builtin_cpu_init();
    // The compiler's test includes the operating system's promise to save the registers.
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                      __builtin_cpu_supports("f16c");
    const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") &&
                        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                        __builtin_cpu_supports("avx512vl");
    if (avx512) c.add(avx512_table());
    if (avx2) c.add(kAvx2Table);
    c.feature(avx2, "avx2 fma f16c");
    c.feature(avx512, "avx512f avx512bw avx512dq avx512vl");
    c.feature(__builtin_cpu_supports("avx512bf16"), "avx512_bf16");
    c.feature(__builtin_cpu_supports("avx512vnni"), "avx512_vnni");
#elif defined(__aarch64__)
    c.add(kNeonTable);  // every 64-bit ARM processor has it
    c.feature(true, "neon");
#endif
    c.add(kScalarTable);
    return c;
  }();
  return all;
}

}  // namespace

Result<const KernelTable*> find_kernel_table(const char* name) {
  const Choices& all = choices();
  if (name == nullptr || name[0] == 0) return all.tables[0];
  char known[64] = {};
  for (int i = 0; i < all.n; ++i) {
    if (std::strcmp(name, all.names[i]) == 0) return all.tables[i];
    const size_t used = std::strlen(known);
    std::snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "", all.names[i]);
  }
  return make_error(Code::kUnsupported, "kernel table '%.32s': this CPU and build run %s", name,
                    known);
}

const char* const* kernel_table_names() {
  static const char* names[5] = {};
  const Choices& all = choices();
  for (int i = 0; i < all.n; ++i) names[i] = all.names[i];
  return names;
}

const char* cpu_features() {
  return choices().features;
}

}  // namespace outrider
