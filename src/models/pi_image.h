// A packed PiModel on disk: everything that `build` makes of the weights, so that a later open
// reads no weight and packs nothing. The embedding table is copied from the model file.
#pragma once
#include <memory>
#include <string>

#include "models/pi_model.h"

namespace outrider {

// Raise it whenever PiModel::build computes, packs or keeps something else than before.
inline constexpr int kPiImageRevision = 4;

struct PiImageName {
  std::string file;  // depends on the model and the options: a newer build replaces the older image
  std::string key;   // all that the bytes depend on
};

// `weights_key`: see pi_weights_key; equal weights from other files share an image. How `ops` packs
// is found out by packing some small matrices of every element type, so no number has to be raised
// when a layout changes. Errors: those of packing, kNoMemory.
Result<PiImageName> pi_image_name(const PiConfig& config, const PiOptions& options, Ops& ops,
                                  const std::string& weights_key);

// [setup] Errors: see CheckedFile::write.
Result<void> write_pi_image(const PiModel& model, const std::string& dir, const PiImageName& name);

// [setup] The model as it was written, its weights in the mapped file. embed and keep_alive as in
// PiModel::build. Errors: see CheckedFile::open; kInvalid when the parts are not those of `config`.
Result<std::shared_ptr<const PiModel>> read_pi_image(const std::string& dir,
                                                     const PiImageName& name,
                                                     const PiConfig& config,
                                                     const PiOptions& options, const Matrix& embed,
                                                     std::shared_ptr<const void> keep_alive);

}  // namespace outrider
