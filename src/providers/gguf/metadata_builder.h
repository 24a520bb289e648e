#pragma once
#include "outrider/frt_v1.h"

namespace outrider {

// A metadata builder that is discarded unless it was consumed.
class MetadataBuilder {
 public:
  MetadataBuilder() : handle_(frt_model_runtime_builder_create_metadata()) {}
  ~MetadataBuilder() {
    if (handle_ != nullptr) frt_runtime_builder_finish(handle_, nullptr, nullptr, nullptr);
  }
  MetadataBuilder(const MetadataBuilder&) = delete;
  MetadataBuilder& operator=(const MetadataBuilder&) = delete;
  frt_runtime_builder get() const { return handle_; }
  void consumed() { handle_ = nullptr; }

 private:
  frt_runtime_builder handle_;
};

}  // namespace outrider
