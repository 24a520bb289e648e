#include "link/jetlink/server/host.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "base/log.h"

namespace outrider::link::jetlink {
namespace {

std::string short_sha(const std::string& sha256) {
  return sha256.substr(0, 16);
}

uint32_t micros(int64_t ns) {
  return static_cast<uint32_t>(std::clamp<int64_t>(ns / 1000, 0, UINT32_MAX));
}

}  // namespace

Host::Host(Cache cache, Backend& backend, const Clock& clock)
    : cache_(std::move(cache)), backend_(&backend), clock_(&clock), worker_([this] { work(); }) {}

Host::~Host() {
  {
    std::scoped_lock hold(state_lock_);
    stop_ = true;
    stopping_ = true;
  }
  wake_.notify_all();
  worker_.join();
}

void Host::preload() {
  const auto last = cache_.last_loaded();
  if (last && cache_.find_built(last->sha256)) request(*last);
}

// ---- where a model stands ---------------------------------------------------------------------

// In the order of the protocol: resident, being made, built, uploaded, missing.
EngineResp Host::answer(const std::optional<ModelId>& id, bool may_start) {
  EngineResp out;
  if (!id) return out;
  out.sha256 = id->sha256;
  if (ready_ && ready_->id.same_engine(*id)) {
    out.state = EngineState::kReady;
    out.spec = ready_;
    return out;
  }
  if (job_ == JobState::kRunning) {
    out.state = EngineState::kBuilding;
    out.detail = job_id_.same_engine(*id)
                     ? job_detail_
                     : "another build is in progress (" + short_sha(job_id_.sha256) + ")";
    return out;
  }
  const bool failed = job_ == JobState::kFailed && job_id_.same_engine(*id);
  const auto built = cache_.find_built(id->sha256);
  const bool can_load = built && built->id.frame_skip == id->frame_skip;
  const int64_t have = cache_.model_bytes(id->sha256);
  const bool whole = have >= 0 && have == id->nbytes && have > 0;
  if (failed && !may_start && (can_load || whole)) {
    out.state = EngineState::kFailed;
    out.detail = job_detail_;
    return out;
  }
  if (can_load || whole) {
    out.state = EngineState::kBuilding;
    if (!may_start) {
      out.detail = can_load ? "cached, not loaded" : "uploaded, not built";
      return out;
    }
    ModelId job = *id;
    if (can_load) job.nbytes = built->id.nbytes;
    start_job(job, can_load);
    out.detail = job_detail_;
    return out;
  }
  if (failed) job_ = JobState::kNone;
  out.state = EngineState::kNeedUpload;
  out.detail = "have " + std::to_string(std::max<int64_t>(have, 0)) + " of the model";
  return out;
}

EngineResp Host::request(const ModelId& id) {
  std::scoped_lock hold(state_lock_);
  return answer(id, true);
}

EngineResp Host::status(const std::optional<ModelId>& id) {
  std::scoped_lock hold(state_lock_);
  return answer(id, false);
}

std::optional<std::string> Host::loaded() {
  std::scoped_lock hold(state_lock_);
  return ready_ ? std::optional(ready_->id.sha256) : std::nullopt;
}

std::vector<std::string> Host::cached_models() {
  std::scoped_lock hold(state_lock_);
  return cache_.built_models();
}

void Host::attach(HostListener* listener) {
  std::scoped_lock hold(listener_lock_);
  listener_ = listener;
}

// ---- uploads ----------------------------------------------------------------------------------

Result<void> Host::write_model(const ModelId& id, uint64_t offset,
                               std::span<const std::byte> bytes) {
  std::scoped_lock hold(state_lock_);
  const bool in_use = (ready_ && ready_->id.sha256 == id.sha256) ||
                      (job_ == JobState::kRunning && job_id_.sha256 == id.sha256);
  if (in_use)
    return make_error(Code::kInvalid, "model %s is in use and is not written to",
                      short_sha(id.sha256).c_str());
  verified_.erase(id.sha256);
  return cache_.write_model(id.sha256, offset, bytes);
}

Result<bool> Host::verify_model(const ModelId& id, const std::atomic<bool>& stop,
                                const std::function<void(double)>& progress) {
  auto digest = cache_.hash_model(id.sha256, stop, progress);
  if (!digest && digest.code() == Code::kNotReady) return digest.error();
  std::scoped_lock hold(state_lock_);
  if (digest && digest.value() == id.sha256 && cache_.model_bytes(id.sha256) == id.nbytes) {
    verified_.insert(id.sha256);
    return true;
  }
  const bool in_use = (ready_ && ready_->id.sha256 == id.sha256) ||
                      (job_ == JobState::kRunning && job_id_.sha256 == id.sha256);
  if (!in_use) cache_.remove_model(id.sha256);
  return false;
}

// ---- the job ----------------------------------------------------------------------------------

void Host::start_job(const ModelId& id, bool load_only) {
  job_ = JobState::kRunning;
  job_id_ = id;
  job_load_only_ = load_only;
  job_waits_ = true;
  job_detail_ = load_only ? "loading" : "building";
  wake_.notify_all();
}

void Host::work() {
  std::unique_lock hold(state_lock_);
  for (;;) {
    wake_.wait(hold, [this] { return stop_ || job_waits_; });
    if (stop_) return;
    job_waits_ = false;
    const ModelId id = job_id_;
    const bool load_only = job_load_only_;
    hold.unlock();
    run_job(id, load_only);
    hold.lock();
  }
}

void Host::tell(const char* stage, double frac, const std::string& msg, bool always) {
  {
    std::scoped_lock hold(state_lock_);
    job_detail_ = std::string(stage) + (msg.empty() ? "" : ": " + msg);
  }
  const int64_t now_ns = clock_->now_ns();
  if (!always && now_ns - told_ns_ < kProgressNs) return;
  told_ns_ = now_ns;
  std::scoped_lock hold(listener_lock_);
  if (listener_ != nullptr) listener_->on_progress({stage, frac, msg});
}

void Host::run_job(const ModelId& id, bool load_only) {
  log_line(LogLevel::kInfo, "jetlink: %s %s", load_only ? "loading" : "building",
           short_sha(id.sha256).c_str());
  const auto done = load(id, load_only);
  if (!done) {
    log_line(LogLevel::kWarn, "jetlink: %s: %s", short_sha(id.sha256).c_str(), done.error().text);
    tell("failed", 1.0, done.error().text, true);
  }
  {
    std::scoped_lock hold(state_lock_);
    job_ = done ? JobState::kNone : JobState::kFailed;
    job_detail_ = done ? "" : done.error().text;
  }
  if (done) tell("load", 1.0, "ready", true);
  std::scoped_lock hold(listener_lock_);
  if (listener_ == nullptr || stopping_) return;
  // The client may have asked for another model meanwhile: that one is next.
  if (const auto wanted = listener_->wanted(); wanted && !wanted->same_engine(id)) request(*wanted);
  listener_->on_job_end();
}

void Host::unload() {
  {
    std::scoped_lock hold(state_lock_);
    ready_.reset();
  }
  std::scoped_lock hold(engine_lock_);
  engine_.engine.reset();
}

Result<ModelSpec> Host::build(const ModelId& id) {
  bool known = false;
  {
    std::scoped_lock hold(state_lock_);
    known = verified_.contains(id.sha256);
  }
  tell("parse", 0.0, "checking the model file", true);
  if (!known) {
    auto same = verify_model(id, stopping_, [this](double frac) {
      tell("parse", frac, "checking the model file", false);
    });
    if (!same) return same.error();
    if (!same.value()) {
      cache_.remove_model(id.sha256);
      return make_error(Code::kNotFound, "sha256 mismatch: the file on the host is another model");
    }
  }
  const int64_t begin_ns = clock_->now_ns();
  auto spec = backend_->build(cache_.model_path(id.sha256), id,
                              [this](const char* stage, double frac, const std::string& msg) {
                                tell(stage, frac, msg, frac >= 1.0);
                              });
  if (!spec) return spec.error();
  tell("build", 1.0, "built", true);
  const double seconds = static_cast<double>(clock_->now_ns() - begin_ns) * 1e-9;
  std::scoped_lock hold(state_lock_);
  // A full disk costs the next start some time, not this one its model.
  if (auto saved = cache_.save_built(spec.value(), seconds); !saved)
    log_line(LogLevel::kWarn, "jetlink: %s is served, but not kept: %s",
             short_sha(id.sha256).c_str(), saved.error().text);
  return spec;
}

Result<void> Host::load(const ModelId& id, bool load_only) {
  unload();
  if (load_only) {
    if (const auto spec = cache_.find_built(id.sha256)) {
      if (auto done = publish(*spec); done || cache_.model_bytes(id.sha256) != id.nbytes)
        return done;
      // What was built before is of no use: once more from the model file.
      std::scoped_lock hold(state_lock_);
      cache_.remove_built(id.sha256);
    }
  }
  auto spec = build(id);
  if (!spec) return spec.error();
  tell("save", 1.0, "saved", true);
  return publish(spec.value());
}

// Loads, warms with zeros, forgets that, and shows it to clients.
Result<void> Host::publish(const ModelSpec& spec) {
  auto sizes = sizes_of(spec);
  if (!sizes) return sizes.error();
  tell("load", 0.0, "deserializing engine", true);
  auto engine = backend_->load(cache_.model_path(spec.id.sha256), spec,
                               [this](const char* stage, double frac, const std::string& msg) {
                                 tell(stage, frac, msg, false);
                               });
  if (!engine) return engine.error();
  const std::vector<std::byte> zeros(
      std::max<uint64_t>(sizes.value().warped_bytes, sizes.value().packed() * 4));
  const Answer warm = engine.value()->run({std::span(zeros).first(sizes.value().warped_bytes),
                                           std::span(zeros).first(sizes.value().packed() * 4),
                                           {},
                                           true});
  if (warm.status == Status::kInferFailed)
    return make_error(Code::kFailed, "the model does not run: %s",
                      engine.value()->last_error().c_str());
  engine.value()->reset();
  {
    std::scoped_lock hold(engine_lock_);
    engine_.engine = std::move(engine.value());
    engine_.spec = spec;
    engine_.sizes = sizes.value();
  }
  std::scoped_lock hold(state_lock_);
  ready_ = spec;
  cache_.save_last_loaded(spec.id);
  return {};
}

// ---- frames -----------------------------------------------------------------------------------

void Host::forget_hidden() {
  std::scoped_lock hold(engine_lock_);
  if (engine_.engine) engine_.engine->forget_hidden();
}

FrameResult Host::infer(const std::optional<ModelId>& asked, uint16_t version,
                        std::span<const std::byte> payload, std::vector<float>& reply) {
  FrameResult out;
  const int64_t begin_ns = clock_->now_ns();
  std::scoped_lock hold(engine_lock_);
  if (!engine_.engine || !asked || !engine_.spec.id.same_engine(*asked)) return out;
  const Sizes& sizes = engine_.sizes;
  if (payload.size() != sizes.request_bytes(version)) {
    out.status = Status::kBadShape;
    return out;
  }
  const FrameHead head = decode_frame_head(payload);
  Frame frame;
  frame.reset = (head.flags & kResetQueues) != 0;
  frame.warped = payload.subspan(kFrameHeadBytes, sizes.warped_bytes);
  frame.packed = payload.subspan(kFrameHeadBytes + sizes.warped_bytes, sizes.packed() * 4);
  frame.prev_feat = payload.subspan(kFrameHeadBytes + sizes.warped_bytes + sizes.packed() * 4);
  const Answer answer = engine_.engine->run(frame);
  out.status = answer.status;
  out.fatal = answer.fatal;
  out.queue_us = micros(answer.stage_ns);
  out.gpu_us = micros(answer.run_ns);
  if (answer.status == Status::kInferFailed) {
    std::snprintf(out.why, sizeof out.why, "%s", engine_.engine->last_error().c_str());
  } else {
    const bool whole = version == kVersion2 || (head.flags & kWantHidden) != 0;
    const size_t hidden = whole ? 0 : sizes.hidden_stop - sizes.hidden_start;
    out.n_floats = sizes.output - hidden;
    if (reply.size() < out.n_floats) reply.resize(out.n_floats);
    const size_t before = whole ? sizes.output : sizes.hidden_start;
    std::copy_n(answer.outputs.data(), before, reply.data());
    std::copy_n(answer.outputs.data() + before + hidden, out.n_floats - before,
                reply.data() + before);
  }
  out.total_us = micros(clock_->now_ns() - begin_ns);
  return out;
}

}  // namespace outrider::link::jetlink
