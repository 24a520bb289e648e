// How much work a PI0 / PI0.5 run is: matrix products only, counted from the sizes in the files.
#pragma once
#include <cstdint>

#include "models/pi_config.h"

namespace outrider::cli {

struct Work {
  double flop = 0;           // 2 x multiply-adds
  double weight_values = 0;  // weight values read, once for every time they stream by
};
struct PiWork {
  Work vision, prefix, expert;
  Work context() const {
    return {vision.flop + prefix.flop, vision.weight_values + prefix.weight_values};
  }
};

struct WorkOptions {
  int64_t n_views = 2, n_text = 48;
  // The exact savings every run makes: of the last backbone layer only keys and values, and the
  // step modulations are made once at load. Off gives the outer count.
  bool savings = true;
};
PiWork pi_work(const PiConfig& config, const WorkOptions& options);

}  // namespace outrider::cli
