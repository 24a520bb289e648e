// Writing a synthetic model: used by make-model and demo.
#pragma once
#include <cstdint>
#include <string>

#include "base/result.h"

namespace outrider::cli {

struct MakeModel {
  bool pi05 = true;
  std::string out;  // policy file
  std::string size = "tiny", type = "f32";
  uint64_t seed = 1;
  std::string layout = "queued";  // of a driving graph
  std::string pair = "gemma3";    // of mllm: gemma3, qwen25vl, smolvlm
};
struct MadeModel {
  std::string policy_path, vision_path;
  uint64_t policy_bytes = 0, vision_bytes = 0;
};
// <out without .gguf>-mmproj.gguf
std::string vision_path_of(const std::string& policy_path);
// Errors: kInvalid and those of the writer, naming the path.
Result<MadeModel> make_model(const MakeModel& options);
// A text model: one file, of which policy_path and policy_bytes tell.
Result<MadeModel> make_text_model(const MakeModel& options);
// A text model and its vision file.
Result<MadeModel> make_pair_model(const MakeModel& options);

// A driving graph: one ONNX file, of which policy_path and policy_bytes tell. Errors: kUnsupported
// for an element type other than f32.
Result<MadeModel> make_driving_model(const MakeModel& options);

}  // namespace outrider::cli
