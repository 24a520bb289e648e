// What the store does when the disk is well: uploads, leases, checks, pruning.
#include "link/store/memory_files.h"
#include "link/store/store_fixture.h"

namespace outrider::store {
namespace {

constexpr int64_t kHourNs = int64_t{3600} * 1'000'000'000;

struct StoreTest : ::testing::Test {
  MemoryFiles files;
  Limits limits = small_limits();

  Store open() {
    auto store = Store::open(files, limits);
    EXPECT_GOOD(store);
    return std::move(store.value());
  }
};

TEST_F(StoreTest, publishes_what_was_sent_and_nothing_before) {
  Store store = open();
  const Model model = make_model(5000, 1);
  auto upload = store.begin_upload(model.info);
  ASSERT_GOOD(upload);
  EXPECT_EQ(upload.value().next_offset(), 0u);
  ASSERT_GOOD(send(upload.value(), model.bytes, 5000));
  EXPECT_EQ(store.lease(model.info.sha256).code(), Code::kNotFound);
  ASSERT_GOOD(upload.value().finish());
  EXPECT_TRUE(upload.value().published());
  EXPECT_GOOD(upload.value().finish());
  auto lease = store.lease(model.info.sha256);
  ASSERT_GOOD(lease);
  EXPECT_EQ(lease.value().info().name, model.info.name);
  EXPECT_EQ(files.content(model.info.sha256 + "/data"), model.bytes);
  EXPECT_EQ(files.names(model.info.sha256), (std::vector<std::string>{"data", "info.json"}));
}

TEST_F(StoreTest, takes_every_size_around_a_chunk_in_pieces_of_every_size) {
  Store store = open();
  uint64_t seed = 100;
  for (const size_t n_bytes : {1, 2, 1023, 1024, 1025, 2047, 2048, 2049, 3072, 4097}) {
    for (const size_t piece_bytes : {1, 511, 1023, 1024, 1025, 4096, 5000}) {
      const Model model = make_model(n_bytes, ++seed);
      ASSERT_GOOD(push(store, model, piece_bytes)) << n_bytes << " in " << piece_bytes;
      EXPECT_EQ(files.content(model.info.sha256 + "/data"), model.bytes);
    }
  }
}

TEST_F(StoreTest, goes_on_from_every_byte_after_a_lost_peer) {
  const Model model = make_model(2600, 1);
  for (size_t cut = 0; cut <= model.bytes.size(); ++cut) {
    MemoryFiles disk;
    {
      auto store = Store::open(disk, limits);
      ASSERT_GOOD(store);
      auto upload = store.value().begin_upload(model.info);
      ASSERT_GOOD(upload);
      ASSERT_GOOD(send(upload.value(), model.bytes, cut));
    }  // both ends gone; the object makes its bytes safe
    disk.reboot({MemoryFiles::Survival::How::kNothing});
    auto store = Store::open(disk, limits);
    ASSERT_GOOD(store);
    auto upload = store.value().begin_upload(model.info);
    ASSERT_GOOD(upload);
    ASSERT_EQ(upload.value().next_offset(), cut);
    ASSERT_EQ(upload.value().safe_bytes(), cut);
    ASSERT_GOOD(send(upload.value(), model.bytes, model.bytes.size()));
    ASSERT_GOOD(upload.value().finish());
    ASSERT_EQ(disk.content(model.info.sha256 + "/data"), model.bytes);
  }
}

// A killed process syncs nothing: the digests of whole chunks are there, the rest is sent again.
TEST_F(StoreTest, goes_on_after_its_process_was_killed_at_every_byte) {
  const Model model = make_model(5200, 1);
  for (size_t cut = 0; cut <= model.bytes.size(); cut += 13) {
    MemoryFiles disk;
    uint64_t safe = 0;
    {
      auto store = Store::open(disk, limits);
      ASSERT_GOOD(store);
      auto upload = store.value().begin_upload(model.info);
      ASSERT_GOOD(upload);
      ASSERT_GOOD(send(upload.value(), model.bytes, cut, 13));
      safe = upload.value().safe_bytes();
      EXPECT_LT(cut - safe, limits.sync_bytes + limits.chunk_bytes);
      disk.cut_power_at(disk.n_operations());  // the destructors reach nothing
    }
    disk.reboot({MemoryFiles::Survival::How::kEverything});
    auto store = Store::open(disk, limits);
    ASSERT_GOOD(store);
    auto upload = store.value().begin_upload(model.info);
    ASSERT_GOOD(upload);
    EXPECT_EQ(upload.value().next_offset(), safe);
    ASSERT_GOOD(send(upload.value(), model.bytes, model.bytes.size()));
    ASSERT_GOOD(upload.value().finish());
  }
}

TEST_F(StoreTest, a_damaged_byte_in_a_partial_costs_its_chunk_and_what_follows) {
  const Model model = make_model(5000, 1);
  for (const size_t at : {0, 1023, 1024, 2500, 4095, 4096, 4499}) {
    MemoryFiles disk;
    auto store = Store::open(disk, limits);
    ASSERT_GOOD(store);
    {
      auto upload = store.value().begin_upload(model.info);
      ASSERT_GOOD(upload);
      ASSERT_GOOD(send(upload.value(), model.bytes, 4500));
    }
    disk.flip_byte(model.info.sha256 + ".part/data", at, true);
    auto upload = store.value().begin_upload(model.info);
    ASSERT_GOOD(upload);
    EXPECT_EQ(upload.value().next_offset(), at / 1024 * 1024) << at;
    ASSERT_GOOD(send(upload.value(), model.bytes, model.bytes.size()));
    EXPECT_GOOD(upload.value().finish());
  }
}

TEST_F(StoreTest, refuses_gaps_excess_and_oversize_and_changes_nothing) {
  Store store = open();
  const Model model = make_model(3000, 1);
  auto begun = store.begin_upload(model.info);
  ASSERT_GOOD(begun);
  Upload& upload = begun.value();
  ASSERT_GOOD(upload.write(0, bytes_of(model.bytes, 0, 1000)));
  EXPECT_EQ(upload.write(1001, bytes_of(model.bytes, 1001, 10)).code(), Code::kInvalid);
  EXPECT_EQ(upload.write(UINT64_MAX, bytes_of(model.bytes, 0, 10)).code(), Code::kInvalid);
  EXPECT_EQ(upload.write(1000, bytes_of(model.bytes + "x", 1000)).code(), Code::kInvalid);
  const std::string large(kMaxWriteBytes + 1, 'x');
  EXPECT_EQ(upload.write(1000, bytes_of(large)).code(), Code::kInvalid);
  EXPECT_EQ(upload.finish().code(), Code::kInvalid);
  EXPECT_EQ(upload.next_offset(), 1000u);
  EXPECT_GOOD(upload.write(500, bytes_of(model.bytes, 500, 100)));  // repeated
  EXPECT_GOOD(upload.write(500, {}));
  EXPECT_EQ(upload.next_offset(), 1000u);
  EXPECT_GOOD(upload.write(500, bytes_of(model.bytes, 500, 2500)));  // repeated and more
  EXPECT_GOOD(upload.finish());
}

TEST_F(StoreTest, one_uploader_at_a_time_and_the_next_goes_on) {
  Store store = open(), other = open();
  const Model model = make_model(3000, 1);
  {
    auto first = store.begin_upload(model.info);
    ASSERT_GOOD(first);
    ASSERT_GOOD(send(first.value(), model.bytes, 2100));
    EXPECT_EQ(store.begin_upload(model.info).code(), Code::kNotReady);
    EXPECT_EQ(other.begin_upload(model.info).code(), Code::kNotReady);
    EXPECT_EQ(other.remove(model.info.sha256).code(), Code::kNotReady);
    EXPECT_TRUE(other.list().value().at(0).in_use);
  }
  auto second = other.begin_upload(model.info);
  ASSERT_GOOD(second);
  EXPECT_EQ(second.value().next_offset(), 2100u);
  ASSERT_GOOD(send(second.value(), model.bytes, 3000));
  ASSERT_GOOD(second.value().finish());
  auto third = store.begin_upload(model.info);
  ASSERT_GOOD(third);
  EXPECT_TRUE(third.value().published());
  EXPECT_EQ(third.value().next_offset(), 3000u);
  EXPECT_EQ(third.value().write(0, bytes_of(model.bytes, 0, 1)).code(), Code::kInvalid);
}

TEST_F(StoreTest, size_zero_limit_and_one_more) {
  limits.max_file_bytes = 2000;
  Store store = open();
  Model none = make_model(1, 1);
  none.info.n_bytes = 0;
  EXPECT_EQ(store.begin_upload(none.info).code(), Code::kInvalid);
  EXPECT_GOOD(push(store, make_model(2000, 2)));
  const auto refused = push(store, make_model(2001, 3));
  EXPECT_EQ(refused.code(), Code::kNoMemory);
  EXPECT_NE(text_of(refused).find("max_file_bytes allows 2000"), std::string::npos);
  EXPECT_EQ(store.list().value().size(), 1u);
}

TEST_F(StoreTest, the_number_of_files_is_limited) {
  limits.max_entries = 2;
  Store store = open();
  EXPECT_GOOD(push(store, make_model(100, 1)));
  {
    auto partial = store.begin_upload(make_model(100, 2).info);
    ASSERT_GOOD(partial);
  }
  EXPECT_EQ(push(store, make_model(100, 3)).code(), Code::kNoMemory);
  EXPECT_GOOD(push(store, make_model(100, 2)));  // known already
  EXPECT_GOOD(store.remove(make_model(100, 1).info.sha256));
  EXPECT_GOOD(push(store, make_model(100, 3)));
}

TEST_F(StoreTest, a_leased_model_is_not_removed_and_a_needed_one_neither) {
  Store store = open(), other = open();
  const Model projector = make_model(900, 1, Role::kProjector);
  Model model = make_model(1500, 2);
  model.info.companions = {projector.info.sha256};
  EXPECT_EQ(push(store, model).code(), Code::kNotFound);  // what it needs comes first
  ASSERT_GOOD(push(store, projector));
  ASSERT_GOOD(push(store, model));
  {
    auto lease = store.lease(model.info.sha256);
    ASSERT_GOOD(lease);
    ASSERT_EQ(lease.value().companions().size(), 1u);
    EXPECT_EQ(lease.value().companions()[0].path(), "/store/" + projector.info.sha256 + "/data");
    EXPECT_EQ(other.remove(model.info.sha256).code(), Code::kNotReady);
    EXPECT_EQ(store.remove(model.info.sha256).code(), Code::kNotReady);
    EXPECT_GOOD(other.lease(model.info.sha256));  // two may use it
  }
  const auto refused = other.remove(projector.info.sha256);
  EXPECT_EQ(refused.code(), Code::kNotReady);
  EXPECT_NE(text_of(refused).find("needed by " + model.info.sha256.substr(0, 16)),
            std::string::npos);
  EXPECT_GOOD(other.remove(model.info.sha256));
  EXPECT_GOOD(other.remove(projector.info.sha256));
  EXPECT_EQ(other.remove(projector.info.sha256).code(), Code::kNotFound);
  EXPECT_TRUE(store.list().value().empty());
  EXPECT_EQ(files.used_bytes(), 0u);
}

TEST_F(StoreTest, prune_keeps_the_last_used_those_in_use_and_what_they_need) {
  Store store = open();
  const Model projector = make_model(900, 1, Role::kProjector);
  std::vector<Model> models;
  ASSERT_GOOD(push(store, projector));
  for (uint64_t i = 0; i < 5; ++i) {
    models.push_back(make_model(1000 + i, 10 + i));
    if (i == 1) models[i].info.companions = {projector.info.sha256};
    ASSERT_GOOD(push(store, models[i]));
    files.advance_ns(kHourNs);
  }
  {
    auto lease = store.lease(models[0].info.sha256);
    ASSERT_GOOD(lease);
    files.advance_ns(kHourNs);
    EXPECT_GOOD(store.lease(models[1].info.sha256));
    files.advance_ns(kHourNs);
    ASSERT_GOOD(push(store, models[4]));  // pushing again is a use
    auto removed = store.prune(2);
    ASSERT_GOOD(removed);
    EXPECT_EQ(removed.value(), 2u);
    EXPECT_GOOD(store.find(models[4].info.sha256));
    EXPECT_GOOD(store.find(models[1].info.sha256));
    EXPECT_GOOD(store.find(models[0].info.sha256));  // in use
    EXPECT_FALSE(store.find(models[2].info.sha256));
    EXPECT_FALSE(store.find(models[3].info.sha256));
  }
  files.advance_ns(25 * kHourNs);
  EXPECT_EQ(store.prune(2).value(), 1u);
  EXPECT_GOOD(store.find(projector.info.sha256));  // needed by models[1]
  EXPECT_EQ(store.prune(1).value(), 2u);
  EXPECT_FALSE(store.find(models[1].info.sha256));
  EXPECT_FALSE(store.find(projector.info.sha256));
}

TEST_F(StoreTest, what_nothing_needs_stays_for_a_day_as_its_model_may_be_on_its_way) {
  Store store = open();
  const Model projector = make_model(900, 1, Role::kProjector);
  ASSERT_GOOD(push(store, projector));
  EXPECT_EQ(store.prune(0).value(), 0u);
  Model model = make_model(1500, 2);
  model.info.companions = {projector.info.sha256};
  files.advance_ns(25 * kHourNs);
  {
    auto upload = store.begin_upload(model.info);
    ASSERT_GOOD(upload);
    EXPECT_EQ(store.prune(0).value(), 0u);  // an upload needs it
  }
  EXPECT_GOOD(store.remove(model.info.sha256));
  EXPECT_EQ(store.prune(0).value(), 1u);
}

TEST_F(StoreTest, keep_models_prunes_after_each_publication) {
  limits.keep_models = 2;
  Store store = open();
  for (uint64_t i = 0; i < 4; ++i) {
    ASSERT_GOOD(push(store, make_model(100, i)));
    files.advance_ns(kHourNs);
  }
  const auto entries = store.list().value();
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_EQ(entries[0].info.sha256, make_model(100, 3).info.sha256);
  EXPECT_EQ(entries[1].info.sha256, make_model(100, 2).info.sha256);
}

TEST_F(StoreTest, finds_by_digest_and_by_name_the_last_used) {
  Store store = open();
  Model old = make_model(100, 1), fresh = make_model(100, 2);
  old.info.name = fresh.info.name = "default";
  ASSERT_GOOD(push(store, old));
  files.advance_ns(kHourNs);
  ASSERT_GOOD(push(store, fresh));
  EXPECT_EQ(store.find("default").value().info.sha256, fresh.info.sha256);
  files.advance_ns(kHourNs);
  EXPECT_GOOD(store.lease(old.info.sha256));
  EXPECT_EQ(store.find("default").value().info.sha256, old.info.sha256);
  EXPECT_EQ(store.find(fresh.info.sha256).value().info.sha256, fresh.info.sha256);
  EXPECT_EQ(store.find("defaul").code(), Code::kNotFound);
}

TEST_F(StoreTest, stale_partials_go_and_fresh_ones_stay) {
  const Model stale = make_model(3000, 1), fresh = make_model(3000, 2);
  Store store = open();
  for (const Model* model : {&stale, &fresh}) {
    auto upload = store.begin_upload(model->info);
    ASSERT_GOOD(upload);
    ASSERT_GOOD(send(upload.value(), model->bytes, 1500));
    files.advance_ns(23 * kHourNs);
  }
  files.advance_ns(2 * kHourNs);
  Store again = open();
  const auto entries = again.list().value();
  ASSERT_EQ(entries.size(), 1u);
  EXPECT_EQ(entries[0].info.sha256, fresh.info.sha256);
  EXPECT_EQ(entries[0].have_bytes, 1500u);
  // One that somebody still works on stays, however slow.
  auto slow = again.begin_upload(fresh.info);
  ASSERT_GOOD(slow);
  files.advance_ns(100 * kHourNs);
  EXPECT_GOOD(again.clean());
  EXPECT_EQ(again.list().value().size(), 1u);
}

TEST_F(StoreTest, work_can_be_given_up_and_taken_up_again) {
  Store store = open();
  const Model model = make_model(5000, 1);
  {
    auto upload = store.begin_upload(model.info);
    ASSERT_GOOD(upload);
    ASSERT_GOOD(send(upload.value(), model.bytes, 5000));
    EXPECT_EQ(upload.value().finish([](const Progress&) { return false; }).code(), Code::kNotReady);
  }
  uint64_t last = 0;
  EXPECT_EQ(store
                .begin_upload(model.info,
                              [&](const Progress& p) {
                                EXPECT_EQ(p.stage, Stage::kCheck);
                                EXPECT_EQ(p.n_total, 5000u);
                                last = p.n_done;
                                return p.n_done < 2048;
                              })
                .code(),
            Code::kNotReady);
  EXPECT_EQ(last, 2048u);
  auto upload = store.begin_upload(model.info);
  ASSERT_GOOD(upload);
  EXPECT_EQ(upload.value().next_offset(), 5000u);
  EXPECT_GOOD(upload.value().finish());
}

TEST_F(StoreTest, a_lock_that_is_never_given_back_is_waited_for_until_the_deadline_only) {
  Store store = open();
  int handle = -1;
  ASSERT_EQ(files.open("lock", OpenHow::kRead, &handle), 0);
  ASSERT_EQ(files.lock(handle, LockHow::kExclusive), 0);
  const int64_t before_ns = files.wall_ns();
  const auto refused = store.list();
  EXPECT_EQ(refused.code(), Code::kNotReady);
  EXPECT_NEAR(static_cast<double>(files.wall_ns() - before_ns), 5e9, 1e8);
  files.close(handle);
  EXPECT_GOOD(store.list());
}

TEST_F(StoreTest, a_read_only_disk_is_listed_and_leased_from) {
  const Model model = make_model(3000, 1);
  {
    Store store = open();
    ASSERT_GOOD(push(store, model));
  }
  files.set_read_only(true);
  Store store = open();
  EXPECT_EQ(store.list().value().size(), 1u);
  EXPECT_GOOD(store.lease(model.info.sha256));
  EXPECT_GOOD(store.check(model.info.sha256, true));
  EXPECT_EQ(push(store, make_model(10, 2)).code(), Code::kFailed);
  const auto refused = store.remove(model.info.sha256);
  EXPECT_EQ(refused.code(), Code::kFailed);
  EXPECT_NE(text_of(refused).find("mount it writable"), std::string::npos) << text_of(refused);
  EXPECT_GOOD(store.lease(model.info.sha256));
}

TEST_F(StoreTest, a_read_only_copy_without_memory_of_its_check_is_checked_once_a_process) {
  const Model model = make_model(3000, 1);
  {
    Store store = open();
    ASSERT_GOOD(push(store, model));
    files.advance_ns(kHourNs);
    files.put(model.info.sha256 + "/data", model.bytes);  // other times
  }
  files.set_read_only(true);
  Store store = open();
  EXPECT_EQ(store.list().value().at(0).state, EntryState::kUnchecked);
  EXPECT_EQ(store.lease(model.info.sha256).code(), Code::kNotReady);
  EXPECT_GOOD(store.check(model.info.sha256, false));
  EXPECT_GOOD(store.lease(model.info.sha256));
  EXPECT_EQ(store.list().value().at(0).state, EntryState::kPublished);
}

TEST_F(StoreTest, damaged_text_makes_a_damaged_entry_that_can_be_removed_or_replaced) {
  Store store = open();
  const Model model = make_model(3000, 1), other = make_model(2000, 2);
  ASSERT_GOOD(push(store, model));
  ASSERT_GOOD(push(store, other));
  files.put(model.info.sha256 + "/info.json", "{}");
  files.put(other.info.sha256 + "/data", "short");
  const auto entries = store.list().value();
  ASSERT_EQ(entries.size(), 2u);
  for (const Entry& entry : entries) EXPECT_EQ(entry.state, EntryState::kDamaged);
  EXPECT_FALSE(store.lease(model.info.sha256));
  EXPECT_FALSE(store.lease(other.info.sha256));
  EXPECT_EQ(store.prune(0).code(), Code::kNotFound);
  ASSERT_GOOD(push(store, model));
  EXPECT_GOOD(store.lease(model.info.sha256));
  EXPECT_GOOD(store.remove(other.info.sha256));
  EXPECT_EQ(store.list().value().size(), 1u);
}

TEST_F(StoreTest, another_chunk_size_begins_a_partial_anew) {
  const Model model = make_model(5000, 1);
  {
    Store store = open();
    auto upload = store.begin_upload(model.info);
    ASSERT_GOOD(upload);
    ASSERT_GOOD(send(upload.value(), model.bytes, 4000));
  }
  limits.chunk_bytes = 512;
  Store store = open();
  EXPECT_EQ(store.begin_upload(model.info).value().next_offset(), 0u);
  EXPECT_GOOD(push(store, model));
}

}  // namespace
}  // namespace outrider::store
