// Engines of the Jetlink server: driving graphs through provider_onnx.
#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "host/session.h"
#include "link/jetlink/server/engine.h"

namespace outrider::cli {

struct JetlinkBackendOptions {
  std::string name = "outrider";  // what HELLO_RESP and the records call this backend
  std::string provider_path;      // ""; found
  // Keys of the open configuration beyond those of the model, as JSON literals.
  std::vector<std::pair<std::string, std::string>> settings;
};

class JetlinkBackend final : public link::jetlink::Backend {
 public:
  explicit JetlinkBackend(JetlinkBackendOptions options);
  const link::jetlink::BackendFacts& facts() const override { return facts_; }
  Result<link::jetlink::ModelSpec> build(const std::string& path, const link::jetlink::ModelId& id,
                                         const link::jetlink::Report& report) override;
  Result<std::unique_ptr<link::jetlink::Engine>> load(const std::string& path,
                                                      const link::jetlink::ModelSpec& spec,
                                                      const link::jetlink::Report& report) override;

 private:
  Result<host::Session> open(const std::string& path, uint32_t frame_skip) const;

  JetlinkBackendOptions options_;
  link::jetlink::BackendFacts facts_;
  // What build() opened, for the load() that follows it.
  std::unique_ptr<host::Session> opened_;
  std::string opened_path_;
  uint32_t opened_skip_ = 0;
};

}  // namespace outrider::cli
