// Identity and manifest of a served runtime, at the device byte for byte the host's, however long.
#include <gtest/gtest.h>

#include <cstring>

#include "link/host_here.h"
#include "link/wire/messages.h"

namespace outrider::link {
namespace {

using here::Host, here::open, here::provider;

std::string fake(int64_t pad, int64_t manifest_bytes) {
  return "{\"model_family\":\"fake\",\"identity_pad\":" + std::to_string(pad) +
         ",\"manifest_bytes\":" + std::to_string(manifest_bytes) + "}";
}
std::string identity_of(const Runtime& runtime) {
  return runtime.face().exp->identity;
}
// Of everything in the identity but the pad.
int64_t rest_bytes() {
  return static_cast<int64_t>(identity_of(*open(provider("fake"), fake(0, 0))).size());
}

TEST(MirroredTexts, arrive_whole_at_every_length_up_to_the_limit) {
  const int64_t rest = rest_bytes(), limit = wire::kMaxTextBytes;
  for (const int64_t bytes : {int64_t{64'999}, int64_t{65'000}, int64_t{65'001}, int64_t{129'999},
                              int64_t{130'000}, int64_t{130'001}, int64_t{200'000}, limit}) {
    const std::string config = fake(bytes - rest, bytes);
    Host host(config);
    auto local = open(provider("fake"), config), remote = open(provider("link"), host.remote());
    ASSERT_TRUE(local && remote) << bytes;
    ASSERT_EQ(identity_of(*local).size(), static_cast<size_t>(bytes));
    EXPECT_TRUE(identity_of(*remote) == identity_of(*local)) << bytes;
    EXPECT_EQ(remote->face().exp->fingerprint, local->face().exp->fingerprint) << bytes;
    ASSERT_NE(remote->face().exp->manifest_json, nullptr);
    EXPECT_EQ(std::strlen(remote->face().exp->manifest_json), static_cast<size_t>(bytes));
    EXPECT_STREQ(remote->face().exp->manifest_json, local->face().exp->manifest_json) << bytes;
  }
}

TEST(MirroredTexts, beyond_the_limit_are_refused_with_length_found_and_allowed) {
  const int64_t rest = rest_bytes(), limit = wire::kMaxTextBytes;
  struct Case {
    std::string config, words;
  };
  for (const Case& c : {Case{fake(limit + 1 - rest, 10),
                             "the identity of the model has 4194305 bytes, at most "
                             "4194304 travel"},
                        Case{fake(10, limit + 1),
                             "the manifest of the model has 4194305 bytes, at most 4194304 "
                             "travel"}}) {
    Host host(c.config);
    auto refused = ProviderSource(provider("link"), host.remote()).open();
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.code(), Code::kUnsupported);
    EXPECT_NE(refused.error().message().find(c.words), std::string_view::npos)
        << refused.error().text;
    EXPECT_EQ(host.server->counters().connections.load(), 1);
  }
}

}  // namespace
}  // namespace outrider::link
