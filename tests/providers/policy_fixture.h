// A robot's policy around the synthetic weights: description, statistics, and runtimes by port
// name.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "providers/pi_fixture.h"
#include "support/checkpoint_writer.h"
#include "support/shared_data.h"

namespace outrider::test {

struct RobotSpec {
  PiFamily family = PiFamily::kPi0;
  int64_t n_state = 6, n_actions = 6;
  // Members of policy.json behind cameras, state and actions: ,"k":v
  std::string more = {};
  std::string action_more = {};  // members of actions
  std::string cameras = R"({"name":"top","slot":"base_0_rgb"},)"
                        R"({"name":"wrist","slot":"left_wrist_0_rgb","required":false})";
  CheckpointSpec weights = {};
};

// A checkpoint folder of openpi's kind with such a policy.json and a vocabulary of the pair.
class RobotFolder {
 public:
  explicit RobotFolder(const RobotSpec& spec = {});
  const std::string& path() const { return dir_.path(); }
  const PiPair& pair() const { return pair_; }
  // {"model_family":"pi0","policy_dir":...} and further members.
  std::string config(const std::string& more = "") const;
  // The description over the GGUF pair itself.
  std::string described_pair(const std::string& more = "") const;

 private:
  TempDir dir_;
  const PiPair& pair_;
};

// A runtime whose ports are spoken to by name.
class PolicyProvider : public PiProvider {
 public:
  using PiProvider::PiProvider;
  int port(const std::string& name) const;
  int set(const std::string& name, const void* data, uint64_t bytes) const;
  int set_camera(const std::string& name, const std::vector<uint8_t>& rgb, int64_t width,
                 int64_t height) const;
  int set_text(const std::string& name, const std::string& text) const;
  int set_floats(const std::string& name, const std::vector<float>& values) const;
  std::vector<float> actions() const;  // empty when not ready
  std::vector<float> tick() const;     // step, then actions; a failure fails the test
  std::vector<int64_t> shape(const std::string& name) const;
  std::string description() const;
};

std::vector<float> some_state(int64_t n);
// Both cameras, an instruction and some_state.
void stage_robot(const PolicyProvider& provider, const PiPair& pair, int64_t n_state = 6);

// The statistics of the folder, for independent arithmetic.
double mean_of(int64_t i);
double std_of(int64_t i);
double q01_of(int64_t i);
double q99_of(int64_t i);

}  // namespace outrider::test
