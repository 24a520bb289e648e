// What the commands know of ONNX files: keys, a configuration derived from a file, a report, a
// case.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/config.h"
#include "cli/config_keys.h"
#include "cli/inspect.h"
#include "cli/session.h"

namespace outrider::cli {

std::span<const ConfigKey> onnx_keys();

// The keys a run of this file needs: path, backend, and a size of 1 for open dimensions that are
// first in an input. Errors: those of reading.
Result<std::vector<Setting>> derive_onnx(const std::string& path);

// What the file is and whether this build runs it with these settings: all that is missing at once.
// Errors: those of reading.
Result<Inspection> inspect_onnx(const std::string& path, const Resolved& resolved);

// An array for every input port, f32 ones filled: what a measurement stages. Made at the first use,
// so that a tick of a measurement makes none.
struct SampleArrays {
  std::vector<std::vector<std::byte>> by_port;
};
Result<void> stage_samples(Session& session, SampleArrays& samples);

// A recorded case: CASEDIR/meta.json with kind "onnx", tolerance and a list of cases, each with
// inputs and outputs by port name and .npy file; or one .ref.json file with the arrays in base64.
struct OnnxArray {
  std::string port;
  std::vector<std::byte> bytes;
  std::vector<int64_t> shape;
};
struct OnnxCase {
  std::vector<OnnxArray> inputs, outputs;
};
struct OnnxCases {
  std::vector<OnnxCase> cases;
  double tolerance = 1e-5;  // of max(1, max|recorded|)
};
bool is_onnx_recording(const std::string& path);
Result<OnnxCases> read_onnx_cases(const std::string& path);
// Runs the cases in order, the state kept between them; one row an output and case. Errors: of a
// run.
Result<Report> run_onnx_cases(Session& session, const OnnxCases& cases, double tolerance);

}  // namespace outrider::cli
