#include "link/server/models.h"

#include <unistd.h>

#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <thread>

#include "base/json_text.h"
#include "base/printable.h"

namespace outrider::link {
namespace {

constexpr int64_t kHandOverWaitNs = 2'000'000'000, kLookNs = 200'000;

// Looks again and again: a timed mutex waits by a call that the thread sanitizer does not know.
std::unique_lock<std::mutex> lock_within(std::mutex& mutex, int64_t ns) {
  const MonotonicClock clock;
  const int64_t due_ns = clock.now_ns() + ns;
  std::unique_lock lock(mutex, std::try_to_lock);
  while (!lock.owns_lock() && clock.now_ns() < due_ns) {
    std::this_thread::sleep_for(std::chrono::nanoseconds(kLookNs));
    (void)lock.try_lock();
  }
  return lock;
}

uint64_t resident_bytes() {
  uint64_t total = 0, resident = 0;
  FILE* file = std::fopen("/proc/self/statm", "re");
  if (file == nullptr) return 0;
  const int n = std::fscanf(file, "%" SCNu64 " %" SCNu64, &total, &resident);
  std::fclose(file);
  return n == 2 ? resident * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE)) : 0;
}

// The value of a line "key=value" of an identity.
std::string identity_value(const char* identity, std::string_view key) {
  std::string_view text = identity == nullptr ? "" : identity;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    if (line.size() > key.size() && line.starts_with(key) && line[key.size()] == '=')
      return std::string(line.substr(key.size() + 1));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return {};
}

}  // namespace

std::string json_text(std::string_view text) {
  return json_quoted(printable(text, 400));
}

void scrub(Runtime& runtime) noexcept {
  const frt_model_runtime_v1& face = runtime.face();
  static const char kNothing[16] = {};
  for (uint32_t port = 0; port < face.n_ports; ++port)
    if (face.ports[port].direction == FRT_PORT_IN && face.ports[port].update == FRT_UPDATE_STAGED)
      runtime.set_input(port, kNothing, 0);
  runtime.set_input(static_cast<uint32_t>(face.n_ports), kNothing, 0);
}

Models::Model* Models::find(std::string_view name) {
  for (const auto& model : models_)
    if (model->name == name || (!model->sha256.empty() && model->sha256 == name))
      return model.get();
  return nullptr;
}

Result<std::shared_ptr<Instance>> Models::open_instance(Model& model) {
  const uint64_t before = resident_bytes();
  auto runtime = model.source->open();
  if (!runtime) return runtime.error();
  auto instance = std::make_shared<Instance>();
  instance->runtime = std::move(runtime.value());
  const uint64_t after = resident_bytes();
  instance->bytes = after > before ? after - before : 0;
  const frt_runtime_export_v1* exp = instance->runtime->face().exp;
  std::scoped_lock lock(lock_);
  if (model.sha256.empty() && exp != nullptr)
    model.sha256 = identity_value(exp->identity, "weights_sha256");
  model.instances.push_back(instance);
  return instance;
}

Result<void> Models::add(std::string name, std::unique_ptr<ModelSource> source, bool open_now) {
  auto model = std::make_unique<Model>();
  model->name = std::move(name);
  model->source = std::move(source);
  if (open_now) {
    auto opened = open_instance(*model);
    if (!opened)
      return make_error(opened.code(), "model %s: %s", model->name.c_str(), opened.error().text);
  }
  std::scoped_lock lock(lock_);
  const uint64_t own = model->instances.empty() ? 0 : model->instances[0]->bytes;
  if (limits_.memory_budget_bytes != 0 && used_bytes() + own > limits_.memory_budget_bytes)
    return no_room(*model, own);
  models_.push_back(std::move(model));
  return {};
}

uint64_t Models::used_bytes() const {
  uint64_t used = 0;
  for (const auto& model : models_)
    for (const auto& instance : model->instances) used += instance->bytes;
  return used;
}

bool Models::room_for_another(const Model& model) const {
  if (model.instances.size() >= limits_.max_instances) return false;
  if (limits_.memory_budget_bytes == 0) return true;
  uint64_t next = model.least_bytes;
  for (const auto& instance : model.instances) next = std::max(next, instance->bytes);
  return used_bytes() + next <= limits_.memory_budget_bytes;
}

// ---- models of the catalog
// -----------------------------------------------------------------------

namespace {

// Under lock_, which every new holder takes: nobody else has it, nobody gets it.
bool is_idle(const std::shared_ptr<Instance>& instance) {
  return !instance->owned && instance.use_count() == 1;
}

}  // namespace

// Under lock_. Moves the one that was not heard for longest to `closed`, which ends it outside the
// lock. False: there is none.
bool Models::close_oldest_idle(Instances& closed) {
  Instances* in = nullptr;
  size_t oldest = 0;
  for (const auto& each : models_)
    for (size_t i = 0; each->from_catalog && i < each->instances.size(); ++i) {
      const auto& instance = each->instances[i];
      if (!is_idle(instance)) continue;
      if (in != nullptr && (*in)[oldest]->heard_ns.load() <= instance->heard_ns.load()) continue;
      in = &each->instances;
      oldest = i;
    }
  if (in == nullptr) return false;
  closed.push_back(std::move((*in)[oldest]));
  in->erase(in->begin() + static_cast<ptrdiff_t>(oldest));
  return true;
}

// Under lock_. Until another one of `model` fits, as far as that goes.
void Models::make_room(const Model& model, Instances& closed) {
  while (model.instances.size() < limits_.max_instances && !room_for_another(model))
    if (!close_oldest_idle(closed)) return;
}

void Models::close_idle(std::string_view key) {
  Instances closed;
  std::scoped_lock lock(lock_);
  for (const auto& model : models_) {
    if (!model->from_catalog || model->name != key) continue;
    for (auto& instance : model->instances)
      if (is_idle(instance)) closed.push_back(std::move(instance));
    std::erase(model->instances, nullptr);
  }
}

// What opening costs is known afterwards. Under lock_.
Result<void> Models::keep_to_budget(Model& model, const std::shared_ptr<Instance>& opened,
                                    Instances& closed) {
  if (limits_.memory_budget_bytes == 0) return {};
  while (used_bytes() > limits_.memory_budget_bytes && close_oldest_idle(closed)) {
  }
  if (used_bytes() <= limits_.memory_budget_bytes) return {};
  const Error error = no_room(model, opened->bytes);
  model.least_bytes = std::max(model.least_bytes, opened->bytes);
  std::erase(model.instances, opened);
  return error;
}

Error Models::no_room(const Model& model, uint64_t wanted_bytes) const {
  const uint64_t used = used_bytes();
  return make_error(Code::kNoMemory,
                    "model %.70s needs %" PRIu64 " MiB, what is open has %" PRIu64
                    " MiB, allowed are %" PRIu64 " (memory_budget_mb of the host)",
                    model.name.c_str(), wanted_bytes >> 20, used >> 20,
                    limits_.memory_budget_bytes >> 20);
}

Error Models::unknown(std::string_view name, const char* more) const {
  std::scoped_lock lock(lock_);
  std::string names;
  for (const auto& each : models_)
    if (!each->from_catalog && names.size() < 200)
      names += (names.empty() ? "" : ", ") + each->name;
  return make_error(Code::kNotFound, "there is no model \"%s\" here; there are: %s%s%s",
                    printable(name, 80).c_str(), names.c_str(), *more == '\0' ? "" : "; ", more);
}

Result<Models::Model*> Models::find_or_ask(std::string_view name) {
  {
    std::scoped_lock lock(lock_);
    if (Model* known = find(name)) return known;
  }
  if (catalog_ == nullptr) return unknown(name, "");
  auto found = catalog_->find(name);
  if (!found && found.code() == Code::kNotFound) return unknown(name, found.error().text);
  if (!found) return found.error();
  std::scoped_lock lock(lock_);
  for (const auto& known : models_)
    if (known->from_catalog && known->name == found.value().key) return known.get();
  auto model = std::make_unique<Model>();
  model->name = std::move(found.value().key);
  model->source = std::move(found.value().source);
  model->least_bytes = found.value().least_bytes;
  model->from_catalog = true;
  models_.push_back(std::move(model));
  return models_.back().get();
}

// Under lock_. `may_take`: also one that has another owner.
std::shared_ptr<Instance> Models::choose(Model& model, const Applicant& who, bool may_take) {
  const int64_t now = clock_->now_ns();
  for (const auto& instance : model.instances)
    if (instance->used && instance->client_id == who.client_id) return instance;
  // A fresh one first: a former owner that comes back finds its own.
  for (const bool used : {false, true})
    for (const auto& instance : model.instances)
      if (!instance->owned && instance->used == used) return instance;
  if (!may_take) return nullptr;
  std::shared_ptr<Instance> oldest;
  for (const auto& instance : model.instances) {
    // Whose run is at work sends nothing meanwhile, and is not silent.
    const bool at_work = !instance->use.try_lock();
    if (!at_work) instance->use.unlock();
    const bool silent = !at_work && now - instance->heard_ns.load() > limits_.silence_ns;
    const bool allowed = who.take_over == wire::TakeOver::kAlways ||
                         (who.take_over == wire::TakeOver::kWhenSilent && silent);
    if (allowed && (oldest == nullptr || instance->heard_ns.load() < oldest->heard_ns.load()))
      oldest = instance;
  }
  return oldest;
}

Lease Models::hand_over(std::shared_ptr<Instance> instance, const Applicant& who) {
  if (instance->owned && instance->client_id != who.client_id) ++n_take_overs_;
  Lease lease;
  lease.fresh = !instance->used;
  lease.epoch = ++last_epoch_;
  instance->used = true;
  instance->owned = true;
  instance->client_id = who.client_id;
  instance->owner = who.name;
  instance->heard_ns = clock_->now_ns();
  instance->epoch.store(lease.epoch, std::memory_order_release);
  lease.instance = std::move(instance);
  return lease;
}

Error Models::busy(const Model& model) const {
  const int64_t now = clock_->now_ns();
  std::string owners;
  for (const auto& instance : model.instances) {
    const int64_t ago_ms = (now - instance->heard_ns.load()) / 1'000'000;
    if (owners.size() < 200)
      owners += (owners.empty() ? "" : ", ") + printable(instance->owner, 40) + " (heard " +
                std::to_string(ago_ms) + " ms ago)";
  }
  return make_error(Code::kNotReady, "model %s: all %zu instances are owned: %s",
                    model.name.c_str(), model.instances.size(), owners.c_str());
}

Result<Lease> Models::acquire(std::string_view name, const Applicant& who) {
  auto known = find_or_ask(name);
  if (!known) return known.error();
  Model* const model = known.value();
  std::scoped_lock opening(model->opening);
  Lease lease;
  Instances closed;
  bool open_another = false;
  {
    std::scoped_lock lock(lock_);
    std::shared_ptr<Instance> found = choose(*model, who, false);
    if (found == nullptr) {
      make_room(*model, closed);
      open_another = room_for_another(*model);
      if (!open_another) found = choose(*model, who, true);
      if (!open_another && found == nullptr)
        return model->instances.empty() ? no_room(*model, model->least_bytes) : busy(*model);
    }
    if (found != nullptr) lease = hand_over(std::move(found), who);
  }
  closed.clear();
  if (open_another) {
    auto opened = open_instance(*model);
    if (!opened) return opened.error();
    std::scoped_lock lock(lock_);
    OUTRIDER_TRY(keep_to_budget(*model, opened.value(), closed));
    lease = hand_over(std::move(opened.value()), who);
  }
  if (lease.fresh) return lease;
  // The former owner's run ends before its successor begins; its epoch is over already.
  const std::unique_lock use = lock_within(lease.instance->use, kHandOverWaitNs);
  if (!use.owns_lock()) {
    release(lease);
    return make_error(Code::kNotReady, "model %s: the run of its former owner does not end",
                      model->name.c_str());
  }
  scrub(*lease.instance->runtime);
  return lease;
}

void Models::release(const Lease& lease) {
  std::scoped_lock lock(lock_);
  if (lease.holds()) lease.instance->owned = false;
}

std::string Models::json() const {
  std::scoped_lock lock(lock_);
  const int64_t now = clock_->now_ns();
  std::string out = "[";
  for (const auto& model : models_) {
    if (model->from_catalog && model->instances.empty()) continue;
    out += out.size() > 1 ? "," : "";
    out += "{\"name\":" + json_text(model->name) + ",\"sha256\":" + json_text(model->sha256) +
           ",\"instances\":[";
    bool first = true;
    for (const auto& instance : model->instances) {
      out += first ? "" : ",";
      first = false;
      out += "{\"owned\":" + std::string(instance->owned ? "true" : "false") +
             ",\"owner\":" + json_text(instance->owner) +
             ",\"epoch\":" + std::to_string(instance->epoch.load()) + ",\"heard_ms\":" +
             std::to_string(instance->used ? (now - instance->heard_ns.load()) / 1'000'000 : -1) +
             ",\"bytes\":" + std::to_string(instance->bytes) + "}";
    }
    out += "]}";
  }
  return out + "]";
}

}  // namespace outrider::link
