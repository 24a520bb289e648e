// The folder of a server:
//
//   models/<sha16>.onnx                 whole files, and uploads that are under way; never pruned
//   engines/<sha16>.<tag>.plan          what was built, beside
//   engines/<sha16>.<tag>.json          backend, build facts and the model record
//   last-loaded.json                    what to load when the server starts
//
// sha16: the first 16 digits. What is built is small: weights are read from the model file itself,
// so an artifact counts only while its model is there. Writers use a temporary name and rename.
// Nothing but a regular file is written to, replaced or removed: a link or a pipe under one of
// these names stays, and what was to be written there is refused.
#pragma once
#include <atomic>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "link/jetlink/server/engine.h"

namespace outrider::link::jetlink {

inline constexpr size_t kKeepArtifacts = 6;  // newest, of one backend
inline constexpr int64_t kStaleBuildS = 6 * 3600;

class Cache {
 public:
  // [setup] Makes the folders (mode 0700) and removes temporary files of builds that were never
  // finished. Errors: kNotFound with path and cause; kInvalid when somebody else could write there.
  static Result<Cache> open(const std::string& root, const BackendFacts& facts);

  // A model file outside the folder, served beside those inside. It is never written or deleted.
  void add_outside(const ModelId& id, const std::string& path);

  std::string model_path(const std::string& sha256) const;
  int64_t model_bytes(const std::string& sha256) const;  // -1: not there
  // Digest of the file. Errors: kNotFound; kNotReady when `stop` became true.
  Result<std::string> hash_model(const std::string& sha256, const std::atomic<bool>& stop,
                                 const std::function<void(double)>& progress) const;
  // A chunk that arrived. Offset 0 begins the file anew: whoever has the former one mapped keeps
  // it. After a write that failed nothing is left. Errors: kNotFound, kNoMemory (disk full) with
  // path and cause.
  Result<void> write_model(const std::string& sha256, uint64_t offset,
                           std::span<const std::byte> bytes);
  void remove_model(const std::string& sha256);

  // The record of a model that can be loaded without being built. nullopt: none, or its file is
  // gone, has another size, or was built by another tag.
  std::optional<ModelSpec> find_built(const std::string& sha256) const;
  Result<void> save_built(const ModelSpec& spec, double build_seconds);
  void remove_built(const std::string& sha256);
  std::vector<std::string> built_models() const;  // sorted digests

  std::optional<ModelId> last_loaded() const;
  void save_last_loaded(const ModelId& id);

 private:
  std::string stem(const std::string& sha256) const;
  void prune();

  std::string root_;
  BackendFacts facts_;
  std::map<std::string, std::string> outside_;  // digest to path
};

}  // namespace outrider::link::jetlink
