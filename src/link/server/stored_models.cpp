#include "link/server/stored_models.h"

namespace outrider::link {
namespace {

// The runtime goes before the lease of the files it has open.
class LeasedRuntime final : public Runtime {
 public:
  LeasedRuntime(store::Lease lease, std::unique_ptr<Runtime> runtime)
      : lease_(std::move(lease)), runtime_(std::move(runtime)) {}

  const frt_model_runtime_v1& face() const noexcept override { return runtime_->face(); }
  const frt_generic_stage_plan_ext_v1* plan() const noexcept override { return runtime_->plan(); }
  bool has_step() const noexcept override { return runtime_->has_step(); }
  int set_input(uint32_t port, const void* data, uint64_t bytes) noexcept override {
    return runtime_->set_input(port, data, bytes);
  }
  int get_output(uint32_t port, void* out, uint64_t capacity, uint64_t* written) noexcept override {
    return runtime_->get_output(port, out, capacity, written);
  }
  int run(uint32_t executor_ref) noexcept override { return runtime_->run(executor_ref); }
  int step() noexcept override { return runtime_->step(); }
  int prepare(uint32_t graph, uint64_t key) noexcept override {
    return runtime_->prepare(graph, key);
  }
  const char* last_error() noexcept override { return runtime_->last_error(); }

 private:
  store::Lease lease_;
  std::unique_ptr<Runtime> runtime_;
};

// A file that changed since its bytes were compared is read again, its companions first.
Result<store::Lease> check_and_lease(store::Store& store, const std::string& sha256) {
  auto entry = store.find(sha256);
  if (!entry) return entry.error();
  for (const std::string& companion : entry.value().info.companions)
    OUTRIDER_TRY(store.check(companion, false));
  OUTRIDER_TRY(store.check(sha256, false));
  return store.lease(sha256);
}

class StoredSource final : public ModelSource {
 public:
  StoredSource(store::Store& store, std::string sha256, MakeSource make)
      : store_(store), sha256_(std::move(sha256)), make_(std::move(make)) {}

  Result<std::unique_ptr<Runtime>> open() override {
    auto lease = check_and_lease(store_, sha256_);
    if (!lease) return lease.error();
    auto source = make_(lease.value());
    if (!source) return source.error();
    auto runtime = source.value()->open();
    if (!runtime) return runtime.error();
    return std::unique_ptr<Runtime>(
        std::make_unique<LeasedRuntime>(std::move(lease.value()), std::move(runtime.value())));
  }

 private:
  store::Store& store_;
  const std::string sha256_;
  const MakeSource make_;
};

}  // namespace

Result<ModelCatalog::Found> StoredModels::find(std::string_view name_or_sha256) {
  auto found = store_.find(name_or_sha256);
  if (!found) return found.error();
  const store::EntryInfo& info = found.value().info;
  if (found.value().state == store::EntryState::kDamaged)
    return make_error(Code::kFailed, "store: %s is damaged; push it again", info.sha256.c_str());
  if (found.value().state == store::EntryState::kPartial)
    return make_error(Code::kNotReady, "store: %llu of %llu bytes of %s are here; push the rest",
                      static_cast<unsigned long long>(found.value().have_bytes),
                      static_cast<unsigned long long>(info.n_bytes), info.sha256.c_str());
  if (info.role != store::Role::kModel)
    return make_error(Code::kNotFound, "store: %s is no model but a %s", info.sha256.c_str(),
                      store::role_name(info.role));
  Found out;
  out.key = info.sha256;
  out.least_bytes = info.n_bytes;
  for (const std::string& companion : info.companions)
    if (auto entry = store_.find(companion)) out.least_bytes += entry.value().info.n_bytes;
  out.source = std::make_unique<StoredSource>(store_, info.sha256, make_);
  return out;
}

}  // namespace outrider::link
