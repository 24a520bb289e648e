// Which provider serves a configuration, and where its file is.
#pragma once
#include <string>
#include <string_view>

#include "base/result.h"

namespace outrider::host {

// File name of the provider of a model family: pi0, llm, mllm -> provider_gguf.so; onnx ->
// provider_onnx.so; remote -> provider_link.so; tandem -> provider_tandem.so;
// camera -> provider_camera.so.
// Errors: kUnsupported, with the families there are.
Result<std::string> provider_file(std::string_view model_family);

// `model_family` of an open configuration. Errors: those of the JSON reader; kInvalid when the key
// is missing or no string.
Result<std::string> config_family(std::string_view config_json);

// First regular file found, in this order: every folder of OUTRIDER_PLUGIN_PATH (parted by ':'),
// <folder of the program>/../lib, <folder of the program>, the folder of this host's library.
// Errors: kUnsupported (family), kNotFound with the folders that were looked at.
Result<std::string> find_provider(std::string_view model_family);

}  // namespace outrider::host
