// Which runtimes are resident and who owns them.
//
// A model has instances: opened runtimes, each with at most one owner. An owner gets an epoch, a
// number that never repeats; what still comes with an older one is refused. Rules of an OPEN, in
// this order: the device's own former instance (a reconnect takes it back at once), a free
// instance, a further one while max_instances and the memory budget allow, one whose owner is
// silent (unless the device declined), any (only when the device demands it). Else busy. An
// instance that changes hands is scrubbed: every input is made void through the contract's own rule
// (a refused set_input clears the input, the outputs and a pending context).
#pragma once
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/clock.h"
#include "link/server/runtime.h"
#include "link/wire/messages.h"

namespace outrider::link {

struct Instance {
  std::unique_ptr<Runtime> runtime;
  std::mutex use;                    // held during every verb, never while something is sent
  std::atomic<uint32_t> epoch{0};    // of the owner
  std::atomic<int64_t> heard_ns{0};  // when the owner was heard of
  std::atomic<bool> owned{false};
  uint64_t client_id = 0;  // of the last owner; under Models' lock, as the rest
  std::string owner;
  bool used = false;
  uint64_t bytes = 0;  // what opening it cost
};

// Ownership of one instance by one peer.
struct Lease {
  std::shared_ptr<Instance> instance;
  uint32_t epoch = 0;
  bool fresh = false;  // nobody ran it before: its own order rules are those of a new runtime
  bool holds() const {
    return instance && instance->epoch.load(std::memory_order_acquire) == epoch;
  }
};

// Models that nobody named beforehand: found when a device asks for one. Called by several threads.
class ModelCatalog {
 public:
  struct Found {
    std::string key;  // what makes it the same model for everybody who asks
    std::unique_ptr<ModelSource> source;
    uint64_t least_bytes = 0;  // what an instance takes at least
  };
  virtual ~ModelCatalog() = default;
  // [setup] Errors: kNotFound (no such model), others (there, but not to be had).
  virtual Result<Found> find(std::string_view name) = 0;
};

struct ModelsLimits {
  uint32_t max_instances = 4;  // of one model
  uint64_t memory_budget_bytes =
      0;  // of all instances together, by what opening them cost; 0: none
  int64_t silence_ns = 1'000'000'000;
};

struct Applicant {
  uint64_t client_id = 0;
  std::string name;
  wire::TakeOver take_over = wire::TakeOver::kWhenSilent;
};

class Models {
 public:
  Models(const ModelsLimits& limits, const Clock& clock) : limits_(limits), clock_(&clock) {}

  // [setup] Adds a model; `open_now` opens its first instance. Errors: those of the open.
  Result<void> add(std::string name, std::unique_ptr<ModelSource> source, bool open_now);

  // [setup] Before the first acquire: where a name is looked for that add() did not bring. Its
  // models are held to the memory budget; instances that nobody owns are closed to make room.
  void set_catalog(std::unique_ptr<ModelCatalog> catalog) { catalog_ = std::move(catalog); }

  // [setup] May open an instance (seconds). Errors: kNotFound (no such model, with those there
  // are), kNotReady (busy: who owns it and since when it was heard), kNoMemory (the budget), those
  // of the open.
  Result<Lease> acquire(std::string_view model, const Applicant& who);
  void release(const Lease& lease);
  // [setup] Closes what the catalog's model of this key has open and nobody owns.
  void close_idle(std::string_view key);
  // [hot]
  void heard(const Lease& lease) const {
    if (lease.instance) lease.instance->heard_ns.store(clock_->now_ns(), std::memory_order_relaxed);
  }
  int64_t silence_ns() const { return limits_.silence_ns; }

  // A JSON array about the models, for status.
  std::string json() const;
  int64_t n_take_overs() const { return n_take_overs_.load(std::memory_order_relaxed); }

 private:
  struct Model {
    std::string name, sha256;
    std::unique_ptr<ModelSource> source;
    bool from_catalog = false;
    uint64_t least_bytes = 0;
    std::mutex opening;  // one open at a time; taken before lock_
    std::vector<std::shared_ptr<Instance>> instances;
  };
  using Instances = std::vector<std::shared_ptr<Instance>>;
  Model* find(std::string_view name);
  Result<Model*> find_or_ask(std::string_view name);
  Error unknown(std::string_view name, const char* more) const;
  uint64_t used_bytes() const;
  bool close_oldest_idle(Instances& closed);
  void make_room(const Model& model, Instances& closed);
  Result<void> keep_to_budget(Model& model, const std::shared_ptr<Instance>& opened,
                              Instances& closed);
  Result<std::shared_ptr<Instance>> open_instance(Model& model);
  std::shared_ptr<Instance> choose(Model& model, const Applicant& who, bool may_take);
  bool room_for_another(const Model& model) const;
  Lease hand_over(std::shared_ptr<Instance> instance, const Applicant& who);
  Error busy(const Model& model) const;
  Error no_room(const Model& model, uint64_t wanted_bytes) const;

  ModelsLimits limits_;
  const Clock* clock_;
  std::unique_ptr<ModelCatalog> catalog_;
  mutable std::mutex lock_;
  std::vector<std::unique_ptr<Model>> models_;
  uint32_t last_epoch_ = 0;
  std::atomic<int64_t> n_take_overs_{0};
};

// Makes every input void and drops outputs. The caller holds `use`.
void scrub(Runtime& runtime) noexcept;

// A JSON string literal of printable ASCII.
std::string json_text(std::string_view text);

}  // namespace outrider::link
