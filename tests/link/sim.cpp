#include "link/sim.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/fnv.h"

namespace outrider::link::sim {

// ---- the model
// -----------------------------------------------------------------------------------

namespace {

const int64_t kPictureShape[] = {1, 4, 4, 3}, kFree[] = {-1}, kSumsShape[] = {4};
const frt_runtime_port_desc kPorts[] = {
    {"picture", FRT_MODALITY_IMAGE, FRT_DTYPE_U8, FRT_LAYOUT_NHWC, FRT_PORT_IN, FRT_UPDATE_STAGED,
     1, kPictureShape, 4, 0, nullptr, 0, 0},
    {"prompt", FRT_MODALITY_TEXT, FRT_DTYPE_U8, FRT_LAYOUT_FLAT, FRT_PORT_IN, FRT_UPDATE_STAGED, 1,
     kFree, 1, 0, nullptr, 0, 0},
    {"state", FRT_MODALITY_STATE, FRT_DTYPE_F32, FRT_LAYOUT_FLAT, FRT_PORT_IN, FRT_UPDATE_STAGED, 1,
     kFree, 1, 0, nullptr, 0, 0},
    {"sums", FRT_MODALITY_ACTION, FRT_DTYPE_F32, FRT_LAYOUT_FLAT, FRT_PORT_OUT, FRT_UPDATE_STAGED,
     0, kSumsShape, 1, 0, nullptr, 0, 0},
};
const frt_generic_stage_desc_v1 kStages[] = {
    {"infer", FRT_EXECUTOR_OPAQUE, SimRuntime::kRef, 0, 0, nullptr}};

}  // namespace

SimRuntime::SimRuntime(World& world) : world_(&world) {
  face_.abi_version = 1;
  face_.struct_size = sizeof face_;
  face_.exp = &exp_;
  face_.ports = kPorts;
  face_.n_ports = std::size(kPorts);
  exp_.identity = "frt-runtime-identity-v1\nprovider=sim\n";
  exp_.fingerprint = 7;
  plan_.abi_version = 1;
  plan_.struct_size = sizeof plan_;
  plan_.stages = kStages;
  plan_.n_stages = 1;
  ++world_->n_runtimes;
}

SimRuntime::~SimRuntime() {
  --world_->n_runtimes;
}

int SimRuntime::set_input(uint32_t port, const void* data, uint64_t bytes) noexcept {
  ready_ = false;
  if (port > 2) return error_ = "no such input", FRT_ERR_INVALID;
  has_[port] = false;
  if (port == 0) {
    const auto* view = static_cast<const frt_image_view*>(data);
    if (bytes != sizeof *view || view->data == nullptr || view->width != 4 || view->height != 4 ||
        view->pixel_format != FRT_PIXEL_RGB8 || view->bytes < kPictureBytes)
      return error_ = "picture: not 4x4 RGB", FRT_ERR_INVALID;
    const auto* at = static_cast<const std::byte*>(view->data);
    picture_.assign(at, at + kPictureBytes);
  } else if (port == 1) {
    if (bytes == 0 || bytes > 64) return error_ = "prompt: 1 to 64 bytes", FRT_ERR_INVALID;
    prompt_.assign(static_cast<const char*>(data), bytes);
  } else {
    if (bytes == 0 || bytes % 4 != 0 || bytes > 64)
      return error_ = "state: 1 to 16 values", FRT_ERR_SHAPE;
    state_.resize(bytes / 4);
    std::memcpy(state_.data(), data, bytes);
    world_->staged.push_back(state_[0]);
  }
  has_[port] = true;
  return FRT_OK;
}

std::vector<float> SimRuntime::compute(const std::vector<std::byte>& picture,
                                       const std::string& prompt, const std::vector<float>& state) {
  uint64_t hash = fnv1a64(prompt);
  for (std::byte b : picture) hash = (hash ^ static_cast<uint64_t>(b)) * 1099511628211ull;
  std::vector<float> out(4);
  for (size_t i = 0; i < 4; ++i)
    out[i] = state[i % state.size()] + static_cast<float>(hash >> (16 * i) & 0xFFF);
  return out;
}

int SimRuntime::run(uint32_t executor_ref) noexcept {
  if (executor_ref != kRef) return error_ = "no such stage", FRT_ERR_NOT_FOUND;
  ready_ = false;
  for (int i = 0; i < 3; ++i)
    if (!has_[i]) return error_ = std::string(kPorts[i].name) + " is not staged", FRT_ERR_INVALID;
  world_->now_ns += world_->run_ns;
  world_->runs.push_back(state_[0]);
  out_ = compute(picture_, prompt_, state_);
  ready_ = true;
  return FRT_OK;
}

int SimRuntime::get_output(uint32_t port, void* out, uint64_t capacity,
                           uint64_t* written) noexcept {
  if (written == nullptr || port != 3) return error_ = "no such output", FRT_ERR_INVALID;
  *written = 16;
  if (out == nullptr || capacity < 16) return error_ = "16 bytes", FRT_ERR_STORAGE;
  if (!ready_) return *written = 0, error_ = "not ready", FRT_ERR_NOT_READY;
  std::memcpy(out, out_.data(), 16);
  return FRT_OK;
}

// ---- the network
// ---------------------------------------------------------------------------------

class World::End final : public Transport {
 public:
  End(World& world, std::shared_ptr<sim::Connection> c, int side)
      : world_(&world), c_(std::move(c)), side_(side) {
    ++world_->n_transports;
    std::strcpy(facts_.peer, side == 0 ? "sim-host" : "sim-device");
  }
  ~End() override {
    c_->open = false;
    --world_->n_transports;
  }
  Moved send(std::span<const Piece> pieces, int64_t deadline_ns) noexcept override {
    return world_->send(*c_, side_, pieces, deadline_ns);
  }
  Moved receive(std::span<std::byte> into, int64_t deadline_ns) noexcept override {
    return world_->receive(*c_, side_, into, deadline_ns);
  }
  void shut() noexcept override { c_->open = false; }
  const TransportFacts& facts() const noexcept override { return facts_; }
  size_t unsent_bytes() const noexcept override { return c_->pipe[side_].in_flight; }

 private:
  World* world_;
  std::shared_ptr<sim::Connection> c_;
  int side_;
  TransportFacts facts_;
};

namespace {
class SimSource final : public ModelSource {
 public:
  explicit SimSource(World& world) : world_(&world) {}
  Result<std::unique_ptr<Runtime>> open() override {
    if (world_->make_runtime) return world_->make_runtime();
    return std::unique_ptr<Runtime>(std::make_unique<SimRuntime>(*world_));
  }

 private:
  World* world_;
};

// The world outlives the device that dials through it.
class Borrowed final : public Dialer {
 public:
  explicit Borrowed(Dialer& dialer) : dialer_(&dialer) {}
  Result<std::unique_ptr<Transport>> dial(int64_t deadline_ns) override {
    return dialer_->dial(deadline_ns);
  }

 private:
  Dialer* dialer_;
};
}  // namespace

World::World(uint64_t seed) : draw(seed) {
  host_clock.step_ns = static_cast<int64_t>(draw.below(1000)) * kSecond;
  start_host();
}

World::~World() {
  stop_host();
}

void World::start_host() {
  host_up = true;
  ModelsLimits limits;
  limits.max_instances = max_instances;
  models_ = std::make_unique<Models>(limits, host_clock);
  (void)models_->add("default", std::make_unique<SimSource>(*this), true);
  core_.reset(new ServerCore{*models_, host_clock, counters});
  core_->host_id = draw.bits();
  core_->newest_version = host_newest;
  core_->features = host_features;
}

void World::stop_host() {
  host_up = false;
  for (Served& served : served_) served.connection->open = false, served.connection->broken = true;
  served_.clear();
  core_.reset();
  models_.reset();
}

void World::break_all() {
  for (const auto& weak : connections_)
    if (const auto c = weak.lock()) c->open = false, c->broken = true;
}

Result<std::unique_ptr<Device>> World::open_device(DeviceConfig config) {
  if (config.name.client_id == 0) config.name.client_id = draw.bits() | 1;
  config.name.name = "sim";
  return Device::open(config, std::make_unique<Borrowed>(*this), device_clock);
}

Result<std::unique_ptr<Transport>> World::dial(int64_t deadline_ns) {
  const int64_t answer = now_ns + weather[0].delay_ns + weather[1].delay_ns;
  const bool reachable = network_up && !weather[0].silent && !weather[1].silent;
  run_until(reachable ? std::min(answer, deadline_ns) : deadline_ns);
  if (!reachable || answer > deadline_ns)
    return make_error(Code::kNotReady, "sim: no answer in time");
  if (!host_up) return make_error(Code::kNotFound, "sim: connection refused");
  auto c = std::make_shared<sim::Connection>();
  connections_.push_back(c);
  served_.push_back({c, std::make_unique<Peer>(std::make_unique<End>(*this, c, 1), *core_)});
  return std::unique_ptr<Transport>(std::make_unique<End>(*this, c, 0));
}

void World::put(sim::Connection& c, int from, std::vector<std::byte> bytes) {
  Weather& w = weather[from];
  Pipe& pipe = c.pipe[from];
  for (size_t at = 0; at < bytes.size();) {
    const size_t most = std::max<size_t>(w.most_chunk, 1);
    const size_t n = std::min(bytes.size() - at, most > 64 ? 1 + draw.below(most) : most);
    std::vector<std::byte> part(bytes.begin() + static_cast<ptrdiff_t>(at),
                                bytes.begin() + static_cast<ptrdiff_t>(at + n));
    for (auto it = w.corrupt_at.lower_bound(w.n_bytes);
         it != w.corrupt_at.end() && *it < w.n_bytes + n; it = w.corrupt_at.erase(it))
      part[*it - w.n_bytes] ^= std::byte(1 << *it % 8);
    w.n_bytes += n;
    at += n;
    if (w.silent) continue;  // gone
    int64_t arrive = now_ns + w.delay_ns;
    if (from == 1) arrive += std::exchange(work_ns, 0);
    if (w.jitter_ns > 0)
      arrive += static_cast<int64_t>(draw.below(static_cast<uint64_t>(w.jitter_ns)));
    arrive = std::max(arrive, pipe.last_at_ns);  // in order
    if (w.bytes_per_s > 0) arrive += static_cast<int64_t>(n * uint64_t{kSecond} / w.bytes_per_s);
    pipe.last_at_ns = arrive;
    pipe.in_flight += n;
    pipe.chunks.push_back({arrive, std::move(part)});
  }
}

Moved World::send(sim::Connection& c, int from, std::span<const Piece> pieces,
                  int64_t deadline_ns) {
  std::vector<std::byte> all;
  for (const Piece& piece : pieces) all.insert(all.end(), piece.begin(), piece.end());
  const int64_t due = from == 0 ? deadline_ns : deadline_ns - host_clock.step_ns;
  size_t sent = 0;
  Weather& w = weather[from];
  while (sent < all.size()) {
    if (!c.open) return {Io::kReset, sent};
    const size_t room = w.window > c.pipe[from].in_flight ? w.window - c.pipe[from].in_flight : 0;
    size_t n = std::min(room, all.size() - sent);
    const uint64_t until_cut = w.cut_at > w.n_bytes ? w.cut_at - w.n_bytes : 0;
    const bool cut = n >= until_cut && w.cut_at != UINT64_MAX;
    n = std::min<uint64_t>(n, until_cut);
    if (w.silent) c.pipe[from].in_flight += n;  // the system's buffer fills, nobody takes it
    put(c, from,
        {all.begin() + static_cast<ptrdiff_t>(sent),
         all.begin() + static_cast<ptrdiff_t>(sent + n)});
    sent += n;
    if (cut) {
      w.cut_at = UINT64_MAX;
      c.open = false;
      c.broken = true;
      return {Io::kReset, sent};
    }
    if (sent == all.size()) break;
    if (in_host_ || from == 1) {  // the host cannot wait: the world would stand still
      if (due > now_ns) now_ns = due;
      return {Io::kLate, sent};
    }
    if (!step(due)) return {Io::kLate, sent};
  }
  return {Io::kDone, sent};
}

Moved World::receive(sim::Connection& c, int at, std::span<std::byte> into, int64_t deadline_ns) {
  Pipe& pipe = c.pipe[1 - at];
  for (;;) {
    if (!pipe.chunks.empty() && pipe.chunks.front().at_ns <= now_ns) {
      Pipe::Chunk& chunk = pipe.chunks.front();
      const size_t n = std::min(into.size(), chunk.bytes.size());
      std::memcpy(into.data(), chunk.bytes.data(), n);
      pipe.in_flight -= n;
      chunk.bytes.erase(chunk.bytes.begin(), chunk.bytes.begin() + static_cast<ptrdiff_t>(n));
      if (chunk.bytes.empty()) pipe.chunks.pop_front();
      return {Io::kDone, n};
    }
    if (!c.open && (c.broken || at == 1 || pipe.chunks.empty())) return {Io::kReset, 0};
    if (at == 1 || !step(deadline_ns)) return {Io::kLate, 0};
  }
}

// ---- time
// ----------------------------------------------------------------------------------------

bool World::pump_host() {
  bool worked = false;
  in_host_ = true;
  for (size_t i = 0; i < served_.size();) {
    Served& served = served_[i];
    const Pipe& pipe = served.connection->pipe[0];
    const bool bytes = !pipe.chunks.empty() && pipe.chunks.front().at_ns <= now_ns;
    bool over = false;
    if (bytes || !served.connection->open) {
      // One read may bring several messages.
      for (int i_message = 0; i_message < 8 && !over; ++i_message) over = !served.peer->pump(0);
      worked = true;
    }
    if (over) {
      served.connection->open = false;
      served_.erase(served_.begin() + static_cast<ptrdiff_t>(i));
    } else {
      ++i;
    }
  }
  in_host_ = false;
  return worked;
}

int64_t World::next_event() const {
  int64_t next = INT64_MAX;
  for (const auto& weak : connections_)
    if (const auto c = weak.lock())
      for (const Pipe& pipe : c->pipe)
        for (const Pipe::Chunk& chunk : pipe.chunks)  // what is here and not read is no event
          if (chunk.at_ns > now_ns) {
            next = std::min(next, chunk.at_ns);
            break;
          }
  return next;
}

bool World::step(int64_t deadline_ns) {
  if (pump_host()) return true;
  constexpr int64_t kTickNs = 100 * kMs;
  if (now_ns >= next_tick_ns_) {  // what a host does without being asked
    next_tick_ns_ = now_ns + kTickNs;
    in_host_ = true;
    for (size_t i = served_.size(); i-- > 0;)
      if (!served_[i].peer->pump(0)) {
        served_[i].connection->open = false;
        served_.erase(served_.begin() + static_cast<ptrdiff_t>(i));
      }
    in_host_ = false;
  }
  if (on_event) on_event();
  const int64_t next = std::min(next_event(), next_tick_ns_);
  if (next >= deadline_ns) {
    pass_to(std::max(now_ns, deadline_ns));
    return now_ns < deadline_ns;  // something else happened before
  }
  pass_to(next);
  return true;
}

void World::pass_to(int64_t at_ns) {
  if (on_time)
    on_time(at_ns);
  else
    now_ns = at_ns;
}

void World::run_until(int64_t at_ns) {
  while (step(at_ns)) {
  }
}

}  // namespace outrider::link::sim
