#include "bench/link_pair.h"

#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>

#include "link/secure/secure.h"
#include "link/server/server.h"

namespace outrider::link_bench {

std::string fake_config(int side) {
  const std::string n = std::to_string(side);
  return "{\"model_family\":\"fake\",\"n_views\":2,\"image_height\":" + n +
         ",\"image_width\":" + n + ",\"action_steps\":50,\"action_dim\":32}";
}

const Clock& clock_here() {
  static constinit const MonotonicClock kClock;
  return kClock;
}

double thread_cpu_ms() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) * 1e3 + static_cast<double>(t.tv_nsec) / 1e6;
}

double percentile(const std::vector<double>& sorted, double p) {
  return sorted[std::min(sorted.size() - 1,
                         static_cast<size_t>(p * static_cast<double>(sorted.size())))];
}

void give_up(const char* what, const char* why) {
  std::fprintf(stderr, "link_bench: %s: %s\n", what, why);
  std::exit(2);
}

std::unique_ptr<link::Runtime> open_runtime(const std::string& path, const std::string& config) {
  auto runtime = link::ProviderSource(path, config).open();
  if (!runtime) give_up("open", runtime.error().text);
  return std::move(runtime.value());
}

// ---- the host ----------------------------------------------------------------------------------

namespace {

[[noreturn]] void serve(const std::string& lib, const std::string& key_file, int ready) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  auto models = std::make_unique<link::Models>(link::ModelsLimits(), clock_here());
  for (const auto& [name, side] : {std::pair("tick", kTickSide), std::pair("frame", kFrameSide)})
    if (auto added = models->add(
            name,
            std::make_unique<link::ProviderSource>(lib + "/provider_fake.so", fake_config(side)),
            true);
        !added)
      give_up("host", added.error().text);
  link::ServerOptions options;
  options.listen = {"tcp://127.0.0.1:0"};
  if (!key_file.empty()) {
    auto key = link::read_key_file(key_file);
    if (!key) give_up("host", key.error().text);
    options.secure = [key = key.value()](std::unique_ptr<link::Transport> plain,
                                         int64_t deadline_ns) {
      return link::secure_as_host(std::move(plain), key, deadline_ns);
    };
  }
  auto server = link::Server::start(options, std::move(models), clock_here());
  if (!server) give_up("host", server.error().text);
  const std::string endpoint = server.value()->endpoints()[0];
  if (::write(ready, endpoint.data(), endpoint.size()) < 0) std::_Exit(2);
  ::close(ready);
  for (;;) ::pause();
}

}  // namespace

HostProcess::HostProcess(const std::string& lib, const std::string& key_file)
    : lib_(lib), key_file_(key_file) {
  int ready[2];
  if (::pipe(ready) != 0) give_up("host", "no pipe");
  pid_ = ::fork();
  if (pid_ == 0) {
    ::close(ready[0]);
    serve(lib, key_file, ready[1]);
  }
  ::close(ready[1]);
  char endpoint[64] = {};
  if (::read(ready[0], endpoint, sizeof endpoint - 1) <= 0) give_up("host", "it does not start");
  ::close(ready[0]);
  endpoint_ = endpoint;
}

HostProcess::~HostProcess() {
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

std::unique_ptr<link::Runtime> HostProcess::open(const char* model, int deadline_ms) const {
  const std::string key = key_file_.empty() ? "" : ",\"key_file\":\"" + key_file_ + "\"";
  return open_runtime(lib_ + "/provider_link.so",
                      "{\"model_family\":\"remote\",\"endpoint\":\"" + endpoint_ +
                          "\",\"model\":\"" + model +
                          "\",\"deadline_ms\":" + std::to_string(deadline_ms) + key + "}");
}

KeyFile::KeyFile() {
  char path[] = "/tmp/outrider-link-bench-XXXXXX";
  const int fd = ::mkstemp(path);  // mode 0600
  unsigned char key[32];
  std::FILE* random = std::fopen("/dev/urandom", "rbe");
  const bool good = fd >= 0 && random != nullptr && std::fread(key, 1, sizeof key, random) == 32 &&
                    ::write(fd, key, sizeof key) == 32;
  if (!good) give_up("key", "cannot be written to /tmp");
  std::fclose(random);
  ::close(fd);
  path_ = path;
}

KeyFile::~KeyFile() {
  ::unlink(path_.c_str());
}

// ---- one tick ----------------------------------------------------------------------------------

Request::Request(int side) {
  const size_t bytes = static_cast<size_t>(side) * static_cast<size_t>(side) * 3;
  pixels_.assign(2 * bytes, 7);
  for (size_t v = 0; v < 2; ++v)
    views_[v] = {sizeof(frt_image_view),
                 FRT_PIXEL_RGB8,
                 pixels_.data() + v * bytes,
                 bytes,
                 side,
                 side,
                 0,
                 0,
                 0};
}

int Request::tick(link::Runtime& r) {
  int code = r.set_input(1, "pick up the cup", 15);
  if (code == 0) code = r.set_input(2, state_, sizeof state_);
  return code == 0 ? frame(r) : code;
}

int Request::frame(link::Runtime& r) {
  uint64_t written = 0;
  int code = r.set_input(0, views_, sizeof views_);
  if (code == 0) code = r.step();
  if (code == 0) code = r.get_output(3, out_.data(), out_.size() * sizeof(float), &written);
  return code;
}

double Request::tick_ms(link::Runtime& runtime) {
  const int64_t begin = clock_here().now_ns();
  if (tick(runtime) != 0) give_up("tick", runtime.last_error());
  return static_cast<double>(clock_here().now_ns() - begin) / 1e6;
}

}  // namespace outrider::link_bench
