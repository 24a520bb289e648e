// outrider link push, models, remove: what a host keeps.
#include "cli/link_store.h"

#include <algorithm>
#include <cmath>

#include "cli/link_host.h"
#include "cli/push.h"
#include "link/provision/store_client.h"
#include "link/store/store.h"

namespace outrider::cli {
namespace {

constexpr int64_t kAnswerNs = 10'000'000'000;

const Clock& link_clock() {
  static constinit const MonotonicClock kClock;
  return kClock;
}

Exit exit_of_link(bool refused) {
  return refused ? kBad : kDeadline;
}

double mb_of(uint64_t bytes) {
  return static_cast<double>(bytes) * 1e-6;
}

// ---- push --------------------------------------------------------------------------------------

class PushTeller {
 public:
  explicit PushTeller(Output& out) : out_(out) {}

  void operator()(const PushedFile& file, const char* stage, uint64_t n_done) {
    if (&file != file_ || stage != stage_) estimate_ = {};
    file_ = &file;
    stage_ = stage;
    estimate_.add({store::Stage::kReceive, n_done, file.bytes.size()}, link_clock().now_ns());
    std::string line = fmt::format("link push: {}: {} {:.0f} of {:.0f} MB", file.name, stage,
                                   mb_of(n_done), mb_of(file.bytes.size()));
    if (estimate_.bytes_per_s() > 0)
      line += fmt::format(", {:.1f} MB/s", estimate_.bytes_per_s() * 1e-6);
    if (const double left_s = estimate_.left_s(); left_s > 0)
      line += fmt::format(", {:.0f} s left", std::ceil(left_s));
    out_.progress(line);
  }

 private:
  Output& out_;
  const PushedFile* file_ = nullptr;
  const char* stage_ = nullptr;
  store::Estimate estimate_;
};

Report file_report(const PushedFile& file) {
  return {{"file", file.path},
          {"name", file.name},
          {"role", store::role_name(file.role)},
          {"sha256", file.sha256},
          {"bytes", file.bytes.size()},
          {"was_there", file.was_there},
          {"resumed_at", file.resumed_at},
          {"sent_bytes", file.sent_bytes}};
}

void tell_pushed(Output& out, const PushPlan& plan, int n_connections, double seconds) {
  Report files = Report::array();
  for (const PushedFile& file : plan.files) {
    files.push_back(file_report(file));
    out.text("{}  {}  {} bytes, {}\n", file.sha256, file.name, file.bytes.size(),
             file.was_there        ? "was there"
             : file.resumed_at > 0 ? fmt::format("went on at byte {}", file.resumed_at)
                                   : "sent");
  }
  const std::string& model = plan.files.back().sha256;
  out.text("\nin {:.1f} s; a device opens it with \"model\": \"{}\"\n", seconds, model);
  out.document({{"model", model},
                {"files", std::move(files)},
                {"connections", n_connections},
                {"seconds", seconds}});
}

int push(Context& context, link::Dialer& dialer) {
  auto plan = plan_push(context.args.positional(2), context.args.text("--mmproj"),
                        context.args.text("--name"));
  if (!plan) return context.fail(plan.error());
  PushTeller teller(context.out);
  const TellPush tell = [&](const PushedFile& file, const char* stage, uint64_t n_done) {
    teller(file, stage, n_done);
  };
  if (auto hashed = hash_files(plan.value(), tell); !hashed) return context.fail(hashed.error());
  const std::string &wanted = context.args.text("--sha256"),
                    &found = plan.value().files.back().sha256;
  if (!wanted.empty() && wanted != found)
    return context.fail(make_error(Code::kNotFound, "link push: %s has sha256 %s, wanted %s",
                                   shown(context.args.positional(2), 200).c_str(), found.c_str(),
                                   shown(wanted, 64).c_str()),
                        kBad);
  const int64_t begun_ns = link_clock().now_ns();
  PushOutcome outcome;
  const auto timeout_ns = static_cast<int64_t>(context.args.real("--timeout") * 1e9);
  const auto pushed = push_files(plan.value(), dialer, link_clock(), timeout_ns, tell, outcome);
  if (!pushed) return context.fail(pushed.error(), exit_of_link(outcome.refused));
  const double seconds = static_cast<double>(link_clock().now_ns() - begun_ns) * 1e-9;
  tell_pushed(context.out, plan.value(), outcome.n_connections, seconds);
  return kGood;
}

// ---- models and remove -------------------------------------------------------------------------

const char* state_of(const link::wire::StoreEntry& entry) {
  return store::state_name(static_cast<store::EntryState>(entry.state));
}

Report entry_report(const link::wire::StoreEntry& entry) {
  Report companions = Report::array();
  for (const link::wire::Digest& companion : entry.companions.records())
    companions.push_back(std::string(companion.sha256.view()));
  return {{"sha256", std::string(entry.sha256.view())},
          {"name", std::string(entry.name.view())},
          {"role", store::role_name(static_cast<store::Role>(entry.role))},
          {"state", state_of(entry)},
          {"bytes", entry.n_bytes},
          {"have_bytes", entry.have_bytes},
          {"in_use", entry.in_use != 0},
          {"used_unix_s", entry.used_wall_ns / 1'000'000'000},
          {"companions", std::move(companions)}};
}

int fail_link(Context& context, const link::StoreClient& client, const Error& error) {
  if (client.refused()) return context.fail(error, kBad);
  return context.fail(make_error(error.code, "link: %s", error.text), kDeadline);
}

int models(Context& context, link::StoreClient& client) {
  auto list = client.list(link_clock().now_ns() + kAnswerNs);
  if (!list) return fail_link(context, client, list.error());
  Report rows = Report::array();
  for (const link::wire::StoreEntry& entry : list.value().entries.items) {
    rows.push_back(entry_report(entry));
    context.out.text(
        "{}  {:<9} {:<9} {:>12} of {:>12} bytes  {}{}\n", std::string(entry.sha256.view()),
        store::role_name(static_cast<store::Role>(entry.role)), state_of(entry), entry.have_bytes,
        entry.n_bytes, std::string(entry.name.view()), entry.in_use != 0 ? "  (in use)" : "");
  }
  context.out.text("{} files{}\n", list.value().entries.items.size(),
                   list.value().n_more > 0 ? fmt::format(", {} more", list.value().n_more) : "");
  context.out.document({{"models", std::move(rows)}, {"more", list.value().n_more}});
  return kGood;
}

int remove(Context& context, link::StoreClient& client) {
  const std::string& sha256 = context.args.positional(2);
  if (auto removed = client.remove(sha256, link_clock().now_ns() + kAnswerNs); !removed)
    return fail_link(context, client, removed.error());
  context.out.text("removed {}\n", sha256);
  context.out.document({{"removed", sha256}});
  return kGood;
}

// With one connection and no second try.
int over_connection(Context& context, link::Dialer& dialer,
                    int (*verb)(Context&, link::StoreClient&)) {
  auto connection = connect_store(dialer, link_clock(), link_clock().now_ns() + kAnswerNs);
  if (!connection)
    return context.fail(connection.error(), exit_of_link(connection.code() == Code::kUnsupported));
  link::StoreClient client(*connection.value());
  return verb(context, client);
}

// ---- verbs -------------------------------------------------------------------------------------

struct Verb {
  const char* name;
  const char* third;  // what the third word is; nullptr: there is none
  int (*run)(Context& context, link::Dialer& dialer);
};
constexpr Verb kVerbs[] = {
    {"push", "FILE", push},
    {"models", nullptr,
     [](Context& context, link::Dialer& dialer) {
       return over_connection(context, dialer, models);
     }},
    {"remove", "SHA256",
     [](Context& context, link::Dialer& dialer) {
       return over_connection(context, dialer, remove);
     }},
};

Result<void> check_words(const Verb& verb, const std::string& third) {
  if (verb.third == nullptr && !third.empty())
    return make_error(Code::kInvalid, "link %s ENDPOINT: \"%.40s\" is a word too many", verb.name,
                      shown(third, 40).c_str());
  if (verb.third != nullptr && third.empty())
    return make_error(Code::kInvalid, "link %s ENDPOINT %s: %s is missing", verb.name, verb.third,
                      verb.third);
  if (std::string_view(verb.name) == "remove" && !is_sha256(third))
    return make_error(Code::kInvalid,
                      "link remove: SHA256 is \"%.70s\", allowed are 64 lower-case hex digits; "
                      "`outrider link models` prints them",
                      shown(third, 70).c_str());
  return {};
}

const Verb* find_verb(std::string_view word) {
  const auto verb = std::ranges::find_if(kVerbs, [&](const Verb& v) { return word == v.name; });
  return verb == std::end(kVerbs) ? nullptr : &*verb;
}

}  // namespace

bool is_store_verb(std::string_view word) {
  return find_verb(word) != nullptr;
}

int run_store_verb(Context& context) {
  const Verb* const verb = find_verb(context.args.positional(0));
  if (auto good = check_words(*verb, context.args.positional(2)); !good)
    return context.fail(good.error());
  auto dialer = make_dialer(context.args.positional(1), context.args.text("--key-file"));
  if (!dialer) return context.fail(dialer.error());
  return verb->run(context, *dialer.value());
}

}  // namespace outrider::cli
