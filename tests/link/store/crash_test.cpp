// The power goes before every single operation of long scenarios, and whatever part of the
// unflushed comes back: each file is there with the right bytes or not there, and nothing that was
// promised is lost.
#include <functional>
#include <map>
#include <set>

#include "link/store/memory_files.h"
#include "link/store/store_fixture.h"

namespace outrider::store {
namespace {

// What the store said. A step in progress promises nothing.
struct Promises {
  std::set<std::string> present, absent;
  std::map<std::string, uint64_t> safe_bytes;
};

struct World {
  Model projector = make_model(1500, 1, Role::kProjector);
  Model first = make_model(3 * 1024 + 500, 2), second = make_model(2 * 1024, 3);
  std::map<std::string, std::string> bytes;

  World() {
    first.info.companions = {projector.info.sha256};
    for (const Model* model : {&projector, &first, &second})
      bytes[model->info.sha256] = model->bytes;
  }
};

Result<void> push_noting(Store& store, const Model& model, Promises* promises) {
  const std::string& sha256 = model.info.sha256;
  promises->absent.erase(sha256);
  auto upload = store.begin_upload(model.info);
  if (!upload) return upload.error();
  for (size_t at = upload.value().next_offset(); at < model.bytes.size();) {
    const size_t n = std::min<size_t>(700, model.bytes.size() - at);
    promises->safe_bytes[sha256] = upload.value().safe_bytes();
    OUTRIDER_TRY(upload.value().write(at, bytes_of(model.bytes, at, n)));
    at += n;
    if (at > model.bytes.size() / 2) OUTRIDER_TRY(upload.value().sync());
    promises->safe_bytes[sha256] = upload.value().safe_bytes();
  }
  promises->safe_bytes.erase(sha256);
  OUTRIDER_TRY(upload.value().finish());
  promises->present.insert(sha256);
  return {};
}

Result<void> remove_noting(Store& store, const std::string& sha256, Promises* promises) {
  promises->present.erase(sha256);
  promises->safe_bytes.erase(sha256);
  const auto removed = store.remove(sha256);
  if (!removed && removed.code() != Code::kNotFound) return removed;
  promises->absent.insert(sha256);
  return {};
}

using Scenario = std::function<Result<void>(Files&, const World&, Promises*)>;

Result<void> upload_scenario(Files& files, const World& world, Promises* promises) {
  auto store = Store::open(files, small_limits());
  if (!store) return store.error();
  OUTRIDER_TRY(push_noting(store.value(), world.projector, promises));
  return push_noting(store.value(), world.first, promises);
}

// Cut in the middle, gone on with by another store, published, published again with other labels.
Result<void> resume_scenario(Files& files, const World& world, Promises* promises) {
  const Model& model = world.second;
  {
    auto store = Store::open(files, small_limits());
    if (!store) return store.error();
    auto upload = store.value().begin_upload(model.info);
    if (!upload) return upload.error();
    if (!upload.value().published()) {
      OUTRIDER_TRY(send(upload.value(), model.bytes, 1300));
      OUTRIDER_TRY(upload.value().sync());
      promises->safe_bytes[model.info.sha256] = upload.value().safe_bytes();
    }
  }
  auto store = Store::open(files, small_limits());
  if (!store) return store.error();
  OUTRIDER_TRY(push_noting(store.value(), model, promises));
  EntryInfo renamed = model.info;
  renamed.name = "another name";
  if (auto again = store.value().begin_upload(renamed); !again) return again.error();
  return store.value().check(model.info.sha256, true);
}

Result<void> remove_scenario(Files& files, const World& world, Promises* promises) {
  auto store = Store::open(files, small_limits());
  if (!store) return store.error();
  OUTRIDER_TRY(push_noting(store.value(), world.second, promises));
  OUTRIDER_TRY(remove_noting(store.value(), world.second.info.sha256, promises));
  OUTRIDER_TRY(push_noting(store.value(), world.second, promises));
  {
    promises->absent.erase(world.projector.info.sha256);
    auto upload = store.value().begin_upload(world.projector.info);
    if (!upload) return upload.error();
    OUTRIDER_TRY(send(upload.value(), world.projector.bytes, 1100));
  }
  return remove_noting(store.value(), world.projector.info.sha256, promises);
}

// Two models where one is kept: the older goes, what it needed goes when it is old.
Result<void> prune_scenario(Files& files, const World& world, Promises* promises) {
  Limits limits = small_limits();
  limits.stale_ns = 1;
  auto store = Store::open(files, limits);
  if (!store) return store.error();
  OUTRIDER_TRY(push_noting(store.value(), world.projector, promises));
  OUTRIDER_TRY(push_noting(store.value(), world.first, promises));
  OUTRIDER_TRY(push_noting(store.value(), world.second, promises));
  promises->present = {world.second.info.sha256};
  auto removed = store.value().prune(1);
  if (!removed) return removed.error();
  promises->absent = {world.first.info.sha256, world.projector.info.sha256};
  return {};
}

// A file with a wrong digest: never published, at no moment.
Result<void> wrong_digest_scenario(Files& files, const World& world, Promises* promises) {
  auto store = Store::open(files, small_limits());
  if (!store) return store.error();
  Model wrong = world.second;
  wrong.bytes[1000] = static_cast<char>(wrong.bytes[1000] ^ 1);
  promises->absent.insert(wrong.info.sha256);
  auto upload = store.value().begin_upload(wrong.info);
  if (!upload) return upload.error();
  OUTRIDER_TRY(send(upload.value(), wrong.bytes, wrong.bytes.size()));
  const auto finished = upload.value().finish();
  return finished.code() == Code::kNotFound ? Result<void>{} : finished;
}

void expect_whole(MemoryFiles& files, Store& store, const World& world, const Entry& entry) {
  const std::string& sha256 = entry.info.sha256;
  EXPECT_EQ(files.content(sha256 + "/data"), world.bytes.at(sha256)) << sha256;
  EXPECT_EQ(entry.state, EntryState::kPublished) << sha256;
  auto lease = store.lease(sha256);
  ASSERT_GOOD(lease);
  EXPECT_EQ(lease.value().path(), "/store/" + sha256 + "/data");
  EXPECT_EQ(lease.value().companions().size(), entry.info.companions.size());
}

void expect_consistent(MemoryFiles& files, const World& world, const Promises& promises) {
  auto store = Store::open(files, small_limits());
  ASSERT_GOOD(store);
  auto entries = store.value().list();
  ASSERT_GOOD(entries);
  std::set<std::string> whole;
  for (const Entry& entry : entries.value()) {
    EXPECT_FALSE(entry.in_use);
    if (entry.state == EntryState::kPartial) continue;
    expect_whole(files, store.value(), world, entry);
    whole.insert(entry.info.sha256);
  }
  for (const std::string& sha256 : promises.present) EXPECT_TRUE(whole.count(sha256)) << sha256;
  for (const std::string& sha256 : promises.absent) EXPECT_FALSE(whole.count(sha256)) << sha256;
  for (const std::string& name : files.names("")) EXPECT_FALSE(name.ends_with(".gone")) << name;
  for (const Model* model : {&world.projector, &world.second}) {
    const auto safe = promises.safe_bytes.find(model->info.sha256);
    if (safe == promises.safe_bytes.end()) continue;
    auto upload = store.value().begin_upload(model->info);
    ASSERT_GOOD(upload);
    EXPECT_GE(upload.value().next_offset(), safe->second);
  }
}

std::vector<MemoryFiles::Survival> survivals(uint64_t n_seeds) {
  using How = MemoryFiles::Survival::How;
  std::vector<MemoryFiles::Survival> list = {
      {How::kNothing}, {How::kEverything}, {How::kNamesOnly}, {How::kBytesOnly}};
  for (uint64_t seed = 0; seed < n_seeds; ++seed) list.push_back({How::kRandom, seed});
  return list;
}

void cut_everywhere(const Scenario& scenario) {
  const World world;
  MemoryFiles whole;
  Promises done;
  ASSERT_GOOD(scenario(whole, world, &done));
  const uint64_t n_operations = whole.n_operations();
  ASSERT_GT(n_operations, 40u);
  EXPECT_EQ(whole.n_open(), 0u);
  for (uint64_t cut = 0; cut <= n_operations; ++cut) {
    for (const auto& survival : survivals(12)) {
      SCOPED_TRACE("power off before operation " + std::to_string(cut) + " of " +
                   std::to_string(n_operations) + ", survival " +
                   std::to_string(static_cast<int>(survival.how)) + " seed " +
                   std::to_string(survival.seed));
      MemoryFiles files;
      Promises promises;
      files.cut_power_at(cut);
      const auto result = scenario(files, world, &promises);
      ASSERT_TRUE(cut < n_operations || result) << text_of(result);
      files.reboot(survival);
      expect_consistent(files, world, promises);
      // And the same again goes through.
      Promises again;
      ASSERT_GOOD(scenario(files, world, &again));
      expect_consistent(files, world, again);
      if (::testing::Test::HasFailure()) return;
    }
  }
}

TEST(PowerLoss, at_any_moment_of_an_upload_leaves_the_old_or_the_new) {
  cut_everywhere(upload_scenario);
}
TEST(PowerLoss, at_any_moment_of_a_resumed_upload_leaves_the_old_or_the_new) {
  cut_everywhere(resume_scenario);
}
TEST(PowerLoss, at_any_moment_of_a_removal_leaves_the_old_or_the_new) {
  cut_everywhere(remove_scenario);
}
TEST(PowerLoss, at_any_moment_of_pruning_leaves_no_model_without_what_it_needs) {
  cut_everywhere(prune_scenario);
}
TEST(PowerLoss, at_any_moment_of_a_wrong_upload_publishes_nothing) {
  cut_everywhere(wrong_digest_scenario);
}

// A second loss during the clean-up after the first.
TEST(PowerLoss, during_the_recovery_from_another_leaves_the_old_or_the_new) {
  const World world;
  for (uint64_t cut = 0; cut < 400; cut += 7) {
    for (uint64_t second_cut = 0; second_cut < 60; second_cut += 3) {
      SCOPED_TRACE("cuts at " + std::to_string(cut) + " and " + std::to_string(second_cut));
      MemoryFiles files;
      Promises promises;
      files.cut_power_at(cut);
      (void)remove_scenario(files, world, &promises);
      files.reboot({MemoryFiles::Survival::How::kRandom, cut});
      files.cut_power_at(second_cut);
      (void)Store::open(files, small_limits());
      files.reboot({MemoryFiles::Survival::How::kRandom, second_cut});
      expect_consistent(files, world, promises);
      if (::testing::Test::HasFailure()) return;
    }
  }
}

// One operation fails, whichever: the store stays usable, nothing wrong is published.
void fail_everywhere(const Scenario& scenario, int cause) {
  const World world;
  MemoryFiles whole;
  Promises done;
  ASSERT_GOOD(scenario(whole, world, &done));
  for (uint64_t at = 0; at < whole.n_operations(); ++at) {
    MemoryFiles files;
    Promises promises;
    files.fail_at(at, cause);
    const auto result = scenario(files, world, &promises);
    SCOPED_TRACE("operation " + std::to_string(at) + " (" + files.failed_name() + ") fails with " +
                 std::to_string(cause) + ": " + text_of(result));
    if (!result) {
      EXPECT_EQ(result.error().message().find("store: "), 0u);
    }
    if (result.code() == Code::kNoMemory) promises.safe_bytes.clear();  // room was made
    EXPECT_EQ(files.n_open(), 0u);
    expect_consistent(files, world, promises);
    Promises again;
    ASSERT_GOOD(scenario(files, world, &again));
    expect_consistent(files, world, again);
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(DiskFault, in_any_operation_leaves_a_usable_store) {
  for (const int cause : {EIO, ENOSPC, EACCES}) {
    fail_everywhere(upload_scenario, cause);
    fail_everywhere(resume_scenario, cause);
    fail_everywhere(remove_scenario, cause);
    fail_everywhere(prune_scenario, cause);
    fail_everywhere(wrong_digest_scenario, cause);
  }
}

}  // namespace
}  // namespace outrider::store
