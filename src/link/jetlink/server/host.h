// The model that is resident, and the one job that makes another one so. Outlives connections.
#pragma once
#include <condition_variable>
#include <mutex>
#include <set>
#include <thread>

#include "base/clock.h"
#include "link/jetlink/payloads.h"
#include "link/jetlink/server/cache.h"

namespace outrider::link::jetlink {

inline constexpr int64_t kProgressNs = 250'000'000;

// The connection that is served, as the job sees it. Called from the job's thread, no lock held.
class HostListener {
 public:
  virtual ~HostListener() = default;
  virtual void on_progress(const Progress& progress) = 0;
  // A job ended: tell the client where its model stands now.
  virtual void on_job_end() = 0;
  // What the client asked for last.
  virtual std::optional<ModelId> wanted() = 0;
};

// One frame in, before and after the engine.
struct FrameResult {
  Status status = Status::kNotReady;
  bool fatal = false;
  uint32_t gpu_us = 0, queue_us = 0, total_us = 0;
  size_t n_floats = 0;  // in `reply`
  char why[160] = {};   // of kInferFailed
};

class Host {
 public:
  Host(Cache cache, Backend& backend, const Clock& clock);
  ~Host();  // ends the job: waits for what the backend is doing

  // [setup] Loads what was loaded last, if it can be loaded without a client.
  void preload();
  // [setup] Loads this one first.
  void preload(const ModelId& id) { request(id); }

  // What an ENGINE_REQ is answered with; may start a job.
  EngineResp request(const ModelId& id);
  // The same without starting anything.
  EngineResp status(const std::optional<ModelId>& id);
  std::optional<std::string> loaded();
  std::vector<std::string> cached_models();

  // [hot] `payload` of an INFER_REQ in `version`; `reply` takes the floats to send. Allocates only
  // when a model with larger outputs came.
  FrameResult infer(const std::optional<ModelId>& asked, uint16_t version,
                    std::span<const std::byte> payload, std::vector<float>& reply);
  void forget_hidden();

  // Chunks of a model the client asked for. Errors: kInvalid for a model in use.
  Result<void> write_model(const ModelId& id, uint64_t offset, std::span<const std::byte> bytes);
  // Hashes what was uploaded. False: it was something else and is deleted.
  Result<bool> verify_model(const ModelId& id, const std::atomic<bool>& stop,
                            const std::function<void(double)>& progress);

  void attach(HostListener* listener);  // nullptr: nobody is connected
  const BackendFacts& facts() const { return backend_->facts(); }

 private:
  enum class JobState : uint8_t { kNone, kRunning, kFailed };
  struct Loaded {
    ModelSpec spec;
    Sizes sizes;
    std::unique_ptr<Engine> engine;
  };

  EngineResp answer(const std::optional<ModelId>& id, bool may_start);
  void start_job(const ModelId& id, bool load_only);
  void work();
  void run_job(const ModelId& id, bool load_only);
  Result<void> load(const ModelId& id, bool load_only);
  Result<ModelSpec> build(const ModelId& id);
  Result<void> publish(const ModelSpec& spec);
  void unload();
  void tell(const char* stage, double frac, const std::string& msg, bool always);

  Cache cache_;
  Backend* backend_;
  const Clock* clock_;

  std::mutex state_lock_;  // of what follows; never held while a listener is called
  std::condition_variable wake_;
  JobState job_ = JobState::kNone;
  ModelId job_id_;
  bool job_load_only_ = false, job_waits_ = false;
  std::string job_detail_;
  std::optional<ModelSpec> ready_;  // of the engine that is resident
  std::set<std::string> verified_;  // digests of files in the folder that were hashed
  bool stop_ = false;
  std::atomic<bool> stopping_{false};

  std::mutex listener_lock_;
  HostListener* listener_ = nullptr;
  int64_t told_ns_ = 0;

  std::mutex engine_lock_;  // around every use of the engine
  Loaded engine_;
  std::thread worker_;
};

}  // namespace outrider::link::jetlink
