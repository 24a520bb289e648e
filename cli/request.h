// The inputs of one tick as the command line gives them.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "cli/config.h"
#include "cli/onnx_model.h"
#include "cli/session.h"
#include "vision/image.h"

namespace outrider::cli {

struct Request {
  std::vector<Image> images;
  // Camera of each picture where the runtime has a port for each; empty, or one name a picture.
  std::vector<std::string> cameras;
  std::string prompt;
  std::vector<float> state;
  std::shared_ptr<SampleArrays> samples =
      nullptr;  // a graph: every input is given an array made for it
};

// "0.1,-2,3e-1" -> values. Errors: kInvalid naming the position and what was found; every value
// must be a finite number.
Result<std::vector<float>> parse_csv(std::string_view text);

// "wrist=w.png" names its camera, "w.png" does not. Errors: kInvalid (no such file; a camera twice;
// names for some pictures only), those of decoding, kShape when pictures without names differ.
Result<void> load_images(std::span<const std::string> words, Request& request);
// The path alone.
std::string image_path(const std::string& word);

// The pictures' count and size against the configuration. Errors: kShape with both numbers and what
// to change.
// Errors: kShape. Policies see all cameras in one size.
Result<void> check_one_size(std::span<const std::string> words, const Request& request);
Result<void> check_images(const std::vector<Image>& images, const Resolved& resolved);

// Sets images, prompt and state. Errors as the runtime gives them.
Result<void> stage(Session& session, const Request& request);
// Images alone: what a loop replaces every tick. Errors: kInvalid when cameras have ports of their
// own and the pictures do not say which they are.
Result<void> stage_images(Session& session, const Request& request);
// The picture inputs of a runtime, in order.
std::vector<const frt_runtime_port_desc*> camera_ports(const Session& session);

// What is odd about an instruction, or "": a newline or carriage return at its end changes the
// token ids, because the policy face takes the text raw.
std::string prompt_oddity(std::string_view prompt);

// One tick, stage by stage: milliseconds of staging inputs, of every stage, of reading the output,
// and of all together.
struct TickTimes {
  double input_ms = 0, output_ms = 0, total_ms = 0;
  std::vector<double> stage_ms;
};
struct Ticked {
  TickTimes times;
  std::vector<std::byte> output;  // bytes of the output port
};
// Errors name the stage.
Result<Ticked> timed_tick(Session& session, const Request& request, std::string_view output_port);

// Name of the port a command reads by default: "actions", the "next_token" of a language model
// (one token may be less than a character, and then its text is not ready), else the first output.
Result<std::string> main_output(const Session& session);

}  // namespace outrider::cli
