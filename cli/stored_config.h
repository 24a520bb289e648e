// How a file of the store is opened: a configuration derived from the file, as for a model file on
// the command line. What devices push is never read as a configuration.
#pragma once
#include <memory>

#include "cli/config.h"
#include "link/server/runtime.h"
#include "link/store/store.h"

namespace outrider::cli {

// [setup] `wish`: what the command line adds (threads, views, keys). Errors: kUnsupported (no model
// file of this build), kInvalid (a PI0 policy without its vision file), those of resolve().
Result<std::unique_ptr<link::ModelSource>> source_of(const store::Lease& lease, const Wish& wish);

}  // namespace outrider::cli
