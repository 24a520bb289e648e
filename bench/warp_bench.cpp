// What the camera warp costs a frame: both views of 1928x1208 into 512x256, one thread, for each
// kernel table and sampling. The output is held against the scalar table before anything is timed.
//
//   warp_bench [FRAMES]     default 400
//
// "kept": the transforms are those of the frame before. "new": both changed, so all coordinates are
// computed. "warm": one pair of frames, in the caches after the first; "pool": eighteen pairs in
// turn, as cameras have, 173 MB, so that every picture comes from memory.
#include <sys/utsname.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "vision/warp.h"

namespace outrider::bench {
namespace {

constexpr size_t kPool = 18;

struct Frames {
  std::vector<std::byte> narrow, wide;
};

std::vector<std::byte> noise(size_t n, uint32_t seed) {
  std::vector<std::byte> out(n);
  for (size_t i = 0; i < n; ++i)
    out[i] = static_cast<std::byte>((static_cast<uint32_t>(i) * 2654435761u + seed) >> 24);
  return out;
}

struct Bench {
  DeviceFrame device = device_frame(1928, 1208).value();
  std::vector<Frames> pool;
  std::vector<std::byte> planes, truth;
  MonotonicClock clock;
  int n_frames = 400;

  Matrix3 transform(CameraView view, double yaw) const {
    const double f = device_focal_length(1928, 1208, view).value();
    return model_transform(device.layout, {f, 0, .02, yaw, view}).value();
  }
  void turn(WarpPair& pair, double yaw) const {
    pair.set_transforms(transform(CameraView::kNarrow, yaw), transform(CameraView::kWide, yaw));
  }
  bool run(WarpPair& pair, const Frames& f, std::vector<std::byte>& out) const {
    return pair.run(f.narrow, f.wide, out) == Code::kOk;
  }

  // Microseconds, sorted.
  std::vector<double> times(WarpPair& pair, bool fresh, size_t n_pool) {
    std::vector<double> us;
    const Matrix3 narrow[2] = {transform(CameraView::kNarrow, -.015),
                               transform(CameraView::kNarrow, -.016)},
                  wide[2] = {transform(CameraView::kWide, -.015),
                             transform(CameraView::kWide, -.016)};
    for (int i = 0; i < n_frames + 5; ++i) {
      const size_t which = fresh ? static_cast<size_t>(i) % 2 : 0;
      const int64_t begin = clock.now_ns();
      pair.set_transforms(narrow[which], wide[which]);
      if (!run(pair, pool[static_cast<size_t>(i) % n_pool], planes)) std::abort();
      if (i >= 5) us.push_back(static_cast<double>(clock.now_ns() - begin) / 1e3);
    }
    std::sort(us.begin(), us.end());
    return us;
  }

  double row(const char* table, WarpSampling sampling, bool fresh, bool from_pool,
             double scalar_us) {
    auto pair = WarpPair::make({.camera = device.layout, .sampling = sampling, .kernels = table});
    if (!pair) std::abort();
    const auto us = times(pair.value(), fresh, from_pool ? kPool : 1);
    const double p50 = us[us.size() / 2];
    std::printf("%-9s %-9s %-5s %-5s %9.1f %9.1f %9.1f %9.1f", warp_sampling_name(sampling), table,
                fresh ? "new" : "kept", from_pool ? "pool" : "warm", us.front(), p50,
                us[us.size() * 99 / 100], us.back());
    if (scalar_us > 0) std::printf(" %8.2f", scalar_us / p50);
    std::printf("\n");
    return p50;
  }

  void check(WarpSampling sampling) {
    for (const char* const* table = warp_kernel_names(); *table != nullptr; ++table) {
      auto scalar =
          WarpPair::make({.camera = device.layout, .sampling = sampling, .kernels = "scalar"});
      auto pair =
          WarpPair::make({.camera = device.layout, .sampling = sampling, .kernels = *table});
      if (!scalar || !pair) std::abort();
      for (const double yaw : {-.015, .2, -1.4, 3.0}) {
        turn(scalar.value(), yaw);
        turn(pair.value(), yaw);
        if (run(scalar.value(), pool[1], truth) && run(pair.value(), pool[1], planes) &&
            truth == planes)
          continue;
        std::fprintf(stderr, "warp_bench: %s differs from scalar at yaw %g\n", *table, yaw);
        std::exit(1);
      }
    }
  }

  int main(int argc, char** argv) {
    if (argc > 1) n_frames = std::clamp(std::atoi(argv[1]), 1, 1000000);
    for (uint32_t i = 0; i < kPool; ++i)
      pool.push_back(
          {noise(device.allocation_bytes, 2 * i + 1), noise(device.allocation_bytes, 2 * i + 2)});
    planes.resize(393216);
    truth.resize(393216);
    utsname name{};
    uname(&name);
    std::printf(
        "%s, %u processors, one thread; 2 x 1928x1208 NV12 -> 2 x 6 x 128 x 256 (393,216 "
        "bytes); %d frames\n",
        name.machine, std::thread::hardware_concurrency(), n_frames);
    std::printf("%-9s %-9s %-5s %-5s %9s %9s %9s %9s %8s\n", "sampling", "kernels", "plan", "frame",
                "min us", "p50 us", "p99 us", "max us", "scalar/");
    for (const WarpSampling sampling : {WarpSampling::kNearest, WarpSampling::kBilinear}) {
      check(sampling);
      for (const bool fresh : {false, true})
        for (const bool from_pool : {false, true}) {
          const double scalar_us = row("scalar", sampling, fresh, from_pool, 0);
          for (const char* const* table = warp_kernel_names(); *table != nullptr; ++table)
            if (std::strcmp(*table, "scalar") != 0)
              row(*table, sampling, fresh, from_pool, scalar_us);
        }
    }
    return 0;
  }
};

}  // namespace
}  // namespace outrider::bench

int main(int argc, char** argv) {
  return outrider::bench::Bench{}.main(argc, argv);
}
