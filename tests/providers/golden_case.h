// A golden folder (meta.json and arrays) replayed through the ABI.
#pragma once
#include <string>
#include <vector>

#include "base/json.h"
#include "outrider/ext/taps.h"
#include "providers/pi_fixture.h"

namespace outrider::test {

class GoldenCase {
 public:
  explicit GoldenCase(std::string folder);

  const std::string& folder() const { return folder_; }
  const Json& meta() const { return meta_; }
  const Json& field(const char* name) const;
  std::string policy_file() const { return field("policy").find("file")->text(); }
  std::string vision_file() const { return field("vision").find("file")->text(); }
  bool is_pi05() const { return field("kind").text() == "pi05"; }

  // Open configuration with the model files of `models`.
  std::string config(const std::string& models, const std::string& extra) const;
  // Stages images, prompt and state; a null state stages zeros.
  void stage(const PiProvider& provider) const;
  std::vector<float> floats(const std::string& name) const;  // name without .bin

 private:
  std::string folder_;
  Json meta_;
};

std::vector<float> read_floats(const std::string& path);
// Largest absolute difference; infinite when sizes differ, nothing is compared or a value is NaN.
double max_abs(const std::vector<float>& got, const std::vector<float>& wanted);

// The taps of one runtime, switched on.
class Taps {
 public:
  explicit Taps(const PiProvider& provider);
  std::vector<float> read(const char* name) const;

 private:
  const outrider_taps_v1* taps_ = nullptr;
};

}  // namespace outrider::test
