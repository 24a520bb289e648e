// Models of the host's store, opened when a device asks for one by its SHA-256 (or by the name it
// was pushed under).
//
// The files are leased as long as the runtime lives, so that what is in use is not removed.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "link/server/models.h"
#include "link/store/store.h"

namespace outrider::link {

// What opens a leased file. It may name the lease's paths; they are good as long as its runtime.
using MakeSource = std::function<Result<std::unique_ptr<ModelSource>>(const store::Lease& lease)>;

class StoredModels final : public ModelCatalog {
 public:
  // The store outlives it and every runtime that came from it.
  StoredModels(store::Store& store, MakeSource make) : store_(store), make_(std::move(make)) {}

  // Errors: kNotFound (not in the store, or no model), kNotReady (its upload is not finished),
  // kFailed (damaged).
  Result<Found> find(std::string_view name_or_sha256) override;

 private:
  store::Store& store_;
  MakeSource make_;
};

}  // namespace outrider::link
