// The same on the real disk: two processes, a killed one, links, permissions, a full disk.
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <thread>

#include "link/store/posix_files.h"
#include "link/store/store_fixture.h"
#include "support/shared_data.h"

namespace outrider::store {
namespace {

namespace fs = std::filesystem;

struct PosixStore : ::testing::Test {
  test::TempDir temp;
  Limits limits = small_limits();
  std::string folder = temp.file("models");

  Store open() {
    auto store = Store::open(folder, limits);
    EXPECT_GOOD(store);
    return std::move(store.value());
  }
  static std::string read(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path, std::ios::binary).rdbuf();
    return text.str();
  }
};

// Runs in a child, which ends with the number returned, without destructors.
pid_t in_child(const std::function<int()>& work) {
  const pid_t child = fork();
  if (child == 0) _exit(work());
  return child;
}

int exit_of(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST_F(PosixStore, a_file_system_that_is_read_only_is_named_as_the_cause) {
  const int status = exit_of(in_child([&] {
    if (unshare(CLONE_NEWNS) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return 77;
    if (mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount("none", temp.path().c_str(), "tmpfs", MS_RDONLY, nullptr) != 0)
      return 77;
    const auto store = Store::open(folder + "/below", limits);
    const std::string text(store.error().message());
    std::fprintf(stderr, "%s\n", text.c_str());
    return text.find(": Read-only file system") != std::string::npos ? 0 : 1;
  }));
  if (status == 77) GTEST_SKIP() << "file systems cannot be mounted here";
  EXPECT_EQ(status, 0);
}

TEST_F(PosixStore, publishes_leases_checks_and_removes) {
  const Model model = make_model(5000, 1);
  Store store = open();
  ASSERT_GOOD(push(store, model));
  {
    auto lease = store.lease(model.info.sha256);
    ASSERT_GOOD(lease);
    EXPECT_EQ(read(lease.value().path()), model.bytes);
    EXPECT_EQ(store.remove(model.info.sha256).code(), Code::kNotReady);
  }
  EXPECT_GOOD(store.check(model.info.sha256, true));
  EXPECT_GOOD(open().lease(model.info.sha256));  // nothing is read again
  EXPECT_GOOD(store.remove(model.info.sha256));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), fs::directory_iterator()), 1);  // lock
}

TEST_F(PosixStore, a_killed_uploader_leaves_what_was_safe_and_the_next_goes_on) {
  const Model model = make_model(200'000, 1);
  uint64_t last = 0;
  for (const size_t cut : {1, 1024, 1500, 60'000, 150'001, 199'999}) {
    const pid_t child = in_child([&] {
      auto store = Store::open(folder, limits);
      if (!store) return 1;
      auto upload = store.value().begin_upload(model.info);
      if (!upload || !send(upload.value(), model.bytes, cut)) return 2;
      raise(SIGKILL);
      return 3;
    });
    EXPECT_EQ(exit_of(child), -1);
    Store store = open();
    auto upload = store.begin_upload(model.info);
    ASSERT_GOOD(upload);
    EXPECT_GE(upload.value().next_offset(), last);
    EXPECT_LE(upload.value().next_offset(), cut);
    EXPECT_LT(cut - upload.value().next_offset(), limits.sync_bytes + limits.chunk_bytes);
    last = upload.value().next_offset();
  }
  Store store = open();
  ASSERT_GOOD(push(store, model));
  EXPECT_EQ(read(store.lease(model.info.sha256).value().path()), model.bytes);
}

TEST_F(PosixStore, processes_that_push_the_same_and_remove_leave_only_whole_files) {
  std::vector<Model> models;
  for (uint64_t i = 0; i < 4; ++i) models.push_back(make_model(3000 + i, i));
  std::vector<pid_t> children;
  for (int number = 0; number < 4; ++number) {
    children.push_back(in_child([&] {
      auto store = Store::open(folder, limits);
      if (!store) return 1;
      std::mt19937 rng(static_cast<unsigned>(number));
      for (int i = 0; i < 30; ++i) {
        const Model& model = models[rng() % models.size()];
        const Code code = rng() % 3 == 0 ? store.value().remove(model.info.sha256).code()
                                         : push(store.value(), model, 2000).code();
        if (code != Code::kOk && code != Code::kNotReady && code != Code::kNotFound) return 2;
        auto lease = store.value().lease(model.info.sha256);
        if (lease && read(lease.value().path()) != model.bytes) return 3;
      }
      return 0;
    }));
  }
  for (const pid_t child : children) EXPECT_EQ(exit_of(child), 0);
  Store store = open();
  for (const Model& model : models) ASSERT_GOOD(push(store, model));
  EXPECT_EQ(store.list().value().size(), 4u);
}

TEST_F(PosixStore, threads_that_push_the_same_agree) {
  const Model model = make_model(50'000, 1);
  Store store = open();
  std::vector<std::thread> threads;
  std::vector<std::string> texts(4);
  for (std::string& text : texts) {
    threads.emplace_back([&] {
      for (int i = 0; i < 2000; ++i) {
        const auto pushed = push(store, model, 5000);
        text = text_of(pushed);
        if (pushed || pushed.code() != Code::kNotReady) return;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& text : texts) EXPECT_EQ(text, "ok");
  EXPECT_EQ(read(store.lease(model.info.sha256).value().path()), model.bytes);
}

TEST_F(PosixStore, a_lease_of_a_killed_process_is_gone_with_it) {
  const Model model = make_model(3000, 1);
  Store store = open();
  ASSERT_GOOD(push(store, model));
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = in_child([&] {
    auto other = Store::open(folder, limits);
    auto lease = other.value().lease(model.info.sha256);
    if (write(ready[1], "x", 1) != 1) return 1;
    pause();
    return 0;
  });
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  EXPECT_EQ(store.remove(model.info.sha256).code(), Code::kNotReady);
  kill(child, SIGKILL);
  exit_of(child);
  EXPECT_GOOD(store.remove(model.info.sha256));
  close(ready[0]);
  close(ready[1]);
}

TEST_F(PosixStore, names_are_never_paths) {
  Store store = open();
  uint64_t seed = 1;
  for (const char* name : {"../../outside", "/etc/passwd", "..", ".", "a/b", "lock", "%s%n", "-rf",
                           "\xE2\x80\xAE"
                           "elif"}) {
    Model model = make_model(100, ++seed);
    model.info.name = name;
    ASSERT_GOOD(push(store, model)) << name;
    EXPECT_EQ(store.find(name).value().info.sha256, model.info.sha256);
  }
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string found = entry.path().filename().string();
    EXPECT_TRUE(found == "lock" || is_sha256(found)) << found;
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(temp.path()), fs::directory_iterator()), 1);
}

TEST_F(PosixStore, links_are_not_followed) {
  Store store = open();
  const Model model = make_model(3000, 1);
  const std::string outside = temp.file("outside");
  fs::create_directory(outside);
  std::ofstream(outside + "/data") << "precious";
  for (const char* suffix : {"", ".part"}) {
    const std::string link = folder + "/" + model.info.sha256 + suffix;
    fs::create_directory_symlink(outside, link);
    EXPECT_EQ(push(store, model).code(), Code::kInvalid);
    EXPECT_FALSE(store.lease(model.info.sha256));
    EXPECT_EQ(store.remove(model.info.sha256).code(), Code::kNotFound);
    EXPECT_TRUE(store.list().value().empty());
    fs::remove(link);
  }
  // A link in place of one file of an entry.
  fs::create_directory(folder + "/" + model.info.sha256 + ".part");
  fs::create_symlink(outside + "/data", folder + "/" + model.info.sha256 + ".part/data");
  (void)push(store, model);
  EXPECT_EQ(read(outside + "/data"), "precious");
  (void)store.remove(model.info.sha256);
  EXPECT_EQ(read(outside + "/data"), "precious");
  EXPECT_GOOD(push(store, model));
}

TEST_F(PosixStore, what_is_not_its_own_is_left_alone) {
  Store store = open();
  std::ofstream(folder + "/readme.txt") << "notes";
  fs::create_directory(folder + "/lost+found");
  const std::string file = folder + "/" + std::string(64, 'a');
  std::ofstream(file) << "a file where a folder is expected";
  EXPECT_GOOD(push(store, make_model(100, 1)));
  EXPECT_EQ(store.list().value().size(), 1u);
  EXPECT_GOOD(store.prune(0));
  EXPECT_GOOD(open().list());
  EXPECT_EQ(read(folder + "/readme.txt"), "notes");
  EXPECT_TRUE(fs::exists(file));
  EXPECT_TRUE(fs::exists(folder + "/lost+found"));
}

TEST_F(PosixStore, pipes_in_place_of_files_hang_nobody) {
  Store store = open();
  const Model model = make_model(3000, 1);
  const std::string part = folder + "/" + model.info.sha256 + ".part";
  fs::create_directory(part);
  for (const char* name : {"/data", "/journal", "/info.json"})
    ASSERT_EQ(mkfifo((part + name).c_str(), 0600), 0);
  EXPECT_GOOD(push(store, model));  // what has no identity is cleaned away
}

TEST_F(PosixStore, a_folder_that_others_may_write_is_refused) {
  open();
  for (const mode_t mode : {0770, 0707, 0777}) {
    chmod(folder.c_str(), mode);
    const auto refused = Store::open(folder, limits);
    EXPECT_EQ(refused.code(), Code::kInvalid);
    EXPECT_NE(text_of(refused).find("chmod go-w"), std::string::npos);
  }
  chmod(folder.c_str(), 0755);
  EXPECT_GOOD(Store::open(folder, limits));
}

TEST_F(PosixStore, a_folder_that_cannot_be_made_says_why) {
  EXPECT_EQ(Store::open("", limits).code(), Code::kInvalid);
  std::ofstream(temp.file("plain")) << "x";
  const auto refused = Store::open(temp.file("plain") + "/models", limits);
  EXPECT_EQ(refused.code(), Code::kNotFound);
  EXPECT_NE(text_of(refused).find("Not a directory"), std::string::npos) << text_of(refused);
}

TEST_F(PosixStore, its_folders_and_files_are_the_owners_alone) {
  Store store = open();
  const Model model = make_model(100, 1);
  ASSERT_GOOD(push(store, model));
  for (const std::string& path : {folder, folder + "/lock", folder + "/" + model.info.sha256,
                                  folder + "/" + model.info.sha256 + "/data"}) {
    struct stat found {};
    ASSERT_EQ(stat(path.c_str(), &found), 0);
    EXPECT_EQ(found.st_mode & 077, 0u) << path;
  }
}

// The limit on the size of a file would end the process by a signal.
TEST_F(PosixStore, FC44_a_limit_of_the_process_is_a_refusal) {
  const Model model = make_model(5000, 1);
  const pid_t child = in_child([&] {
    const rlimit limit{3000, 3000};
    setrlimit(RLIMIT_FSIZE, &limit);
    auto store = Store::open(folder, limits);
    const Code code = push(store.value(), model).code();
    return code == Code::kNoMemory && store.value().list().value().empty() ? 0 : 1;
  });
  EXPECT_EQ(exit_of(child), 0);
  Store store = open();
  EXPECT_GOOD(push(store, model));
}

// A small tmpfs, where this user may mount one.
TEST_F(PosixStore, FC44_a_full_disk_is_refused_early_and_stays_usable) {
  fs::create_directory(folder);
  struct Mounted {
    std::string folder;
    ~Mounted() { EXPECT_EQ(std::system(("umount " + folder).c_str()), 0); }
  };
  const std::string mount = "mount -t tmpfs -o size=64k,mode=700 tmpfs " + folder + " 2>/dev/null";
  if (std::system(mount.c_str()) != 0) GTEST_SKIP() << "mounting is not allowed here";
  const Mounted mounted{folder};
  {
    limits.reserve_bytes = 0;
    Store store = open();
    const Model large = make_model(100'000, 1), small = make_model(10'000, 2);
    EXPECT_EQ(push(store, large).code(), Code::kNoMemory);
    ASSERT_GOOD(push(store, small));
    {  // fills up from outside while it is written
      auto upload = store.begin_upload(make_model(20'000, 3).info);
      ASSERT_GOOD(upload);
      std::ofstream(folder + "/filler") << std::string(60'000, 'x');
      const Model model = make_model(20'000, 3);
      const auto sent = send(upload.value(), model.bytes, 20'000);
      if (sent) {
        EXPECT_GOOD(upload.value().finish());  // its room had been taken before
      } else {
        EXPECT_EQ(sent.code(), Code::kNoMemory);
      }
    }
    EXPECT_GOOD(store.lease(small.info.sha256));
    EXPECT_GOOD(store.list());
    fs::remove(folder + "/filler");
    EXPECT_GOOD(push(store, make_model(20'000, 3)));
    EXPECT_GOOD(store.remove(small.info.sha256));
  }
}

TEST_F(PosixStore, leaves_no_descriptor_open) {
  const auto n_open = [] {
    return std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator());
  };
  const auto before = n_open();
  {
    Store store = open();
    const Model model = make_model(5000, 1);
    ASSERT_GOOD(push(store, model));
    auto lease = store.lease(model.info.sha256);
    (void)store.check(model.info.sha256, true);
    (void)store.remove(model.info.sha256);
    auto upload = store.begin_upload(make_model(100, 2).info);
  }
  EXPECT_EQ(n_open(), before);
}

}  // namespace
}  // namespace outrider::store
