// The program on both sides: outrider serve with a store, outrider link, outrider run.
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <random>

#include "../support/shared_data.h"
#include "cli/npy.h"
#include "cli/report/png.h"
#include "cli/scene.h"
#include "link/serve_process.h"
#include "link_support.h"
#include "support.h"

namespace outrider::cli_test {
namespace {

namespace fs = std::filesystem;

constexpr int kTinySide = 56;  // pictures of the tiny policy

struct Serve : link::here::ServeProcess {
  Serve(const std::string& config, uint16_t port, const std::vector<std::string>& more = {})
      : ServeProcess(words(config, port, more)) {}
  static std::vector<std::string> words(const std::string& config, uint16_t port,
                                        const std::vector<std::string>& more) {
    std::vector<std::string> all = {config, "--listen", tcp(port)};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
};

struct LinkProgram : ::testing::Test {
  Folder folder;
  const std::string config =
      write(folder.at("service.json"), "{\"store\": {\"folder\": \"kept\", \"reserve_mb\": 1}}");
  std::string random_file(size_t n_bytes, uint64_t seed) const {
    return write(folder.at("file" + std::to_string(seed) + ".bin"),
                 store::make_model(n_bytes, seed).bytes);
  }
};

std::string text_at(const Json& json, const char* key) {
  const Json* value = json.find(key);
  return value != nullptr && value->is_string() ? value->text() : "";
}

TEST_F(LinkProgram, push_models_and_remove_speak_json_and_words) {
  const Serve serve(config, 0);
  const std::string path = random_file(300'000, 1);
  const Outcome pushed = run({"link", "push", serve.endpoint(), path, "--json"});
  ASSERT_EQ(pushed.status, 0) << pushed.err;
  const Json report = document(pushed);
  const std::string sha256 = text_at(report, "model");
  ASSERT_EQ(sha256.size(), 64u);
  EXPECT_EQ(report.find("files")->items().at(0).find("sent_bytes")->integer(), 300'000);
  EXPECT_EQ(content(folder.at("kept/" + sha256 + "/data")), content(path));

  const Outcome listed = run({"link", "models", serve.endpoint(), "--json"});
  ASSERT_EQ(listed.status, 0) << listed.err;
  const Json list = document(listed);
  ASSERT_EQ(list.find("models")->items().size(), 1u);
  const Json& entry = list.find("models")->items()[0];
  EXPECT_EQ(text_at(entry, "sha256"), sha256);
  EXPECT_EQ(text_at(entry, "state"), "published");
  EXPECT_EQ(text_at(entry, "name"), "file1.bin");

  const Outcome words = run({"link", "models", serve.endpoint()});
  EXPECT_NE(words.out.find(sha256), std::string::npos) << words.out;
  EXPECT_EQ(run({"link", "remove", serve.endpoint(), sha256}).status, 0);
  const Outcome again = run({"link", "remove", serve.endpoint(), sha256, "--json"});
  EXPECT_EQ(again.status, 1) << again.err;
  EXPECT_EQ(document(again).find("error")->find("exit")->integer(), 1);
}

TEST_F(LinkProgram, statuses_tell_usage_refusal_and_link_apart) {
  const std::string path = random_file(1000, 2);
  EXPECT_EQ(run({"link", "pull", "tcp://127.0.0.1:1", path}).status, 2);
  EXPECT_EQ(run({"link", "push", "tcp://127.0.0.1:1"}).status, 2);
  EXPECT_EQ(run({"link", "models", "tcp://127.0.0.1:1", "more"}).status, 2);
  EXPECT_EQ(run({"link", "push", "ftp://127.0.0.1:1", path}).status, 2);
  EXPECT_EQ(run({"link", "push", "tcp://127.0.0.1:1", path + ".not"}).status, 2);
  EXPECT_EQ(run({"link", "push", "tcp://127.0.0.1:1", write(folder.at("empty"), "")}).status, 2);
  EXPECT_EQ(run({"link", "remove", "tcp://127.0.0.1:1", "12ab"}).status, 2);
  const Outcome nobody = run({"link", "push", "tcp://127.0.0.1:1", path, "--json"});
  EXPECT_EQ(nobody.status, 3) << nobody.err;
  EXPECT_EQ(document(nobody).find("error")->find("exit")->integer(), 3);
  EXPECT_EQ(run({"link", "models", "tcp://127.0.0.1:1"}).status, 3);
}

TEST_F(LinkProgram, a_host_powers_off_when_it_is_asked_and_only_where_that_was_said) {
  const std::string flag = folder.at("power-off");
  write(flag, "power off, asked by car: of an earlier run\n");
  {
    const Serve host(config, 0, {"--power-off-file", flag});
    EXPECT_FALSE(fs::exists(flag));  // an old wish is none
    const Outcome asked =
        run({"link", "power-off", host.endpoint(), "--reason", "low battery", "--json"});
    EXPECT_EQ(asked.status, 0) << asked.err;
    EXPECT_NE(document(asked).find("powers_off"), nullptr);
    EXPECT_NE(content(flag).find("low battery"), std::string::npos) << content(flag);
    fs::remove(flag);
    fs::create_directory(flag);  // the wish cannot be written: that is an answer, too
    EXPECT_EQ(run({"link", "power-off", host.endpoint()}).status, 1);
    fs::remove(flag);
    EXPECT_EQ(run({"link", "power-off", host.endpoint(), "more"}).status, 2);
  }
  const Serve host(config, 0);
  const Outcome refused = run({"link", "power-off", host.endpoint()});
  EXPECT_EQ(refused.status, 1) << refused.err;
  EXPECT_NE(refused.err.find("--power-off-file"), std::string::npos) << refused.err;
  EXPECT_FALSE(fs::exists(flag));
  EXPECT_EQ(run({"link", "power-off", "tcp://127.0.0.1:1"}).status, 3);
}

TEST_F(LinkProgram, R39_a_file_with_another_digest_is_not_pushed) {
  const Serve host(config, 0);
  const std::string file = random_file(1000, 5);
  const std::string digest = store::make_model(1000, 5).info.sha256;
  const std::string kept = folder.at("kept/" + digest + "/data");
  const Outcome refused =
      run({"link", "push", host.endpoint(), file, "--sha256", std::string(64, 'a')});
  EXPECT_EQ(refused.status, 1) << refused.err;
  EXPECT_NE(refused.err.find(digest), std::string::npos) << refused.err;
  EXPECT_FALSE(fs::exists(kept));
  EXPECT_EQ(run({"link", "push", host.endpoint(), file, "--sha256", digest}).status, 0);
  EXPECT_TRUE(fs::exists(kept));
}

TEST_F(LinkProgram, a_store_that_is_written_wrongly_is_refused_with_its_line) {
  const auto refused = [&](const std::string& text) {
    return run({"serve", write(folder.at("bad.json"), text)});
  };
  const Outcome unknown = refused("{\n\"store\": {\"folder\": \"a\",\n \"keep_lats\": 3}}");
  EXPECT_EQ(unknown.status, 2);
  EXPECT_NE(unknown.err.find("bad.json:3"), std::string::npos) << unknown.err;
  EXPECT_NE(unknown.err.find("did you mean \"keep_last\""), std::string::npos) << unknown.err;
  EXPECT_EQ(refused("{\"store\": {}}").status, 2);
  EXPECT_EQ(refused("{\"store\": \"folder\"}").status, 2);
  EXPECT_EQ(refused("{\"store\": {\"folder\": \"a\", \"reserve_mb\": -1}}").status, 2);
  EXPECT_EQ(refused("{}").status, 2);
}

TEST_F(LinkProgram, FC42_a_host_that_is_killed_during_a_push_gets_the_rest_after_its_restart) {
  constexpr size_t kBytes = 160'000'000;
  const std::string path = folder.at("large.bin");
  {  // bytes that differ everywhere, made faster than one at a time
    std::ofstream file(path, std::ios::binary);
    std::mt19937_64 rng(3);
    std::vector<uint64_t> block(125'000);
    for (size_t at = 0; at < kBytes; at += block.size() * 8) {
      for (uint64_t& word : block) word = rng();
      file.write(reinterpret_cast<const char*>(block.data()),
                 static_cast<std::streamsize>(block.size() * 8));
    }
  }
  auto serve = std::make_unique<Serve>(config, 0);
  const std::string endpoint = serve->endpoint();
  Outcome pushed;
  std::thread device([&] { pushed = run({"link", "push", endpoint, path, "--json"}); });
  // Killed when the upload has been under way for a while: what is safe by then is what counts.
  const bool under_way = wait_for([&] {
    for (const auto& each : fs::directory_iterator(folder.at("kept"))) {
      if (each.path().extension() != ".part") continue;
      struct stat journal = {};
      if (::stat((each.path() / "journal").c_str(), &journal) == 0 && journal.st_size > 64 * 8)
        return true;
    }
    return false;
  });
  serve->end(SIGKILL);
  EXPECT_TRUE(under_way);
  serve = std::make_unique<Serve>(config, port_of(endpoint));
  device.join();
  ASSERT_EQ(pushed.status, 0) << pushed.err;
  const Json report = document(pushed);
  EXPECT_GE(report.find("connections")->integer(), 2);
  const Json& file = report.find("files")->items().at(0);
  EXPECT_GE(file.find("resumed_at")->integer(), 16'000'000) << pushed.out;
  EXPECT_TRUE(content(folder.at("kept/" + text_at(report, "model") + "/data")) == content(path));
}

TEST_F(LinkProgram, a_policy_that_was_pushed_answers_like_the_file_itself) {
  const std::string policy = tiny_policy();
  ASSERT_FALSE(policy.empty());
  const Serve serve(config, 0, {"--threads", "1"});
  const Outcome pushed = run({"link", "push", serve.endpoint(), policy, "--json"});
  ASSERT_EQ(pushed.status, 0) << pushed.err;
  const Json report = document(pushed);
  ASSERT_EQ(report.find("files")->items().size(), 2u) << pushed.out;  // its vision file first
  EXPECT_EQ(text_at(report.find("files")->items()[0], "role"), "projector");
  const std::string sha256 = text_at(report, "model");
  const std::string remote =
      write(folder.at("remote.json"), "{\"model_family\": \"remote\", \"endpoint\": \"" +
                                          serve.endpoint() + "\", \"model\": \"" + sha256 +
                                          "\", \"deadline_ms\": 30000, \"connect_ms\": 30000}");
  auto png = cli::encode_png(cli::Scene(kTinySide, kTinySide).draw(cli::Camera::kFront, 1));
  const std::string picture = write(
      folder.at("a.png"), {reinterpret_cast<const char*>(png.value().data()), png.value().size()});
  const auto chunk_of = [&](const std::string& what, const std::string& out) {
    const Outcome ran =
        run({"run", what, "--image", picture, "--image", picture, "--prompt", "pick up the cup",
             "--state", "0,0,0,0,0,0,0,0", "--out", folder.at(out)});
    EXPECT_EQ(ran.status, 0) << ran.err;
    return content(folder.at(out));
  };
  const std::string here = chunk_of(policy, "here.npy"), there = chunk_of(remote, "there.npy");
  EXPECT_FALSE(here.empty());
  EXPECT_TRUE(here == there);
  // Its vision file is needed, and nothing opens it alone.
  const std::string vision = text_at(report.find("files")->items()[0], "sha256");
  EXPECT_EQ(run({"link", "remove", serve.endpoint(), vision}).status, 1);
}

// The kind of a file is what its bytes say: the label it was pushed under says nothing.
TEST_F(LinkProgram, an_onnx_policy_that_was_pushed_with_a_key_answers_like_the_file_itself) {
  OUTRIDER_NEED_SHARED(policy, "data/mujoco_playground_go1_policy.onnx");
  const std::string key = key_file(folder);
  const Serve serve(config, 0, {"--threads", "1", "--key-file", key});
  EXPECT_EQ(run({"link", "push", serve.endpoint(), policy, "--timeout", "2"}).status, 3);
  const Outcome pushed = run(
      {"link", "push", serve.endpoint(), policy, "--name", "walk", "--key-file", key, "--json"});
  ASSERT_EQ(pushed.status, 0) << pushed.err;
  const std::string sha256 = text_at(document(pushed), "model");
  const std::string remote =
      write(folder.at("remote.json"), "{\"model_family\": \"remote\", \"endpoint\": \"" +
                                          serve.endpoint() + "\", \"model\": \"" + sha256 +
                                          "\", \"key_file\": \"" + key + "\"}");
  std::vector<float> obs(48);
  for (size_t i = 0; i < obs.size(); ++i) obs[i] = 0.05f * static_cast<float>(i % 7) - 0.1f;
  const int64_t shape[] = {1, 48};
  ASSERT_TRUE(cli::write_npy(folder.at("obs.npy"), obs, shape));
  const auto actions_of = [&](const std::string& what, const std::string& out) {
    const Outcome ran =
        run({"run", what, "--input", "obs=" + folder.at("obs.npy"), "--out", folder.at(out)});
    EXPECT_EQ(ran.status, 0) << ran.err;
    return content(folder.at(out));
  };
  const std::string here = actions_of(policy, "here.npy"), there = actions_of(remote, "there.npy");
  EXPECT_FALSE(here.empty());
  EXPECT_TRUE(here == there);
  EXPECT_EQ(run({"link", "models", serve.endpoint(), "--key-file", key}).status, 0);
}

TEST_F(LinkProgram, FC47_a_pushed_configuration_is_not_opened_as_one) {
  const Serve serve(config, 0);
  const std::string path =
      write(folder.at("evil.json"), "{\"model_family\": \"fake\", \"endpoint\": \"x\"}");
  const Outcome pushed = run({"link", "push", serve.endpoint(), path, "--json"});
  ASSERT_EQ(pushed.status, 0) << pushed.err;
  const std::string remote =
      write(folder.at("remote.json"), "{\"model_family\": \"remote\", \"endpoint\": \"" +
                                          serve.endpoint() + "\", \"model\": \"" +
                                          text_at(document(pushed), "model") + "\"}");
  const Outcome ran = run({"run", remote, "--prompt", "x", "--state", "0"});
  EXPECT_NE(ran.status, 0);
  EXPECT_NE(ran.err.find("no model file"), std::string::npos) << ran.err;
}

}  // namespace
}  // namespace outrider::cli_test
