// One opened runtime as the commands use it: host.h with ownership, names instead of indices, and
// errors as one line.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "outrider/ext/status.h"
#include "outrider/ext/taps.h"
#include "outrider/host.h"
#include "vision/image.h"

namespace outrider::cli {

class Session {
 public:
  // [setup] Errors: the code of the failed open and its one-line reason.
  static Result<Session> open(const std::string& provider_path, const std::string& config_json);

  outrider_session* handle() const { return handle_.get(); }
  int64_t open_ns() const { return open_ns_; }

  // Ports. Errors name the port and list those there are.
  Result<uint32_t> port(std::string_view name) const;
  std::vector<const frt_runtime_port_desc*> ports() const;
  const frt_runtime_port_desc* find(std::string_view name) const;

  Result<void> set_input(std::string_view port, const void* data, uint64_t bytes);
  Result<void> set_images(std::string_view port, std::span<const ImageView> views);
  Result<void> set_text(std::string_view port, std::string_view text);
  Result<void> set_floats(std::string_view port, std::span<const float> values);
  // Whole output as bytes, then as f32 whatever type of numbers the port has.
  Result<std::vector<std::byte>> output(std::string_view port);
  Result<std::vector<float>> output_floats(std::string_view port);

  std::vector<std::string> stages() const;
  Result<void> run_stage(uint64_t stage);
  // One tick through every stage. Errors name the stage that failed.
  Result<void> tick();
  int64_t stage_ns(uint64_t stage) const { return outrider_stage_ns(handle_.get(), stage); }

  const outrider_taps_v1* taps() const;
  const outrider_status_v1* status() const;

  struct Tap {
    std::string name;
    std::vector<int64_t> shape;
    std::vector<float> values;
  };
  Result<Tap> tap(const std::string& name) const;

 private:
  struct Close {
    void operator()(outrider_session* session) const { outrider_close(session); }
  };
  Result<void> check(int code, const std::string& what) const;
  std::unique_ptr<outrider_session, Close> handle_;
  int64_t open_ns_ = 0;
};

// Words for the numbers of a port.
const char* modality_name(uint32_t modality);
const char* port_dtype_name(uint32_t dtype);
size_t port_dtype_bytes(uint32_t dtype);
// Values of a port's array as numbers. Errors: kUnsupported for a type that has none.
Result<std::vector<double>> numbers_of(uint32_t dtype, std::span<const std::byte> bytes);
std::string shape_text(std::span<const int64_t> shape);
std::string port_shape_text(const frt_runtime_port_desc& port);

}  // namespace outrider::cli
