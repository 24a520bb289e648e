#include "kernels/dispatch.h"

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

#include <cstdio>
#include <cstring>

namespace outrider {
namespace {

struct Choices {
  const KernelTable* tables[6] = {};
  const char* names[7] = {};  // null terminated
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
// clang 14 has no name for it in __builtin_cpu_supports.
bool has_f16c() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}

// No name in older compilers either: leaf 7, subleaf 1, EAX bit 4.
bool has_avx_vnni() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) != 0 && (eax >> 4 & 1) != 0;
}

// AMD's family 26 (Zen 5) fetches a stream ahead too late when each line is worked on for long:
// with blocks in 4 and 6 bits it then reads half of what the memory gives. Family 25 (Zen 4) loses
// by being asked, others were not tried. Source: measured, docs/design/kernels.md.
int64_t fetch_ahead() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid(0, &eax, &ebx, &ecx, &edx) == 0 || ebx != signature_AMD_ebx) return 0;
  if (__get_cpuid(1, &eax, &ebx, &ecx, &edx) == 0) return 0;
  const unsigned base = eax >> 8 & 15, family = base == 15 ? base + (eax >> 20 & 255) : base;
  return family >= 26 ? 4096 : 0;
}

// The avx2 table with the int8 dot instruction in the encoding that the processor knows.
const KernelTable& avx2_vnni_table(bool avx_vnni) {
  static const KernelTable table = [=] {
    KernelTable t = kAvx2Table;
    t.name = "avx2_vnni";
    std::memcpy(t.tile[kTileInt8], avx_vnni ? kAvxVnniTiles : kAvx512vlVnniTiles,
                sizeof kAvxVnniTiles);
    t.peak_int8 = avx_vnni ? kAvxVnniPeak : kAvx512vlVnniPeak;
    t.int8_shift = 128;
    return t;
  }();
  return table;
}

// The avx512 table with the int8 dot instruction where the processor has it, the same with the bf16
// dot instruction for products in bf16, and what runs where it has neither.
enum class Avx512 { kPlain, kBf16Dot, kNoDot };
const KernelTable& avx512_table(Avx512 which) {
  static const auto with = [](const char* name, bool bf16_dot, bool int8_dot) {
    KernelTable t = kAvx512Table;
    t.name = name;
    if (bf16_dot) {
      std::memcpy(t.tile[kTileBf16Dot], kAvx512Bf16Tiles, sizeof kAvx512Bf16Tiles);
      t.pack_bf16 = pack_for_avx512_bf16;
    }
    if (__builtin_cpu_supports("avx512bf16")) t.peak_bf16 = kAvx512Bf16Peak;
    if (!__builtin_cpu_supports("avx512vnni")) return t;
    t.peak_int8 = kAvx512VnniPeak;
    if (!int8_dot) return t;
    std::memcpy(t.tile[kTileInt8], kAvx512VnniTiles, sizeof kAvx512VnniTiles);
    t.int8_shift = 128;
    t.blocks = &kAvx512VnniBlocks;
    return t;
  };
  static const KernelTable plain = with("avx512", false, true),
                           bf16_dot = with("avx512_bf16", true, true),
                           no_dot = with("avx512_bw", false, false);
  return which == Avx512::kPlain ? plain : which == Avx512::kBf16Dot ? bf16_dot : no_dot;
}

// AMD's dot instruction does twice the operations of an f32 multiply-add in the same time (measured
// on Zen 4: 235 against 117 GFLOP/s a core). Intel's does half those of two multiply-adds (90
// against 180), so widening bf16 to f32 is faster there. A rule, not a measurement: the same
// processor must always choose the same.
bool dot_is_faster() {
  return __builtin_cpu_is("amd");
}
#endif

const Choices& choices() {
  static const Choices all = [] {
    Choices c;
#if defined(__x86_64__)
    __builtin_cpu_init();
    // The compiler's test includes the operating system's promise to save the registers.
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
    const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") &&
                        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                        __builtin_cpu_supports("avx512vl");
    const bool dot = avx512 && __builtin_cpu_supports("avx512bf16");
    if (dot && dot_is_faster()) c.add(avx512_table(Avx512::kBf16Dot));
    if (avx512) c.add(avx512_table(Avx512::kPlain));
    if (dot && !dot_is_faster()) c.add(avx512_table(Avx512::kBf16Dot));
    if (avx512) c.add(avx512_table(Avx512::kNoDot));
    const bool avx_vnni = avx2 && has_avx_vnni();
    if (avx_vnni || (avx512 && __builtin_cpu_supports("avx512vnni")))
      c.add(avx2_vnni_table(avx_vnni));
    if (avx2) c.add(kAvx2Table);
    c.feature(avx2, "avx2 fma f16c");
    c.feature(avx512, "avx512f avx512bw avx512dq avx512vl");
    c.feature(dot, "avx512_bf16");
    c.feature(__builtin_cpu_supports("avx512vnni"), "avx512_vnni");
    c.feature(avx_vnni, "avx_vnni");
#elif defined(__aarch64__)
    if (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) {
      static const KernelTable with_dot = [] {
        KernelTable t = kNeonTable;
        t.name = "neon_dot";
        std::memcpy(t.tile[kTileInt8], kNeonDotTiles, sizeof kNeonDotTiles);
        t.blocks = &kNeonDotBlocks;
        return t;
      }();
      c.add(with_dot);
    }
    c.add(kNeonTable);  // every 64-bit ARM processor has it
    c.feature(true, "neon");
    c.feature((getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0, "dotprod");
#endif
    c.add(kScalarTable);
    return c;
  }();
  return all;
}

}  // namespace

#if defined(__x86_64__)
const int64_t kernel_fetch_ahead = fetch_ahead();
#else
const int64_t kernel_fetch_ahead = 0;
#endif

Result<const KernelTable*> find_kernel_table(const char* name) {
  const Choices& all = choices();
  if (name == nullptr || name[0] == 0) return all.tables[0];
  char known[96] = {};
  for (int i = 0; i < all.n; ++i) {
    if (std::strcmp(name, all.names[i]) == 0) return all.tables[i];
    const size_t used = std::strlen(known);
    std::snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "", all.names[i]);
  }
  return make_error(Code::kUnsupported, "kernel table '%.32s': this CPU and build run %s", name,
                    known);
}

const char* const* kernel_table_names() {
  return choices().names;
}

const char* cpu_features() {
  return choices().features;
}

}  // namespace outrider
