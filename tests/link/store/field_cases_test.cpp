// Field cases of the group provisioning and storage, as docs/reference/field-cases.md lists them.
#include <cerrno>

#include "link/store/memory_files.h"
#include "link/store/store_fixture.h"

namespace outrider::store {
namespace {

struct FieldCase : ::testing::Test {
  MemoryFiles files;
  Limits limits = small_limits();
  Store open() { return std::move(Store::open(files, limits).value()); }
};

void expect_text(const Error& error, const std::string& part) {
  EXPECT_NE(error.message().find(part), std::string::npos) << error.message();
}

// FC-42: resume gone wrong.
TEST_F(FieldCase, FC42_an_upload_cut_anywhere_gives_the_same_bytes) {
  const Model model = make_model(4096, 1);
  for (const size_t cut : {size_t{0}, size_t{1}, size_t{2048}, size_t{4095}}) {
    MemoryFiles disk;
    auto store = Store::open(disk, limits);
    ASSERT_GOOD(store);
    {
      auto upload = store.value().begin_upload(model.info);
      ASSERT_GOOD(upload);
      ASSERT_GOOD(send(upload.value(), model.bytes, cut));
    }
    EXPECT_EQ(store.value().lease(model.info.sha256).code(), Code::kNotFound);
    ASSERT_GOOD(push(store.value(), model));
    EXPECT_EQ(disk.content(model.info.sha256 + "/data"), model.bytes);
  }
}

TEST_F(FieldCase, FC42_a_resume_with_other_content_of_equal_size_is_found_and_deleted) {
  Store store = open();
  const Model model = make_model(4096, 1), other = make_model(4096, 2);
  {
    auto upload = store.begin_upload(model.info);
    ASSERT_GOOD(upload);
    ASSERT_GOOD(send(upload.value(), model.bytes, 2048));
  }
  auto upload = store.begin_upload(model.info);
  ASSERT_GOOD(upload);
  ASSERT_GOOD(send(upload.value(), other.bytes, 4096));
  const auto finished = upload.value().finish();
  EXPECT_EQ(finished.code(), Code::kNotFound);
  expect_text(finished.error(), "wanted " + model.info.sha256);
  EXPECT_TRUE(store.list().value().empty());
  EXPECT_GOOD(push(store, model));
}

TEST_F(FieldCase, FC42_another_size_for_the_same_digest_begins_at_zero) {
  Store store = open();
  const Model model = make_model(4096, 1);
  Model wrong = model;
  wrong.info.n_bytes = 5000;
  {
    auto upload = store.begin_upload(wrong.info);
    ASSERT_GOOD(upload);
    ASSERT_GOOD(send(upload.value(), model.bytes, 3000));
  }
  auto upload = store.begin_upload(model.info);
  ASSERT_GOOD(upload);
  EXPECT_EQ(upload.value().next_offset(), 0u);
  ASSERT_GOOD(send(upload.value(), model.bytes, 4096));
  ASSERT_GOOD(upload.value().finish());
  const auto claimed = store.begin_upload(wrong.info);
  EXPECT_EQ(claimed.code(), Code::kInvalid);
  expect_text(claimed.error(), "has 4096 bytes, not the declared 5000");
}

TEST_F(FieldCase, FC42_an_offset_beyond_the_end_changes_nothing) {
  Store store = open();
  const Model model = make_model(4096, 1);
  auto upload = store.begin_upload(model.info);
  ASSERT_GOOD(upload);
  for (const uint64_t offset : {uint64_t{1}, uint64_t{4096}, uint64_t{4097}, UINT64_MAX}) {
    EXPECT_EQ(upload.value().write(offset, bytes_of(model.bytes, 0, 100)).code(), Code::kInvalid);
    EXPECT_EQ(upload.value().next_offset(), 0u);
  }
}

TEST_F(FieldCase, FC42_two_uploaders_of_one_name_do_not_meet) {
  Store store = open();
  Model one = make_model(4096, 1), two = make_model(4096, 2);
  one.info.name = two.info.name = "policy";
  auto first = store.begin_upload(one.info), second = store.begin_upload(two.info);
  ASSERT_GOOD(first);
  ASSERT_GOOD(second);
  for (size_t at = 0; at < 4096; at += 512) {
    ASSERT_GOOD(first.value().write(at, bytes_of(one.bytes, at, 512)));
    ASSERT_GOOD(second.value().write(at, bytes_of(two.bytes, at, 512)));
  }
  ASSERT_GOOD(second.value().finish());
  ASSERT_GOOD(first.value().finish());
  EXPECT_EQ(files.content(one.info.sha256 + "/data"), one.bytes);
  EXPECT_EQ(files.content(two.info.sha256 + "/data"), two.bytes);
}

// FC-43: a hash check that does not check.
TEST_F(FieldCase, FC43_a_wrong_hash_names_both_and_activates_nothing) {
  Store store = open();
  Model model = make_model(4096, 1);
  const std::string actual = model.info.sha256;
  model.info.sha256[7] = model.info.sha256[7] == 'a' ? 'b' : 'a';
  const auto refused = push(store, model);
  EXPECT_EQ(refused.code(), Code::kNotFound);
  expect_text(refused.error(), "is " + actual);
  expect_text(refused.error(), "wanted " + model.info.sha256);
  expect_text(refused.error(), "deleted");
  EXPECT_TRUE(store.list().value().empty());
  EXPECT_EQ(files.used_bytes(), 0u);
}

TEST_F(FieldCase, FC43_an_empty_truncated_or_upper_case_hash_is_refused) {
  Store store = open();
  const Model model = make_model(4096, 1);
  std::string upper = model.info.sha256;
  for (char& c : upper) c = static_cast<char>(std::toupper(c));
  for (const std::string& hash : {std::string(), model.info.sha256.substr(0, 63),
                                  model.info.sha256 + "0", upper, std::string(64, 'g')}) {
    EntryInfo info = model.info;
    info.sha256 = hash;
    const auto begun = store.begin_upload(info);
    EXPECT_EQ(begun.code(), Code::kInvalid) << hash;
    expect_text(begun.error(), "wanted 64 lower-case hex digits");
    EXPECT_EQ(store.lease(hash).code(), Code::kInvalid);
    EXPECT_EQ(store.check(hash, false).code(), Code::kInvalid);
    EXPECT_EQ(store.remove(hash).code(), Code::kInvalid);
  }
}

TEST_F(FieldCase, FC43_a_file_changed_after_its_check_is_not_used) {
  Store store = open();
  const Model model = make_model(4096, 1);
  ASSERT_GOOD(push(store, model));
  files.flip_byte(model.info.sha256 + "/data", 1234, false);
  EXPECT_EQ(store.lease(model.info.sha256).code(), Code::kNotReady);
  EXPECT_EQ(store.list().value().at(0).state, EntryState::kUnchecked);
  const auto checked = store.check(model.info.sha256, false);
  EXPECT_EQ(checked.code(), Code::kNotFound);
  expect_text(checked.error(), "push it again");
  EXPECT_FALSE(store.lease(model.info.sha256));
  EXPECT_FALSE(open().lease(model.info.sha256));  // another process too
  ASSERT_GOOD(push(store, model));
  EXPECT_GOOD(store.lease(model.info.sha256));
  EXPECT_EQ(files.content(model.info.sha256 + "/data"), model.bytes);
}

// One changed byte, wherever it lies: ends of the file, both sides of a chunk's border, of a
// journal flush, of a sender's piece, and in the short chunk at the end.
constexpr size_t kWholeBytes = 4 * 1024 + 300;
constexpr size_t kPositions[] = {0,
                                 1,
                                 511,
                                 512,
                                 699,
                                 700,
                                 1023,
                                 1024,
                                 1025,
                                 2047,
                                 2048,
                                 3071,
                                 4095,
                                 kWholeBytes - 300,
                                 kWholeBytes - 2,
                                 kWholeBytes - 1};

TEST_F(FieldCase, FC43_a_byte_that_differs_anywhere_is_never_published) {
  const Model model = make_model(kWholeBytes, 1);
  for (const size_t at : kPositions) {
    MemoryFiles disk;
    auto store = Store::open(disk, limits);
    ASSERT_GOOD(store);
    Model sent = model;
    sent.bytes[at] = static_cast<char>(sent.bytes[at] ^ (1 << (at % 8)));
    const auto refused = push(store.value(), sent);
    EXPECT_EQ(refused.code(), Code::kNotFound) << at;
    expect_text(refused.error(), "is " + sha256_hex(bytes_of(sent.bytes)).value());
    expect_text(refused.error(), "wanted " + model.info.sha256);
    EXPECT_TRUE(store.value().list().value().empty()) << at;
    EXPECT_EQ(disk.used_bytes(), 0u) << at;
    EXPECT_FALSE(store.value().lease(model.info.sha256)) << at;
  }
}

TEST_F(FieldCase, FC43_a_file_cut_short_or_too_long_for_its_digest_is_never_published) {
  Store store = open();
  const Model model = make_model(kWholeBytes, 1);
  for (const size_t n_bytes : {size_t{1}, size_t{1024}, kWholeBytes - 1, kWholeBytes + 1}) {
    Model other = model;
    other.bytes = (model.bytes + "x").substr(0, n_bytes);
    other.info.n_bytes = n_bytes;
    const auto refused = push(store, other);
    EXPECT_EQ(refused.code(), Code::kNotFound) << n_bytes;
    expect_text(refused.error(), "wanted " + model.info.sha256);
    // Declared whole and ended early: the upload is not finished, and nothing is to be had.
    if (n_bytes > kWholeBytes) continue;
    auto upload = store.begin_upload(model.info);
    ASSERT_GOOD(upload);
    ASSERT_GOOD(send(upload.value(), model.bytes, n_bytes));
    EXPECT_FALSE(upload.value().finish()) << n_bytes;
    EXPECT_FALSE(store.lease(model.info.sha256)) << n_bytes;
  }
  EXPECT_GOOD(push(store, model));
}

// The digest of nothing is the one that careless tools compute of a file they could not read.
TEST_F(FieldCase, FC43_the_digest_of_an_empty_file_publishes_nothing) {
  Store store = open();
  const std::string of_nothing = sha256_hex({}).value();
  ASSERT_EQ(of_nothing, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  Model model = make_model(4096, 1);
  const std::string actual = model.info.sha256;
  model.info.sha256 = of_nothing;
  const auto refused = push(store, model);
  EXPECT_EQ(refused.code(), Code::kNotFound);
  expect_text(refused.error(), "is " + actual);
  model.info.n_bytes = 0;
  EXPECT_EQ(store.begin_upload(model.info).code(), Code::kInvalid) << "an empty file is no model";
  EXPECT_FALSE(store.lease(of_nothing));
  EXPECT_TRUE(store.list().value().empty());
}

TEST_F(FieldCase, FC43_a_published_file_that_is_altered_anyhow_is_not_used) {
  const Model model = make_model(kWholeBytes, 1), other = make_model(kWholeBytes, 2);
  const std::string data = model.info.sha256 + "/data";
  std::vector<std::string> altered = {"", model.bytes.substr(0, 1024),
                                      model.bytes.substr(0, kWholeBytes - 1), model.bytes + "x",
                                      other.bytes};
  for (const size_t at : kPositions) {
    altered.push_back(model.bytes);
    altered.back()[at] = static_cast<char>(altered.back()[at] ^ 0x80);
  }
  for (const std::string& bytes : altered) {
    MemoryFiles disk;
    auto store = Store::open(disk, limits);
    ASSERT_GOOD(store);
    ASSERT_GOOD(push(store.value(), model));
    EXPECT_GOOD(store.value().lease(model.info.sha256));
    disk.put(data, bytes);
    EXPECT_FALSE(store.value().lease(model.info.sha256)) << bytes.size();
    const auto checked = store.value().check(model.info.sha256, false);
    ASSERT_FALSE(checked) << bytes.size();
    expect_text(checked.error(), "push it again");
    EXPECT_FALSE(Store::open(disk, limits).value().lease(model.info.sha256)) << bytes.size();
    EXPECT_GOOD(push(store.value(), model));
    EXPECT_EQ(disk.content(data), model.bytes);
    EXPECT_GOOD(store.value().lease(model.info.sha256));
  }
}

TEST_F(FieldCase, FC43_bytes_that_rot_behind_unchanged_times_are_found_by_the_deep_check) {
  Store store = open();
  const Model model = make_model(4096, 1);
  ASSERT_GOOD(push(store, model));
  files.flip_byte(model.info.sha256 + "/data", 1234, true);
  EXPECT_GOOD(store.check(model.info.sha256, false));
  EXPECT_EQ(store.check(model.info.sha256, true).code(), Code::kNotFound);
  EXPECT_FALSE(store.lease(model.info.sha256));
  EXPECT_FALSE(open().lease(model.info.sha256));
  EXPECT_GOOD(push(store, model));
  EXPECT_GOOD(store.lease(model.info.sha256));
}

TEST_F(FieldCase, FC43_touched_but_equal_bytes_are_read_once_and_used) {
  Store store = open();
  const Model model = make_model(4096, 1);
  ASSERT_GOOD(push(store, model));
  files.put(model.info.sha256 + "/data", model.bytes);
  EXPECT_EQ(store.lease(model.info.sha256).code(), Code::kNotReady);
  int n_reads = 0;
  const OnProgress count = [&](const Progress&) { return ++n_reads > 0; };
  EXPECT_GOOD(store.check(model.info.sha256, false, count));
  EXPECT_EQ(n_reads, 1);
  EXPECT_GOOD(store.check(model.info.sha256, false, count));
  EXPECT_EQ(n_reads, 1);
  EXPECT_GOOD(open().lease(model.info.sha256));
}

TEST_F(FieldCase, FC43_a_rename_that_fails_publishes_nothing_and_says_so) {
  const Model model = make_model(1000, 1);
  uint64_t n_failed = 0;
  for (uint64_t at = 0; at < 200; ++at) {
    MemoryFiles disk;
    disk.fail_at(at, EXDEV);
    auto store = Store::open(disk, limits);
    if (disk.failed_name() == "rename") ++n_failed;
    if (!store) continue;
    const auto pushed = push(store.value(), model);
    if (disk.failed_name() != "rename") continue;
    ++n_failed;
    EXPECT_EQ(pushed.code(), Code::kFailed);
    EXPECT_EQ(store.value().lease(model.info.sha256).code(), Code::kNotFound);
    EXPECT_GOOD(push(store.value(), model));
  }
  EXPECT_EQ(n_failed, 3u);  // of the identity, of the check, of the publication
}

// FC-44: the disk is full.
TEST_F(FieldCase, FC44_space_for_half_is_refused_before_a_byte_is_taken) {
  files.set_capacity(limits.reserve_bytes + 2048);
  Store store = open();
  const Model model = make_model(4096, 1);
  const auto refused = push(store, model);
  EXPECT_EQ(refused.code(), Code::kNoMemory);
  expect_text(refused.error(), "needs 4096 more bytes and a reserve of 4096, 6144 are free");
  EXPECT_TRUE(store.list().value().empty());
  files.set_capacity(limits.reserve_bytes + 4096);
  EXPECT_EQ(store.begin_upload(make_model(4097, 2).info).code(), Code::kNoMemory);
  EXPECT_GOOD(push(store, model));
}

TEST_F(FieldCase, FC44_a_partial_counts_what_it_has_taken_already) {
  files.set_capacity(limits.reserve_bytes + 5000);
  Store store = open();
  const Model model = make_model(4096, 1);
  {
    auto upload = store.begin_upload(model.info);
    ASSERT_GOOD(upload);
    ASSERT_GOOD(send(upload.value(), model.bytes, 3000));
    // The room of an upload under way is taken: a second one does not begin to fail late.
    EXPECT_EQ(store.begin_upload(make_model(2000, 2).info).code(), Code::kNoMemory);
  }
  EXPECT_GOOD(push(store, model));
}

TEST_F(FieldCase, FC44_a_disk_that_fills_up_during_the_upload_gets_its_room_back) {
  limits.reserve_bytes = 0;
  Store store = open();
  const Model model = make_model(8192, 1), small = make_model(1000, 2);
  auto upload = store.begin_upload(model.info);
  ASSERT_GOOD(upload);
  ASSERT_GOOD(send(upload.value(), model.bytes, 2000));
  const uint64_t at = files.n_operations();
  files.fail_at(at, ENOSPC);
  const auto refused = send(upload.value(), model.bytes, 8192);
  EXPECT_EQ(refused.code(), Code::kNoMemory);
  expect_text(refused.error(), "2000 of 8192 bytes were here");
  expect_text(refused.error(), "make room and push it again");
  EXPECT_EQ(upload.value().write(2000, bytes_of(model.bytes, 2000, 1)).code(), Code::kInvalid);
  EXPECT_EQ(upload.value().finish().code(), Code::kInvalid);
  EXPECT_EQ(files.used_bytes(), 0u);
  EXPECT_TRUE(store.list().value().empty());
  EXPECT_GOOD(push(store, small));
  EXPECT_GOOD(push(store, model));
}

TEST_F(FieldCase, FC44_no_inodes_left) {
  Store store = open();
  files.set_free_inodes(3);
  const auto refused = push(store, make_model(100, 1));
  EXPECT_EQ(refused.code(), Code::kNoMemory);
  expect_text(refused.error(), "3 inodes are free");
  files.set_free_inodes(100);
  EXPECT_GOOD(push(store, make_model(100, 1)));
}

TEST_F(FieldCase, FC44_partials_can_be_listed_and_removed_on_a_full_disk) {
  limits.reserve_bytes = 0;
  files.set_capacity(6000);
  Store store = open();
  const Model model = make_model(5000, 1);
  {
    auto upload = store.begin_upload(model.info);
    ASSERT_GOOD(upload);
    ASSERT_GOOD(send(upload.value(), model.bytes, 3000));
  }
  files.set_capacity(files.used_bytes());
  const auto entries = store.list().value();
  ASSERT_EQ(entries.size(), 1u);
  EXPECT_EQ(entries[0].state, EntryState::kPartial);
  EXPECT_EQ(entries[0].have_bytes, 3000u);
  EXPECT_EQ(entries[0].info.n_bytes, 5000u);
  EXPECT_GOOD(store.remove(model.info.sha256));
  EXPECT_EQ(files.used_bytes(), 0u);
}

}  // namespace
}  // namespace outrider::store
