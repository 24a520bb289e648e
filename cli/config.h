// What CONFIG|FILE means: an open configuration that is passed on verbatim, or a model file from
// which one is derived.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/args.h"
#include "cli/output.h"
#include "cli/session.h"

namespace outrider::cli {

// Setting::origin of a key that nobody gave.
inline constexpr const char* kDefaultOrigin = "default";

// One key of the effective configuration and where its value came from.
struct Setting {
  std::string key;
  std::string literal;  // as JSON: "cpu" with quotes, 2 without
  std::string origin;   // "pi05.json:3", "default", "--threads", "read from policy.gguf", ...
};

struct Wish {  // what the command line adds
  std::optional<int64_t> n_threads, noise_seed, n_views, max_tokens;
  std::optional<std::pair<int32_t, int32_t>> image_size;  // width, height of the given pictures
  std::vector<std::pair<std::string, std::string>> set;   // --set KEY=VALUE
  std::string provider;                                   // path given by hand, or ""
  // A text model is opened with its vision file: this one, or the one beside it when there are
  // pictures.
  std::string mmproj;
  bool pictures = false;
  std::string schema;  // path of a JSON schema, or ""
};

struct Resolved {
  std::string json;  // goes to open
  std::string provider_path;
  std::string family;
  std::string model_path, mmproj_path, policy_dir;
  bool derived = false;            // from a model file
  std::vector<Setting> settings;   // set ones first, then the defaults
  std::vector<std::string> notes;  // things a person should know: derived, overridden

  const Setting* find(std::string_view key) const;
  int64_t integer(std::string_view key, int64_t otherwise) const;
};

// [setup] What a pi0 configuration says is held against the provider's own table of keys.
// Errors: kNotFound (no such file), kInvalid (not JSON, unknown key with its line and the nearest
// known name, a value out of range), kNotFound (damaged model file), kUnsupported (a kind of file
// or a backend this build does not have).
Result<Resolved> resolve(const std::string& path, const Wish& wish);

// [setup] The same for an ONNX file of any name.
Result<Resolved> resolve_onnx(const std::string& path, const Wish& wish);

// The vision file beside a policy file: STEM-mmproj.gguf, else the one clip file whose name begins
// like the policy's. Errors: kInvalid listing the candidates when there are none or several.
Result<std::string> find_vision_file(const std::string& policy_path);

// Prints settings and origins, or gives them as a document.
void print_settings(const Resolved& resolved, Output& out);
Report settings_report(const Resolved& resolved);

// Reads what --threads, --seed, --views, --set, --schema, --provider say, where the command has
// them.
Wish wish_of(const Args& args, const Command& command);

// Are the files a configuration names there? Errors: of check_there.
Result<void> check_files(const Resolved& resolved);

// The runtime of a configuration. Errors: of check_files, then of the open.
Result<Session> open_session(const Resolved& resolved);

// Is there a regular file that can be read? Errors: kNotFound naming path and cause.
Result<void> check_there(const std::string& path);

}  // namespace outrider::cli
