// FC-45: who may change what a host keeps. The same host by its loopback address and by the address
// that other machines know it under.
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>

#include <fstream>

#include "link/secure/secure.h"
#include "link/serve_process.h"
#include "link_support.h"
#include "support.h"

namespace outrider::cli_test {
namespace {

namespace fs = std::filesystem;
using link::Manage;

// An address of this machine that is not a loopback one; "": it has none.
std::string outer_address() {
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return "";
  std::string found;
  for (const ifaddrs* at = all; at != nullptr && found.empty(); at = at->ifa_next) {
    if (at->ifa_addr == nullptr || at->ifa_addr->sa_family != AF_INET) continue;
    const auto* inet = reinterpret_cast<const sockaddr_in*>(at->ifa_addr);
    char text[INET_ADDRSTRLEN] = {};
    ::inet_ntop(AF_INET, &inet->sin_addr, text, sizeof text);
    if ((ntohl(inet->sin_addr.s_addr) >> 24) != 127) found = text;
  }
  ::freeifaddrs(all);
  return found;
}

#define NEEDS_OUTER_ADDRESS(name)           \
  const std::string name = outer_address(); \
  if (name.empty()) GTEST_SKIP() << "this machine has no address but loopback"

std::string at(const std::string& address, uint16_t port) {
  return "tcp://" + address + ":" + std::to_string(port);
}

// A host of any address with a store, in this process.
struct OpenHost {
  explicit OpenHost(Manage manage, const std::string& key = "") {
    auto opened = store::Store::open(folder.at("kept"), store::small_limits());
    EXPECT_GOOD(opened);
    kept = std::make_shared<store::Store>(std::move(opened.value()));
    link::ServerOptions options;
    options.listen = {"tcp://0.0.0.0:0"};
    options.store = kept;
    options.plaintext = key.empty();
    options.manage = manage;
    if (!key.empty())
      options.secure = [shared = link::read_key_file(key).value()](
                           std::unique_ptr<link::Transport> plain, int64_t deadline_ns) {
        return link::secure_as_host(std::move(plain), shared, deadline_ns);
      };
    auto started = link::Server::start(
        options, std::make_unique<link::Models>(link::ModelsLimits(), clock), clock);
    EXPECT_GOOD(started);
    server = std::move(started.value());
  }
  uint16_t port() const { return port_of(server->endpoints().at(0)); }
  size_t n_kept() const { return kept->list().value().size(); }
  // What the push at this endpoint ends with.
  Result<void> push(const std::string& address, const store::Model& model,
                    const std::string& key = "") const {
    const std::string path = write(folder.at(model.info.sha256), model.bytes);
    auto dialer = cli::make_dialer(at(address, port()), key);
    auto plan = cli::plan_push(path, "", "");
    if (!dialer || !plan) return make_error(Code::kInvalid, "the push could not be made");
    const cli::TellPush quiet = [](const cli::PushedFile&, const char*, uint64_t) {};
    OUTRIDER_TRY(cli::hash_files(plan.value(), quiet));
    cli::PushOutcome outcome;
    return cli::push_files(plan.value(), *dialer.value(), clock, 5'000'000'000, quiet, outcome);
  }
  Result<void> remove(const std::string& address, const store::Model& model,
                      const std::string& key = "") const {
    auto dialer = cli::make_dialer(at(address, port()), key);
    EXPECT_GOOD(dialer);
    const int64_t soon = clock.now_ns() + 5'000'000'000;
    auto connection = cli::connect_store(*dialer.value(), clock, soon);
    if (!connection) return connection.error();
    return link::StoreClient(*connection.value()).remove(model.info.sha256, soon);
  }

  Folder folder;
  MonotonicClock clock;
  std::shared_ptr<store::Store> kept;
  std::unique_ptr<link::Server> server;
};

void expect_refused(const Result<void>& got, const char* verb, const char* value,
                    const char* next) {
  ASSERT_FALSE(got) << verb;
  const std::string text = got.error().text;
  for (const std::string& part :
       {std::string("may not ") + verb, std::string("\"manage\" is \"") + value + "\"",
        std::string(next)})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  EXPECT_EQ(text.find('\n'), std::string::npos) << text;
}

const store::Model& first() {
  static const store::Model model = store::make_model(20'000, 1);
  return model;
}
const store::Model& second() {
  static const store::Model model = store::make_model(20'000, 2);
  return model;
}

TEST(Manage, FC45_auto_trusts_this_machine_the_key_and_the_cable_alone) {
  link::TransportFacts facts;
  facts.kind = link::TransportKind::kTcp;
  EXPECT_FALSE(link::may_manage(Manage::kAuto, facts)) << "an address proves nothing";
  EXPECT_TRUE(link::may_manage(Manage::kYes, facts));
  EXPECT_FALSE(link::may_manage(Manage::kNo, facts));
  facts.peer_is_local = true;
  EXPECT_TRUE(link::may_manage(Manage::kAuto, facts));
  EXPECT_FALSE(link::may_manage(Manage::kNo, facts));
  facts.peer_is_local = false, facts.encrypted = true;
  EXPECT_TRUE(link::may_manage(Manage::kAuto, facts));
  EXPECT_FALSE(link::may_manage(Manage::kNo, facts));
}

TEST(Manage, FC45_a_plain_peer_of_another_address_changes_nothing) {
  NEEDS_OUTER_ADDRESS(outer);
  const OpenHost host(Manage::kAuto);
  ASSERT_GOOD(host.push("127.0.0.1", first()));
  ASSERT_EQ(host.n_kept(), 1u);
  expect_refused(host.push(outer, second()), "push", "auto", "--manage yes");
  expect_refused(host.push(outer, first()), "push", "auto", "--key-file");  // nor what is there
  expect_refused(host.remove(outer, first()), "remove", "auto", "--manage yes");
  EXPECT_EQ(host.n_kept(), 1u) << "nothing came, nothing went, no half file is left";
  EXPECT_GOOD(host.remove("127.0.0.1", first()));
  EXPECT_EQ(host.n_kept(), 0u);
}

TEST(Manage, FC45_a_refused_peer_is_still_served) {
  NEEDS_OUTER_ADDRESS(outer);
  const OpenHost host(Manage::kAuto);
  ASSERT_GOOD(host.push("127.0.0.1", first()));
  auto dialer = cli::make_dialer(at(outer, host.port()));
  ASSERT_GOOD(dialer);
  const int64_t soon = host.clock.now_ns() + 5'000'000'000;
  auto connection = cli::connect_store(*dialer.value(), host.clock, soon);
  ASSERT_GOOD(connection);
  link::StoreClient client(*connection.value());
  expect_refused(client.remove(first().info.sha256, soon), "remove", "auto", "--manage yes");
  auto list = client.list(soon);  // on the same connection
  ASSERT_GOOD(list);
  EXPECT_EQ(list.value().entries.items.size(), 1u);
  // Bytes that are sent without a push that was taken go nowhere.
  EXPECT_GOOD(
      client.send(link::wire::StoreChunk{0}, store::bytes_of(second().bytes, 0, 4096), soon));
  EXPECT_GOOD(client.send(link::wire::StoreEnd{20'000}, client.next_request(), soon));
  auto state = client.receive(soon);
  ASSERT_GOOD(state);
  EXPECT_NE(state.value().code, 0);
  EXPECT_EQ(host.n_kept(), 1u);
}

TEST(Manage, FC45_a_peer_that_proved_the_key_may) {
  NEEDS_OUTER_ADDRESS(outer);
  const Folder keys;
  const std::string key = key_file(keys);
  const OpenHost host(Manage::kAuto, key);
  ASSERT_GOOD(host.push(outer, first(), key));
  EXPECT_GOOD(host.remove(outer, first(), key));
  EXPECT_FALSE(host.push(outer, first())) << "without the key there is no connection";
  EXPECT_EQ(host.n_kept(), 0u);
}

TEST(Manage, FC45_yes_is_everybody_and_no_is_nobody) {
  NEEDS_OUTER_ADDRESS(outer);
  const OpenHost open(Manage::kYes);
  EXPECT_GOOD(open.push(outer, first()));
  EXPECT_GOOD(open.remove(outer, first()));
  const Folder keys;
  const std::string key = key_file(keys);
  const OpenHost closed(Manage::kNo, key);
  expect_refused(closed.push("127.0.0.1", first(), key), "push", "no", "--manage auto");
  expect_refused(closed.remove("127.0.0.1", first(), key), "remove", "no", "--manage auto");
  EXPECT_EQ(closed.n_kept(), 0u);
}

// The programs, as two machines would start them.
struct ManagePrograms : ::testing::Test {
  std::string service(const std::string& manage) const {
    const std::string key = manage.empty() ? "" : ", \"manage\": \"" + manage + "\"";
    return write(folder.at("service" + manage + ".json"),
                 R"({"store": {"folder": "kept)" + manage + R"(", "reserve_mb": 1})" + key + "}");
  }
  Folder folder;
  const std::string file = write(folder.at("file.bin"), store::make_model(30'000, 7).bytes);
  const std::string sha256 = store::make_model(30'000, 7).info.sha256;
};

TEST_F(ManagePrograms, FC45_push_and_remove_over_a_plain_cable_need_a_word) {
  NEEDS_OUTER_ADDRESS(outer);
  const std::vector<std::string> plain = {"--listen", "tcp://0.0.0.0:0", "--plaintext"};
  const auto serve = [&](const std::string& config, std::vector<std::string> more = {}) {
    std::vector<std::string> words = {config};
    words.insert(words.end(), plain.begin(), plain.end());
    words.insert(words.end(), more.begin(), more.end());
    return std::make_unique<link::here::ServeProcess>(words);
  };
  const auto there = [&](const link::here::ServeProcess& host) { return at(outer, host.port()); };
  {
    const auto host = serve(service(""));
    const Outcome pushed = run({"link", "push", there(*host), file, "--json"});
    EXPECT_EQ(pushed.status, 1) << pushed.err;
    EXPECT_NE(pushed.err.find("may not push: \"manage\" is \"auto\""), std::string::npos)
        << pushed.err;
    document(pushed);
    EXPECT_FALSE(fs::exists(folder.at("kept/" + sha256)));
    EXPECT_EQ(run({"link", "push", tcp(host->port()), file}).status, 0) << "from the host itself";
    const Outcome removed = run({"link", "remove", there(*host), sha256});
    EXPECT_EQ(removed.status, 1) << removed.err;
    EXPECT_NE(removed.err.find("may not remove"), std::string::npos) << removed.err;
    EXPECT_TRUE(fs::exists(folder.at("kept/" + sha256 + "/data")));
    EXPECT_EQ(run({"link", "models", there(*host)}).status, 0) << "listing changes nothing";
  }
  for (const auto& host : {serve(service("yes")), serve(service("no"), {"--manage", "yes"})}) {
    EXPECT_EQ(run({"link", "push", there(*host), file}).status, 0);
    EXPECT_EQ(run({"link", "remove", there(*host), sha256}).status, 0);
  }
  const auto closed = serve(service("no"));
  const Outcome refused = run({"link", "push", tcp(closed->port()), file});
  EXPECT_EQ(refused.status, 1) << refused.err;
  EXPECT_NE(refused.err.find("\"manage\" is \"no\""), std::string::npos) << refused.err;
}

TEST_F(ManagePrograms, FC48_another_word_is_refused_with_those_there_are) {
  for (const std::string value : {"\"ja\"", "true", "1", "\"\"", "null", "\"Auto\""}) {
    const Outcome refused =
        run({"serve", write(folder.at("bad.json"),
                            "{\"store\": {\"folder\": \"a\"},\n\"manage\": " + value + "}")});
    EXPECT_EQ(refused.status, 2) << value;
    EXPECT_NE(refused.err.find("bad.json:2: key \"manage\""), std::string::npos) << refused.err;
    EXPECT_NE(refused.err.find("\"auto\", \"yes\" or \"no\""), std::string::npos) << refused.err;
  }
  for (const Outcome& idle :
       {run({"serve", write(folder.at("idle.json"), "{\"model_family\": \"fake\"}"), "--provider",
             OUTRIDER_BUILD_DIR "/lib/provider_fake.so", "--manage", "yes"}),
        run({"serve",
             write(folder.at("none.json"),
                   "{\"manage\": \"no\", \"models\": [{\"name\": \"a\", \"config\": "
                   "\"idle.json\"}]}"),
             "--provider", OUTRIDER_BUILD_DIR "/lib/provider_fake.so"})}) {
    EXPECT_EQ(idle.status, 2) << idle.err;
    EXPECT_NE(idle.err.find("there is no store to change"), std::string::npos) << idle.err;
  }
  const Outcome flag = run({"serve", service(""), "--manage", "ja"});
  EXPECT_EQ(flag.status, 2);
  EXPECT_NE(flag.err.find("auto, yes or no"), std::string::npos) << flag.err;
}

}  // namespace
}  // namespace outrider::cli_test
