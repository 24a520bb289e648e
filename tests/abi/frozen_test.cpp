// Old and new side by side: {128-byte, 136-byte} producers x {old, new} consumers.
#include <gtest/gtest.h>

#include "abi/probe.h"
#include "fixture.h"
#include "frozen/frozen_v1.h"

namespace outrider::abi::test {
namespace {

// The new producer: the same doubling model through the builder, with a plan and with step.
struct Doubler {
  float staged = 0, result = 0;
  bool ready = false;
  int live = 1;
};
Doubler* doubler(void* self) {
  return static_cast<Doubler*>(self);
}
int run(Doubler* d) {
  d->result = 2 * d->staged;
  d->ready = true;
  return 0;
}

frt_model_runtime_v1* new_producer(Doubler* d) {
  Builder b = Builder::metadata();
  const int64_t one = 1;
  for (uint32_t direction : {0u, 1u})
    frt_runtime_builder_add_port(b, direction ? "out" : "in", 0, FRT_DTYPE_F32, 0, direction, 1,
                                 !direction, &one, 1, 0, nullptr, 0, 0);
  b.stage("double", 77);
  frt_runtime_builder_set_generic_stage_runner(
      b, d, [](void* self, uint32_t ref) { return ref == 77 ? run(doubler(self)) : -2; });
  frt_model_runtime_verbs verbs{};
  verbs.struct_size = sizeof verbs;
  verbs.set_input = [](void* self, uint32_t, const void* data, uint64_t, int) {
    std::memcpy(&doubler(self)->staged, data, sizeof(float));
    doubler(self)->ready = false;
    return 0;
  };
  verbs.get_output = [](void* self, uint32_t, void* out, uint64_t, uint64_t* written, int) {
    if (!doubler(self)->ready) return -7;
    std::memcpy(out, &doubler(self)->result, *written = sizeof(float));
    return 0;
  };
  verbs.step = [](void* self) { return run(doubler(self)); };
  verbs.last_error = [](void*) { return "new producer"; };
  auto* r = frt_runtime_builder_finish_model(b, &verbs, d, d, nullptr,
                                             [](void* o) { doubler(o)->live = 0; });
  b.forget();
  return r;
}

TEST(Frozen, old_producer_and_old_consumer) {
  auto* r = frozen_producer_open();
  ASSERT_NE(r, nullptr);
  float result = 0;
  EXPECT_EQ(frozen_consumer_run(r, 1.5f, &result), 0);
  EXPECT_EQ(result, 3.0f);
  EXPECT_EQ(frozen_producer_live(), 1);
}

TEST(Frozen, old_producer_and_new_consumer) {
  auto* r = frozen_producer_open();
  float result = 0;
  EXPECT_EQ(new_consumer_run(r, 1.5f, &result), 0);
  EXPECT_EQ(result, 3.0f);
  EXPECT_EQ(frozen_producer_live(), 1);
}

TEST(Frozen, new_producer_and_old_consumer) {
  Doubler d;
  auto* r = new_producer(&d);
  ASSERT_NE(r, nullptr);
  float result = 0;
  EXPECT_EQ(frozen_consumer_run(r, 1.5f, &result), 0);
  EXPECT_EQ(result, 3.0f);
  r->release(r->owner);
  EXPECT_EQ(d.live, 0);
}

TEST(Frozen, new_producer_and_new_consumer) {
  Doubler d;
  auto* r = new_producer(&d);
  float result = 0;
  EXPECT_EQ(new_consumer_run(r, 1.5f, &result), 0);
  EXPECT_EQ(result, 3.0f);
  r->release(r->owner);
  EXPECT_EQ(d.live, 0);
}

TEST(Frozen, our_probe_adopts_the_old_producer_without_reading_past_its_end) {
  const auto* r = reinterpret_cast<const frt_model_runtime_v1*>(frozen_producer_open());
  auto facts = check_provider(r);  // the page behind the struct is not readable
  ASSERT_TRUE(facts) << facts.error().text;
  EXPECT_EQ(facts.value().authority, Authority::kStepOnly);
  const void* out = nullptr;
  EXPECT_EQ(query_extension(r, 1, 1, &out), -3);
}

TEST(Frozen, override_of_the_old_producer_is_refused_as_step_only) {
  const auto* r = reinterpret_cast<const frt_model_runtime_v1*>(frozen_producer_open());
  Model m;
  const auto verbs = all_verbs();
  EXPECT_EQ(frt_model_runtime_override_verbs(r, &verbs, &m, &m, nullptr, nullptr), nullptr);
  EXPECT_EQ(frozen_producer_live(), 1);
}

}  // namespace
}  // namespace outrider::abi::test
