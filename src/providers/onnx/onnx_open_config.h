// The open configuration of family onnx: strict, every key known, every value in range.
// Source: model-runtime ABI section 14, cli-and-config.md 1.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "tensor/ops.h"

namespace outrider {

struct OnnxOpenConfig {
  std::string model_path, backend;
  // Optional keys; the defaults below are those of an absent key.
  std::string precision = "auto";  // "auto", "f32", "stored": f32; "bf16", "int8": of products
  int64_t n_threads = 0;           // <= 0: one for small graphs, else all that this process may use
  std::string dims;                // "batch=1,sequence=512"
  std::string state_pairs;         // "X:next_X,..."; "": by name; "none": none
  std::string stats_path;
  int64_t history = 1;  // frames of the observation that the model reads
  // Driving graphs (docs/guides/driving.md).
  std::string driving = "auto";  // "auto": when the graph and its metadata say so; "on", "off"
  int64_t frame_skip = 4;        // frames from one row of context to the next
  std::string heads = "known";   // "known", "required", "only": required, without outputs; "off"
  std::string desire = "level";  // "level": the runtime makes the pulse; "pulse": it is one
  std::string action = "off";    // "off", "auto", "v9", "v14", "v15", "v16", "plan"
  int64_t lateral_smooth_ms = 0, longitudinal_smooth_ms = 300;
};

// `json` is the parsed flat object with model_family "onnx". Errors: kInvalid naming key, value
// found, value allowed; kUnsupported for a backend other than "cpu".
Result<OnnxOpenConfig> read_onnx_open_config(const Json& json);

Precision onnx_precision(const OnnxOpenConfig& config);

// "name=size,..." Errors: kInvalid naming the entry.
Result<std::map<std::string, int64_t>> parse_dims(const std::string& text);
// "X:next_X,..." as (input, output).
Result<std::vector<std::pair<std::string, std::string>>> parse_state_pairs(const std::string& text);

}  // namespace outrider
