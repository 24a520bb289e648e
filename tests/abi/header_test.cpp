#include <gtest/gtest.h>

#include "outrider/frt_v1.h"

extern "C" unsigned c11_runtime_bytes(void);
extern "C" int c11_builds_a_runtime(int (*step)(void*));

TEST(Header, is_c11_and_agrees_with_cxx) {
  EXPECT_EQ(c11_runtime_bytes(), sizeof(frt_model_runtime_v1));
}

TEST(Header, a_c_program_can_build_and_step_a_runtime) {
  EXPECT_EQ(c11_builds_a_runtime([](void*) { return 42; }), 42);
}

TEST(Header, enum_values_are_frozen) {
  EXPECT_EQ(FRT_MODALITY_FORCE, 7);
  EXPECT_EQ(FRT_MODALITY_STATE, 3);
  EXPECT_EQ(FRT_DTYPE_I64, 5);
  EXPECT_EQ(FRT_DTYPE_BF16, 3);
  EXPECT_EQ(FRT_LAYOUT_NCHW, 4);
  EXPECT_EQ(FRT_LAYOUT_NHWC, 2);
  EXPECT_EQ(FRT_PIXEL_GRAY8, 4);
  EXPECT_EQ(FRT_PORT_OUT, 1);
  EXPECT_EQ(FRT_UPDATE_SETUP, 2);
  EXPECT_EQ(FRT_EXECUTOR_OPAQUE, 1);
  EXPECT_EQ(FRT_BUFFER_SCRATCH, 8);
  EXPECT_EQ(FRT_REGION_RESTORE, 2);
  EXPECT_EQ(FRT_ERR_FAILED, -8);
  EXPECT_EQ(FRT_EXT_GENERIC_STAGE_PLAN_V1, 1u);
}
