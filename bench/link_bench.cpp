// What the link costs: the same runtime in this process and behind a server in a child process,
// over loopback TCP. 2 pictures of 224x224x3 in, 50x32 floats out; ticks of both take turns.
//
//   link_bench [TICKS] [LIB FOLDER]     prints one JSON document
//
// "added": percentiles of a remote tick minus those of a local one (set_input, step, get_output).
// "device_cpu_ms": processor time of the device's thread per tick at 20 Hz, without the local
// ticks. "frame_cpu_ms": the same for one raw input of 393 KB and a run that does nothing else.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <thread>
#include <vector>

#include "link/server/server.h"

namespace outrider::link {
namespace {

const MonotonicClock kClock;
constexpr const char* kFake =
    "{\"model_family\":\"fake\",\"n_views\":2,\"image_height\":224,\"image_width\":224,"
    "\"action_steps\":50,\"action_dim\":32}";
// 2 x 256 x 256 x 3 = 393,216 bytes: the frame of a driving policy.
constexpr const char* kFrame =
    "{\"model_family\":\"fake\",\"n_views\":2,\"image_height\":256,\"image_width\":256,"
    "\"action_steps\":50,\"action_dim\":32}";

double thread_cpu_ms() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) * 1e3 + static_cast<double>(t.tv_nsec) / 1e6;
}

[[noreturn]] void serve(const std::string& lib, int ready) {
  auto models = std::make_unique<Models>(ModelsLimits(), kClock);
  for (const auto& [name, config] : {std::pair("default", kFake), std::pair("frame", kFrame)})
    if (auto added = models->add(
            name, std::make_unique<ProviderSource>(lib + "/provider_fake.so", config), true);
        !added)
      std::fprintf(stderr, "link_bench: %s\n", added.error().text), _exit(2);
  ServerOptions options;
  options.listen = {"tcp://127.0.0.1:0"};
  auto server = Server::start(options, std::move(models), kClock);
  if (!server) std::fprintf(stderr, "link_bench: %s\n", server.error().text), _exit(2);
  const std::string endpoint = server.value()->endpoints()[0];
  if (write(ready, endpoint.data(), endpoint.size()) < 0) _exit(2);
  close(ready);
  for (;;) pause();
}

struct Request {
  std::vector<uint8_t> pixels;
  frt_image_view views[2];
  float state[8] = {};
  float out[1600];
  explicit Request(int side) {
    const size_t bytes = static_cast<size_t>(side) * static_cast<size_t>(side) * 3;
    pixels.assign(2 * bytes, 7);
    for (size_t v = 0; v < 2; ++v)
      views[v] = {sizeof(frt_image_view),
                  FRT_PIXEL_RGB8,
                  pixels.data() + v * bytes,
                  bytes,
                  side,
                  side,
                  0,
                  0,
                  0};
  }
  double tick_ms(Runtime& r) {
    const int64_t begin = kClock.now_ns();
    uint64_t written = 0;
    if (r.set_input(0, views, sizeof views) != 0 || r.set_input(1, "pick up the cup", 15) != 0 ||
        r.set_input(2, state, sizeof state) != 0 || r.step() != 0 ||
        r.get_output(3, out, sizeof out, &written) != 0) {
      std::fprintf(stderr, "link_bench: %s\n", r.last_error());
      std::exit(2);
    }
    return static_cast<double>(kClock.now_ns() - begin) / 1e6;
  }
};

double percentile(std::vector<double>& sorted, double p) {
  return sorted[std::min(sorted.size() - 1,
                         static_cast<size_t>(p * static_cast<double>(sorted.size())))];
}

std::unique_ptr<Runtime> open(const std::string& path, const std::string& config) {
  auto runtime = ProviderSource(path, config).open();
  if (!runtime) std::fprintf(stderr, "link_bench: %s\n", runtime.error().text), std::exit(2);
  return std::move(runtime.value());
}

double cpu_per_tick_ms(Runtime& r, Request& request, int n_ticks) {
  double spent = 0;
  for (int i = 0; i < n_ticks; ++i) {
    const double before = thread_cpu_ms();
    request.tick_ms(r);
    spent += thread_cpu_ms() - before;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return spent / n_ticks;
}

int run(int n_ticks, const std::string& lib) {
  int ready[2];
  if (pipe(ready) != 0) return 2;
  const pid_t child = fork();
  if (child == 0) serve(lib, ready[1]);
  close(ready[1]);
  char endpoint[64] = {};
  if (read(ready[0], endpoint, sizeof endpoint - 1) <= 0) return 2;
  const auto remote_config = [&](const char* model) {
    return "{\"model_family\":\"remote\",\"endpoint\":\"" + std::string(endpoint) +
           "\",\"model\":\"" + model + "\",\"deadline_ms\":2000}";
  };
  auto local = open(lib + "/provider_fake.so", kFake);
  auto remote = open(lib + "/provider_link.so", remote_config("default"));
  Request request(224);
  for (int i = 0; i < 20; ++i) request.tick_ms(*local), request.tick_ms(*remote);
  std::vector<double> a, b;
  for (int i = 0; i < n_ticks; ++i) {
    request.state[0] = static_cast<float>(i);
    a.push_back(request.tick_ms(*local));
    b.push_back(request.tick_ms(*remote));
  }
  std::ranges::sort(a);
  std::ranges::sort(b);
  const double cpu = cpu_per_tick_ms(*remote, request, 100);
  Request frame(256);
  auto remote_frame = open(lib + "/provider_link.so", remote_config("frame"));
  cpu_per_tick_ms(*remote_frame, frame, 5);
  const double frame_cpu = cpu_per_tick_ms(*remote_frame, frame, 100);
  std::printf(
      "{\"version\":1,\"ticks\":%d,\"local_ms\":{\"p50\":%.3f,\"p99\":%.3f},\"remote_ms\":{\"p50\":"
      "%.3f,"
      "\"p99\":%.3f},\"added_ms\":{\"p50\":%.3f,\"p99\":%.3f},\"device_cpu_ms\":%.3f,"
      "\"frame_bytes\":%zu,\"frame_cpu_ms\":%.3f}\n",
      n_ticks, percentile(a, 0.5), percentile(a, 0.99), percentile(b, 0.5), percentile(b, 0.99),
      percentile(b, 0.5) - percentile(a, 0.5), percentile(b, 0.99) - percentile(a, 0.99), cpu,
      frame.pixels.size(), frame_cpu);
  remote.reset();
  remote_frame.reset();
  kill(child, SIGTERM);
  waitpid(child, nullptr, 0);
  return 0;
}

}  // namespace
}  // namespace outrider::link

int main(int argc, char** argv) {
  return outrider::link::run(argc > 1 ? std::atoi(argv[1]) : 2000,
                             argc > 2 ? argv[2] : "build/release/lib");
}
