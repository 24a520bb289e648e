#include "vision/warp_dispatch.h"

#include <cstdio>
#include <cstring>

#include "vision/warp.h"

namespace outrider {
namespace {

struct Choices {
  const WarpKernels* tables[3] = {};
  const char* names[4] = {};  // null terminated
  int n = 0;

  void add(const WarpKernels& table) {
    tables[n] = &table;
    names[n++] = table.name;
  }
};

const Choices& choices() {
  static const Choices all = [] {
    Choices c;
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl"))
      c.add(kAvx512Warp);
    if (__builtin_cpu_supports("avx2")) c.add(kAvx2Warp);
#elif defined(__aarch64__)
    c.add(kNeonWarp);  // every 64-bit ARM processor has it
#endif
    c.add(kScalarWarp);
    return c;
  }();
  return all;
}

}  // namespace

Result<const WarpKernels*> find_warp_kernels(const char* name) {
  const Choices& all = choices();
  if (name == nullptr || name[0] == 0) return all.tables[0];
  char known[64] = {};
  for (int i = 0; i < all.n; ++i) {
    if (std::strcmp(name, all.names[i]) == 0) return all.tables[i];
    const size_t used = std::strlen(known);
    std::snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "", all.names[i]);
  }
  return make_error(Code::kUnsupported, "warp kernels '%.32s': this CPU and build run %s", name,
                    known);
}

const char* const* warp_kernel_names() {
  return choices().names;
}

}  // namespace outrider
