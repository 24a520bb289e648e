// Lack of memory in every single allocation of every construction path: a refusal, never an
// exception, nothing retained, and the builder goes on when memory is back.
#include <gtest/gtest.h>

#include <functional>

#include "allocations.h"
#include "fixture.h"

namespace outrider::abi::test {
namespace {

// Tries `call` with 0, 1, 2... allocations allowed until it succeeds; checks each failure.
// Returns how many allocations it needed.
long starve(const std::function<bool()>& call) {
  for (long allowed = 0; allowed < 1000; ++allowed) {
    allow_allocations(allowed);
    const bool ok = call();
    const bool ran_out = allow_allocations(-1) == 0;
    if (ok) return allowed;
    EXPECT_TRUE(ran_out) << "refused for another reason";
  }
  ADD_FAILURE() << "never succeeds";
  return -1;
}

const std::string kLong(90, 'n');  // beyond the small-string size

TEST(Memory, every_builder_call_survives_each_allocation_failing) {
  Model m;
  const uint64_t keys[] = {1, 2, 3};
  const int64_t shape[] = {50, 32};
  const uint32_t after[] = {0};
  const char* n = kLong.c_str();
  frt_runtime_builder b = nullptr;
  EXPECT_GT(starve([&] { return (b = frt_runtime_builder_create(some_ctx())) != nullptr; }), 0);
  const std::pair<const char*, std::function<int()>> calls[] = {
      {"stream", [&] { return frt_runtime_builder_add_stream(b, n, 0, 0, nullptr); }},
      {"graph", [&] { return frt_runtime_builder_add_graph(b, n, some_graph(), 0, keys, 3, 0); }},
      {"buffer", [&] { return frt_runtime_builder_add_buffer(b, n, some_buffer(), 1, 1); }},
      {"region", [&] { return frt_runtime_builder_add_region(b, n, some_buffer(), 0, 1, 1); }},
      {"identity", [&] { return frt_runtime_builder_add_identity(b, n, n); }},
      {"manifest", [&] { return frt_runtime_builder_set_manifest(b, n); }},
      {"port",
       [&] {
         return frt_runtime_builder_add_port(b, n, 0, 0, 0, 0, 1, 0, shape, 2, 0, nullptr, 0, 0);
       }},
      {"stage", [&] { return frt_runtime_builder_add_generic_stage(b, n, 1, 7, nullptr, 0); }},
      {"stage", [&] { return frt_runtime_builder_add_generic_stage(b, "z", 1, 7, after, 1); }}};
  for (const auto& entry : calls) {
    const char* what = entry.first;
    bool memory_was_named = true;
    const long needed = starve([&] {
      const int code = entry.second();
      if (code != 0) memory_was_named &= std::strstr(builder_error(b), "memory") != nullptr;
      return code == 0;
    });
    EXPECT_GT(needed, 0) << what;
    EXPECT_TRUE(memory_was_named) << what;
  }
  EXPECT_EQ(frt_runtime_builder_set_generic_stage_runner(b, &m, run_opaque), 0);

  const auto verbs = all_verbs();
  frt_model_runtime_v1* r = nullptr;
  EXPECT_GT(starve([&] {
              r = frt_runtime_builder_finish_model(b, &verbs, &m, &m, retain_owner, release_owner);
              EXPECT_EQ(m.retained, r != nullptr) << "a refusal retains nothing";
              return r != nullptr;
            }),
            0);
  // Nothing was added twice and nothing was lost on the way.
  EXPECT_EQ(r->exp->n_streams, 1u);
  EXPECT_EQ(r->exp->n_graphs, 1u);
  EXPECT_EQ(r->exp->n_buffers, 1u);
  EXPECT_EQ(r->exp->n_capsule_regions, 1u);
  EXPECT_EQ(r->n_ports, 1u);
  EXPECT_EQ(r->ports[0].name, kLong);
  EXPECT_EQ(r->exp->manifest_json, kLong);
  EXPECT_EQ(std::string(r->exp->identity).find(kLong + "=" + kLong + "\n"), 24u);
  r->release(r->owner);
  EXPECT_EQ(m.released, 1);
}

TEST(Memory, wrap_and_override_survive_each_allocation_failing) {
  Model export_owner, m, other;
  Builder b = Builder::with_ctx();
  b.graph("g");
  auto* exp = b.finish_export(&export_owner);
  const int64_t shape[] = {1};
  const uint32_t zero = 0;
  const frt_runtime_port_desc port{kLong.c_str(), 0, 0, 0, 0, 1, 0, shape, 1, 0, nullptr, 0, 0};
  const frt_runtime_stage_desc stages[] = {{0, 0, nullptr}, {0, 1, &zero}};
  const auto verbs = all_verbs();
  frt_model_runtime_v1 *wrapped = nullptr, *over = nullptr;
  EXPECT_GT(starve([&] {
              wrapped =
                  frt_model_runtime_wrap(exp, &port, 1, stages, 2, &verbs, &m, &m, release_owner);
              return wrapped != nullptr;
            }),
            0);
  EXPECT_GT(starve([&] {
              over = frt_model_runtime_override_verbs(wrapped, &verbs, &other, &other, retain_owner,
                                                      release_owner);
              return over != nullptr;
            }),
            0);
  EXPECT_EQ(other.retained, 1);
  exp->release(exp->owner);
  wrapped->release(wrapped->owner);
  EXPECT_EQ(export_owner.released + m.released, 0);
  over->release(over->owner);
  EXPECT_EQ(export_owner.released, 1);
  EXPECT_EQ(m.released, 1);
  EXPECT_EQ(other.released, 1);
}

TEST(Memory, a_count_that_no_memory_holds_is_refused_before_it_is_read) {
  Builder b = Builder::with_ctx();
  const uint64_t key = 0;
  for (const uint64_t n : {UINT64_MAX, UINT64_MAX / 8 + 1})
    EXPECT_EQ(frt_runtime_builder_add_graph(b, "g", some_graph(), 0, &key, n, 0), -1);
  Model m;
  b.graph("g");
  auto* exp = b.finish_export(&m);
  EXPECT_EQ(exp->n_graphs, 1u);
  exp->release(exp->owner);
}

}  // namespace
}  // namespace outrider::abi::test
