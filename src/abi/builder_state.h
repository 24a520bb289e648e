// The builder behind the opaque frt_runtime_builder.
#pragma once
#include <string>

#include "abi/identity.h"
#include "abi/object.h"
#include "base/result.h"

struct frt_runtime_builder_s {
  frt_ctx ctx = nullptr;  // NULL: metadata only
  outrider::abi::Descriptors descriptors;
  outrider::abi::IdentityPairs pairs;
  std::string manifest;
  bool has_manifest = false;
  bool plan_present = false;  // a generic stage or a runner was given
  void* stage_self = nullptr;
  int (*run_opaque)(void* stage_self, uint32_t executor_ref) = nullptr;
  outrider::Error reason;  // of the last refused call

  bool metadata_only() const { return ctx == nullptr; }
};
