// What the link costs: the same runtime in this process, and behind a server in a child process
// over loopback TCP, in plain text and with a key. Ticks of all three take turns.
//
//   link_bench [TICKS] [LIB FOLDER]               prints one JSON document
//   link_bench --soak SECONDS [--rate HZ] [--key] a long run (bench/link_soak.h)
//
// "added": percentiles of a remote tick minus those of a local one (set_input, step, get_output).
// "device_cpu_ms": processor time of the device's thread per tick at 20 Hz, mean.
// "frame_cpu_ms": the same for one input of 393 KB, the run and its output.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "bench/link_pair.h"
#include "bench/link_soak.h"

namespace outrider::link_bench {
namespace {

// Mean of all ticks: what is spent, not what most of them cost.
double cpu_per_tick_ms(link::Runtime& runtime, Request& request, int n_ticks, bool frame_only) {
  double spent = 0;
  for (int i = 0; i < n_ticks; ++i) {
    const double before = thread_cpu_ms();
    const int code = frame_only ? request.frame(runtime) : request.tick(runtime);
    spent += thread_cpu_ms() - before;
    if (code != 0) give_up("tick", runtime.last_error());
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return spent / n_ticks;
}

struct Side {
  HostProcess host;
  std::unique_ptr<link::Runtime> tick, frame;
  std::vector<double> ms;
  double tick_cpu_ms = 0, frame_cpu_ms = 0;
  Side(const std::string& lib, const std::string& key)
      : host(lib, key), tick(host.open("tick")), frame(host.open("frame")) {}
};

void measure_cpu(Side& side) {
  Request request(kTickSide), frame(kFrameSide);
  cpu_per_tick_ms(*side.frame, frame, 5, false);
  side.tick_cpu_ms = cpu_per_tick_ms(*side.tick, request, 100, false);
  side.frame_cpu_ms = cpu_per_tick_ms(*side.frame, frame, 100, true);
}

void print_side(const char* name, const std::vector<double>& local, const Side& side) {
  const auto added = [&](double p) { return percentile(side.ms, p) - percentile(local, p); };
  std::printf(
      ",\"%s\":{\"ms\":{\"p50\":%.3f,\"p99\":%.3f},\"added_ms\":{\"p50\":%.3f,\"p99\":%.3f},"
      "\"device_cpu_ms\":%.3f,\"frame_cpu_ms\":%.3f}",
      name, percentile(side.ms, 0.5), percentile(side.ms, 0.99), added(0.5), added(0.99),
      side.tick_cpu_ms, side.frame_cpu_ms);
}

int compare(int n_ticks, const std::string& lib) {
  const KeyFile key;
  auto local = open_runtime(lib + "/provider_fake.so", fake_config(kTickSide));
  Side plain(lib, ""), encrypted(lib, key.path());
  Request request(kTickSide);
  std::vector<double> ms;
  for (int i = -20; i < n_ticks; ++i) {  // the first ones warm up
    request.set_number(static_cast<float>(i));
    const double a = request.tick_ms(*local), b = request.tick_ms(*plain.tick),
                 c = request.tick_ms(*encrypted.tick);
    if (i < 0) continue;
    ms.push_back(a);
    plain.ms.push_back(b);
    encrypted.ms.push_back(c);
  }
  for (std::vector<double>* all : {&ms, &plain.ms, &encrypted.ms}) std::ranges::sort(*all);
  measure_cpu(plain);
  measure_cpu(encrypted);
  std::printf(
      "{\"version\":1,\"ticks\":%d,\"tick_bytes\":%zu,\"frame_bytes\":%zu,"
      "\"local_ms\":{\"p50\":%.3f,\"p99\":%.3f}",
      n_ticks, request.input_bytes(), Request(kFrameSide).input_bytes(), percentile(ms, 0.5),
      percentile(ms, 0.99));
  print_side("plain", ms, plain);
  print_side("encrypted", ms, encrypted);
  std::printf("}\n");
  return 0;
}

int usage() {
  std::fprintf(stderr,
               "usage: link_bench [TICKS] [LIB FOLDER]\n"
               "       link_bench --soak SECONDS [--rate HZ] [--key] [LIB FOLDER]\n");
  return 2;
}

int run(int argc, char** argv) {
  int ticks = 2000;
  Soak soak;
  std::string lib = "build/release/lib";
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const bool number = word.find_first_not_of("0123456789") == std::string::npos;
    if ((word == "--soak" || word == "--rate") && i + 1 < argc) {
      const double value = std::atof(argv[++i]);
      if (!(value > 0 && value <= 1e6)) return usage();
      (word == "--soak" ? soak.seconds : soak.rate_hz) = value;
    } else if (word == "--key") {
      soak.encrypted = true;
    } else if (number && !word.empty() && word.size() < 8) {
      ticks = std::max(1, std::atoi(word.c_str()));
    } else if (word.starts_with("-")) {
      return usage();
    } else {
      lib = word;
    }
  }
  return soak.seconds > 0 ? run_soak(soak, lib) : compare(ticks, lib);
}

}  // namespace
}  // namespace outrider::link_bench

int main(int argc, char** argv) {
  return outrider::link_bench::run(argc, argv);
}
