// What `outrider loop` needs before the first tick: the safe action, an observation to measure
// with.
#pragma once
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/session.h"
#include "loop/payload.h"

namespace outrider::cli {

// "zero", numbers with commas, or FILE.npy (f4): a whole output payload whose main port, the first,
// holds them. One number stands for all. Errors: kShape with both counts, kInvalid (values that are
// not finite, a main output that is not f32).
Result<std::vector<std::byte>> safe_action(const std::string& text, const loop::Payload& outputs);

// Whether a tandem is told that somebody acts on the loop's output. `who`: "yes", "no", "observed"
// (observations carry it: `wish` is told), or "": no for made-up observations, else yes. Errors:
// kInvalid (another word, a runtime that does not ask, `wish` has it already).
Result<bool> take_engaged(const std::string& who, bool made_up, const Session& session,
                          loop::PayloadWish& wish);

// A made-up observation: f32 values of a soft wave, pictures of noise, zeros elsewhere.
std::vector<std::byte> sample_observation(const loop::Payload& inputs);

// "128 bytes: obs f32 {1, 32}"
std::string payload_text(const loop::Payload& payload);

}  // namespace outrider::cli
