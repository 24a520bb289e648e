// cache_dir: a warm open gives the same bits, damage is never believed, and no open fails for it.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/json.h"
#include "outrider/ext/status.h"
#include "providers/pi_fixture.h"
#include "support/hot_counter.h"
#include "support/shared_data.h"

namespace outrider::test {
namespace {

namespace fs = std::filesystem;

struct Variant {
  PiFamily family;
  DType dtype;
  const char* precision;
};

std::string described(const PiProvider& provider, const char* key) {
  const void* table = nullptr;
  EXPECT_EQ(provider->query_extension(provider.get(), OUTRIDER_EXT_STATUS, 1, &table), 0);
  const auto* status = static_cast<const outrider_status_v1*>(table);
  const auto json = Json::parse(status->describe(status->self));
  EXPECT_TRUE(json) << status->describe(status->self);
  const Json* value = json ? json.value().find(key) : nullptr;
  EXPECT_NE(value, nullptr) << key;
  return value == nullptr ? "" : value->text();
}

// Files that have just been written are not trusted by their times.
void let_files_settle() {
  std::this_thread::sleep_for(std::chrono::milliseconds(150));
}

class Cache : public testing::TestWithParam<Variant> {
 protected:
  Cache() : pair_(tiny_pair(GetParam().family, GetParam().dtype)), request_(make_request(pair_)) {
    let_files_settle();
  }
  std::string config() const { return config_for(pair_, temp_.file("cache")); }
  static std::string config_for(const PiPair& pair, const std::string& dir) {
    std::string extra = std::string(R"("precision":")") + GetParam().precision + "\"";
    if (!dir.empty()) extra += R"(,"cache_dir":")" + dir + "\"";
    return config_json({.pair = pair, .extra = extra});
  }
  // Opens, expects the words in the status and the bits of an open without cache.
  void expect_open(const std::string& status, const std::string& digests = "remembered") {
    const PiProvider provider(config());
    ASSERT_TRUE(provider.ok()) << provider.open_code();
    EXPECT_NE(described(provider, "cache").find(status), std::string::npos)
        << described(provider, "cache");
    if (status == "hit" || status == "miss: written") {
      EXPECT_EQ(described(provider, "cache"), status);
    }
    EXPECT_EQ(described(provider, "digests"), digests);
    EXPECT_EQ(run_request(provider, request_), wanted());
  }
  const std::vector<float>& wanted() {
    if (wanted_.empty()) {
      const PiProvider provider(config_for(pair_, ""));
      EXPECT_EQ(described(provider, "cache"), "off");
      wanted_ = run_request(provider, request_);
    }
    return wanted_;
  }
  std::string packed_file() const { return file_like("packed-"); }
  std::string file_like(const std::string& start) const {
    for (const auto& entry : fs::directory_iterator(temp_.file("cache")))
      if (entry.path().filename().string().rfind(start, 0) == 0) return entry.path().string();
    ADD_FAILURE() << "no " << start;
    return {};
  }
  static void flip(const std::string& path, uint64_t at) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(at));
    const char old = static_cast<char>(file.get());
    file.seekp(static_cast<std::streamoff>(at));
    file.put(static_cast<char>(old ^ 0x10));
  }

  const PiPair& pair_;
  Request request_;
  TempDir temp_;
  std::vector<float> wanted_;
};

INSTANTIATE_TEST_SUITE_P(Models, Cache,
                         testing::Values(Variant{PiFamily::kPi0, DType::kF32, "f32"},
                                         Variant{PiFamily::kPi05, DType::kF32, "f32"},
                                         Variant{PiFamily::kPi05, DType::kBf16, "bf16"},
                                         Variant{PiFamily::kPi0, DType::kF16, "stored"},
                                         Variant{PiFamily::kPi0, DType::kBf16, "int8"},
                                         Variant{PiFamily::kPi05, DType::kQ8_0, "stored"},
                                         Variant{PiFamily::kPi05, DType::kQ8_0, "auto"}),
                         [](const auto& p) {
                           return std::string(p.param.family == PiFamily::kPi0 ? "pi0_" : "pi05_") +
                                  std::string(dtype_info(p.param.dtype).name) + "_" +
                                  p.param.precision;
                         });

TEST_P(Cache, is_written_once_and_hit_from_then_on_with_the_same_bits) {
  wanted();
  expect_open("miss: written", "computed");
  expect_open("hit");
  expect_open("hit");
  EXPECT_EQ(std::distance(fs::directory_iterator(temp_.file("cache")), fs::directory_iterator()), 4)
      << "two digests, what the weights are, and the packed weights";
}

TEST_P(Cache, damage_anywhere_is_found_reported_and_repaired) {
  wanted();
  expect_open("miss: written", "computed");
  const std::string path = packed_file();
  const uint64_t size = fs::file_size(path);
  for (const uint64_t at : {uint64_t{0}, uint64_t{9}, uint64_t{70}, uint64_t{4000}, uint64_t{4096},
                            size / 2, size / 3 * 2, size - 1}) {
    flip(path, at);
    expect_open("miss: written; the one before was refused: it is ");
    expect_open("hit");
  }
}

TEST_P(Cache, cut_empty_foreign_and_borrowed_files_are_rebuilt) {
  wanted();
  expect_open("miss: written", "computed");
  const std::string path = packed_file();
  const uint64_t size = fs::file_size(path);
  for (const uint64_t keep : {uint64_t{0}, uint64_t{63}, uint64_t{5000}, size - 1}) {
    fs::resize_file(path, keep);
    expect_open("refused: it is damaged");
  }
  chmod(path.c_str(), 0666);
  expect_open("refused: others may write it");
  expect_open("hit");
  // The packed weights of another model under this model's name.
  const PiPair& other = tiny_pair(GetParam().family, DType::kQ4_0);
  let_files_settle();
  const TempDir elsewhere;
  { const PiProvider provider(config_for(other, elsewhere.path())); }
  for (const auto& entry : fs::directory_iterator(elsewhere.path())) {
    if (entry.path().filename().string().rfind("packed-", 0) == 0)
      fs::copy_file(entry.path(), path, fs::copy_options::overwrite_existing);
  }
  expect_open("refused: it was made of other files");
  expect_open("hit");
}

TEST_P(Cache, a_damaged_digest_is_computed_again) {
  wanted();
  expect_open("miss: written", "computed");
  const std::string path = file_like("digest-");
  for (uint64_t at = 0; at < fs::file_size(path); at += 13) {
    flip(path, at);
    expect_open("hit", "computed");
    expect_open("hit");
  }
}

TEST_P(Cache, a_folder_that_cannot_be_used_fails_no_open) {
  wanted();
  std::ofstream(temp_.file("cache")) << "a file where the folder should be";
  expect_open("miss: not written, the folder cannot be", "computed");
}

TEST_P(Cache, never_enters_the_identity) {
  const PiProvider off(config_for(pair_, ""));
  const uint64_t plain = off->exp->fingerprint;
  const std::string words = "miss: not written, the weights are shared";
  {
    const PiProvider shared(config());
    EXPECT_EQ(described(shared, "cache").rfind(words, 0), 0u) << described(shared, "cache");
    EXPECT_EQ(shared->exp->fingerprint, plain);
  }
}

TEST_P(Cache, the_identity_is_the_same_for_miss_and_hit) {
  uint64_t plain = 0;
  {
    const PiProvider off(config_for(pair_, ""));
    plain = off->exp->fingerprint;
  }
  for (const char* status : {"miss: written", "hit"}) {
    const PiProvider provider(config());
    EXPECT_EQ(described(provider, "cache"), status);
    EXPECT_EQ(provider->exp->fingerprint, plain) << status;
  }
}

TEST_P(Cache, a_changed_model_file_is_another_model) {
  PiPair copy = pair_;
  copy.policy = temp_.file("copy.gguf");
  fs::copy_file(pair_.policy, copy.policy);
  let_files_settle();
  const std::string config = config_for(copy, temp_.file("cache"));
  std::vector<float> before;
  uint64_t fingerprint = 0;
  for (const char* status : {"miss: written", "hit"}) {
    const PiProvider provider(config);
    EXPECT_EQ(described(provider, "cache"), status);
    before = run_request(provider, request_);
    fingerprint = provider->exp->fingerprint;
  }
  const auto time = fs::last_write_time(copy.policy);
  // A byte of the last tensor, and the old modification time put back: ctime still tells.
  flip(copy.policy, fs::file_size(copy.policy) - 64);
  fs::last_write_time(copy.policy, time);
  {
    const PiProvider provider(config);
    EXPECT_EQ(described(provider, "cache"),
              "miss: not written, a model file was changed a moment ago");
    EXPECT_EQ(described(provider, "digests"), "computed");
    EXPECT_NE(provider->exp->fingerprint, fingerprint);
  }
  let_files_settle();
  for (const char* status : {"miss: written", "hit"}) {
    const PiProvider provider(config);
    EXPECT_EQ(described(provider, "cache"), status);
    EXPECT_NE(provider->exp->fingerprint, fingerprint);
    const PiProvider plain(config_for(copy, ""));
    EXPECT_EQ(run_request(provider, request_), run_request(plain, request_));
  }
}

TEST_P(Cache, other_options_have_caches_of_their_own) {
  const auto with = [&](const std::string& extra, const std::string& dir) {
    return config_json({.pair = pair_,
                        .extra = R"("precision":")" + std::string(GetParam().precision) + "\"," +
                                 extra + (dir.empty() ? "" : R"(,"cache_dir":")" + dir + "\"")});
  };
  for (const char* extra : {R"("num_steps":3)", R"("num_steps":4)", R"("numerics":"jetson-pi")"}) {
    std::vector<float> plain;
    {
      const PiProvider provider(with(extra, ""));
      plain = run_request(provider, request_);
    }
    for (const char* status : {"miss: written", "hit"}) {
      const PiProvider provider(with(extra, temp_.file("cache")));
      EXPECT_EQ(described(provider, "cache"), status) << extra;
      EXPECT_EQ(run_request(provider, request_), plain) << extra;
    }
  }
}

TEST_P(Cache, many_processes_that_open_at_once_all_get_the_same_bits) {
  wanted();
  for (const char* round : {"cold", "warm"}) {
    std::vector<pid_t> children;
    for (int i = 0; i < 4; ++i) {
      const pid_t child = fork();
      ASSERT_GE(child, 0);
      if (child == 0) {
        const PiProvider provider(config());
        const bool same = provider.ok() && run_request(provider, request_) == wanted_;
        _exit(same ? 0 : 1);
      }
      children.push_back(child);
    }
    for (const pid_t child : children) {
      int status = -1;
      ASSERT_EQ(waitpid(child, &status, 0), child);
      EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << round;
    }
  }
  expect_open("hit");
}

// RssAnon in kilobytes.
int64_t anonymous_kb() {
  std::ifstream in("/proc/self/status");
  for (std::string word; in >> word;) {
    int64_t value = 0;
    if (word == "RssAnon:" && in >> value) return value;
  }
  return -1;
}

TEST_P(Cache, a_hit_holds_no_anonymous_copy_of_the_weights) {
  if (!hot_counter::available()) GTEST_SKIP() << "a sanitizer's own memory hides what is measured";
  expect_open("miss: written", "computed");
  const auto growth_kb = [&](const std::string& config) {
    const int64_t before = anonymous_kb();
    const PiProvider provider(config);
    return anonymous_kb() - before;
  };
  const auto packed_kb = static_cast<int64_t>(fs::file_size(packed_file()) / 1024);
  growth_kb(config());  // the allocator's own memory
  const int64_t packed = growth_kb(config_for(pair_, "")), mapped = growth_kb(config());
  EXPECT_LE(mapped, packed - packed_kb / 2) << packed_kb << " kB are packed";
}

}  // namespace
}  // namespace outrider::test
