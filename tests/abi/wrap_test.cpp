#include <gtest/gtest.h>

#include <functional>

#include "fixture.h"

namespace outrider::abi::test {
namespace {

// An export with one graph, and the pieces of a wrap over it that is accepted.
class Wrap : public testing::Test {
 protected:
  Wrap() {
    Builder b = Builder::with_ctx();
    b.graph("g0"), b.graph("g1", 1);
    exp_ = b.finish_export(&export_owner_);
    reset();
  }
  ~Wrap() override { exp_->release(exp_->owner); }

  void reset() {
    copy_ = *exp_;
    ports_ = {
        {"in", 0, 1, 0, FRT_PORT_IN, FRT_UPDATE_STAGED, 1, shape_, 2, 0, nullptr, 0, 0},
        {"win", 0, 1, 0, FRT_PORT_OUT, FRT_UPDATE_SWAP, 0, nullptr, 0, 0, some_buffer(), 8, 8}};
    stages_ = {{0, 0, nullptr}, {1, 1, &zero_}};
    verbs_ = all_verbs();
    parts_ = {&copy_,  ports_.data(), 2,         stages_.data(), 2,
              &verbs_, &self_,        &wrapper_, release_owner};
  }
  frt_model_runtime_v1* make() {
    return frt_model_runtime_wrap(parts_.exp, parts_.ports, parts_.n_ports, parts_.stages,
                                  parts_.n_stages, parts_.verbs, parts_.self, parts_.wrapper_owner,
                                  parts_.wrapper_release);
  }

  Model export_owner_, self_, wrapper_;
  const int64_t shape_[2] = {50, 32};
  const uint32_t zero_ = 0, one_ = 1;
  frt_runtime_export_v1* exp_ = nullptr;
  frt_runtime_export_v1 copy_{};
  std::vector<frt_runtime_port_desc> ports_;
  std::vector<frt_runtime_stage_desc> stages_;
  frt_model_runtime_verbs verbs_{};
  WrapParts parts_;
};

TEST_F(Wrap, copies_descriptors_and_inherits_the_identity) {
  Held r(make());
  ASSERT_NE(r.r, nullptr);
  EXPECT_EQ(r->exp, &copy_);
  EXPECT_EQ(r->exp->fingerprint, exp_->fingerprint) << "ports are not hashed again";
  EXPECT_NE(r->ports, ports_.data());
  EXPECT_NE(r->ports[0].name, ports_[0].name);
  EXPECT_NE(r->ports[0].shape, shape_);
  EXPECT_EQ(r->ports[0].shape[1], 32);
  EXPECT_EQ(r->ports[1].bytes, 8u);
  ASSERT_EQ(r->n_stages, 2u);
  EXPECT_EQ(r->stages[1].after[0], 0u);
  EXPECT_EQ(r->self, &self_);
  EXPECT_EQ(r->verbs.step(r->self), 14);
  const void* out = &out;
  EXPECT_EQ(r->query_extension(r.r, 1, 1, &out), -3);
}

TEST_F(Wrap, keeps_the_export_until_its_own_end) {
  auto* r = make();
  ASSERT_NE(r, nullptr);
  exp_->release(exp_->owner);
  EXPECT_EQ(export_owner_.released, 0);
  r->release(r->owner);
  EXPECT_EQ(wrapper_.released, 1);
  EXPECT_EQ(export_owner_.released, 1);
  // For the destructor's release.
  Builder b = Builder::with_ctx();
  b.graph("g");
  exp_ = b.finish_export(&export_owner_);
}

TEST_F(Wrap, refuses_every_broken_part_and_retains_nothing) {
  const std::pair<const char*, std::function<void()>> cases[] = {
      {"export: NULL", [&] { parts_.exp = nullptr; }},
      {"no context", [&] { copy_.ctx = nullptr; }},
      {"abi_version 0", [&] { copy_.abi_version = 0; }},
      {"abi_version 2", [&] { copy_.abi_version = 2; }},
      {"struct_size 127", [&] { copy_.struct_size = 127; }},
      {"retain or release", [&] { copy_.retain = nullptr; }},
      {"retain or release", [&] { copy_.release = nullptr; }},
      {"0 legacy stages", [&] { parts_.n_stages = 0; }},
      {"NULL array", [&] { parts_.stages = nullptr; }},
      {"NULL array", [&] { parts_.ports = nullptr; }},
      {"name", [&] { ports_[1].name = nullptr; }},
      {"name", [&] { ports_[0].name = ""; }},
      {"direction 2", [&] { ports_[0].direction = 2; }},
      {"update 3", [&] { ports_[0].update = 3; }},
      {"NULL shape", [&] { ports_[0].shape = nullptr; }},
      {"set_input", [&] { verbs_.set_input = nullptr; }},
      {"set_input", [&] { verbs_.struct_size = 47; }},
      {"set_input", [&] { parts_.verbs = nullptr; }},
      {"get_output",
       [&] {
         ports_[1].update = FRT_UPDATE_STAGED;
         verbs_.get_output = nullptr;
       }},
      {"graph 2", [&] { stages_[1].graph = 2; }},
      {"NULL array", [&] { stages_[1].after = nullptr; }},
      {"not earlier", [&] { stages_[1].after = &one_; }},
      {"not earlier",
       [&] {
         stages_[0] = {0, 1, &zero_};
       }},
  };
  int index = 0;
  for (const auto& [words, damage] : cases) {
    reset();
    damage();
    auto made = wrap(parts_);
    EXPECT_FALSE(made) << index;
    EXPECT_NE(made.error().message().find(words), std::string_view::npos)
        << index << ": " << made.error().text;
    EXPECT_EQ(make(), nullptr) << index;
    ++index;
  }
  reset();
  Held good(make());
  EXPECT_NE(good.r, nullptr);
  EXPECT_EQ(wrapper_.released, 0);
}

}  // namespace
}  // namespace outrider::abi::test
