// Flag rows that several commands share.
#pragma once
#include "cli/args.h"

namespace outrider::cli {

inline constexpr Flag kJsonFlag = {"--json", nullptr, nullptr,
                                   "Print one JSON document instead of text.", nullptr};
inline constexpr Flag kPrintConfigFlag = {
    "--print-config", nullptr, nullptr,
    "Print each configuration value and where it came from, then stop.", nullptr};
inline constexpr Flag kProviderFlag = {
    "--provider", "PATH", nullptr,
    "Shared object to load, instead of the one model_family chooses.", parse_text};
inline constexpr Flag kThreadsFlag = {
    "--threads", "N", nullptr,
    "Compute threads (key n_threads); 0: as many as this process may use.", parse_threads};
inline constexpr Flag kSeedFlag = {"--seed", "N", nullptr,
                                   "Seed of the action noise (key noise_seed).", parse_seed};
inline constexpr Flag kViewsFlag = {
    "--views", "N", nullptr, "Cameras when FILE is a model file (key n_views); 2 if not given.",
    parse_views};
inline constexpr Flag kSetFlag = {
    "--set",       "KEY=VALUE", nullptr, "Configuration key for this run, over what CONFIG says.",
    parse_setting, true};
inline constexpr Flag kImageFlag = {
    "--image",
    "P",
    nullptr,
    "PNG or JPEG picture of one camera, in the order of the camera slots; CAMERA=P "
    "where cameras have names.",
    parse_text,
    true};
inline constexpr Flag kMmprojFlag = {
    "--mmproj", "PATH", nullptr,
    "Vision file of a text model (key mmproj_path); with --image it is found beside the model.",
    parse_text};
inline constexpr Flag kSchemaFlag = {
    "--schema", "FILE", nullptr,
    "JSON schema that the answer of a language model follows (key schema_path).", parse_text};
inline constexpr Flag kPromptFlag = {
    "--prompt", "T", nullptr, "Instruction; goes to the model as it is written.", parse_text};
inline constexpr Flag kStateFlag = {
    "--state", "CSV", nullptr,
    "Robot state as numbers with commas, in the model's normalised units; in the robot's where the "
    "policy knows its robot.",
    parse_text};
inline constexpr Flag kHtmlFlag = {"--report", "FILE.html", nullptr,
                                   "Also write a page with charts to this file.", parse_text};

inline constexpr Positional kConfigOrFile = {"CONFIG|FILE",
                                             "Open configuration (.json), model file (.gguf, its "
                                             "vision file beside it), checkpoint folder, or "
                                             "policy.json."};

}  // namespace outrider::cli
