// Loading the program that warps, in the one order that is safe:
//
//   digest -> construct -> move the output -> warm up (the first run links) -> identity again ->
//   publish
//
// and handing its output to the link. The small model is published whatever happens to the link;
// what the link could not have is one line of the log.
#pragma once
#include <functional>
#include <optional>
#include <vector>

#include "tandem/memory/probe.h"

namespace outrider::memory {

enum class LoadStep : uint8_t { kDigest, kConstruct, kMove, kWarmUp, kIdentity, kPublish };
const char* load_step_name(LoadStep step);

// A model file (or the stock warp's), and how its program comes to life. All calls on the loading
// thread, in the order above; exceptions count as failures.
struct Artifact {
  std::string runtime_id;  // of the compiler's runtime that it was captured with
  std::function<Result<void>()> check_digest;
  std::function<std::string()> identity;  // of the file: another one means it was replaced
  std::function<Result<std::unique_ptr<WarpState>>()> construct;
  // Runs whole, on zero frames, and resets the state to start-up zeros. The first run links.
  std::function<Result<void>(WarpState&)> warm_up;
};

// What the adapter of a driving stack may offer. Both optional.
struct WarpHooks {
  // Who moves the output; an empty Mover: nobody.
  std::function<Mover()> coherent_warp;
  // The small model's own warp for the link; nullptr: take the stock one. May throw.
  std::function<WarpState*()> model_warp;
};

struct LoadOptions {
  bool link_on = false;
  std::string runtime_id;                  // of this process
  std::string stock_runtime = "legacy9d";  // the one the stock warp is bound to
  WarpHooks hooks;
  std::vector<LoadStep>* trace = nullptr;  // [tests] what was done, also when it failed
};

struct LoadedWarp {
  std::unique_ptr<WarpState> state;
  // Why the output was not moved; "" when it was. `asked` is false when nothing was to be moved
  // (the link is off, or the runtime is the stock one).
  std::string why_not;
  bool asked = false;
};

// [setup] Asks for the mover (once), then loads. A mover that refuses or throws costs nothing but
// the direct route. Errors: those of the parts, kDevice "the artifact was replaced while it was
// loaded"; then nothing is published.
Result<LoadedWarp> load_warp(const Artifact& artifact, const LoadOptions& options);

// [setup] The warp the link will use, proven by the probe. Writes exactly one line of the log:
// route, domain, bytes, granted attributes, reason. A probe that fails on the direct route is
// repeated on the staged one; there it refuses. Errors: kNoMemory, kDevice, kFailed.
Result<std::unique_ptr<LinkWarp>> warp_for_link(WarpState& state, const std::string& why_not,
                                                const ProbeParts& probe, const Clock& clock);

// What the link gets, and where from.
struct LinkSide {
  std::unique_ptr<LinkWarp> warp;     // nullptr: none, the small model drives alone
  std::unique_ptr<LoadedWarp> stock;  // owns the stock warp when that one is used
  std::string reason;                 // why there is none: for status and alert; "" when there is
};

// [setup] Asks the hook model_warp (once). Its warp if it gives one; else, also without a hook, the
// stock artifact, if this process can run it. Failures end here: reason, and one line of the log
// in all; the small model is not touched. `loaded` tells why the model's output was not moved.
LinkSide attach_warp(const Artifact& stock, const LoadedWarp& loaded, const LoadOptions& options,
                     const ProbeParts& probe, const Clock& clock);

}  // namespace outrider::memory
