// The safetensors of one checkpoint folder: model.safetensors, or several files named by
// model.safetensors.index.json. Hostile input: the index may name nothing outside the folder, every
// tensor must lie in the file the index says, and no two files may hold one name.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "safetensors/safetensors.h"

namespace outrider {

class SafeTensorsFolder {
 public:
  static constexpr size_t kMaxFiles = 1024;

  // Errors: kNotFound naming folder, file, tensor (no weights; a file of the index is missing; a
  // tensor is not where the index says); those of SafeTensorsFile::open.
  static Result<SafeTensorsFolder> open(const std::string& folder);

  const std::string& path() const { return folder_; }
  const std::vector<SafeTensorsFile>& files() const { return files_; }
  const SafeTensor* tensor(std::string_view name) const;

 private:
  std::string folder_;
  std::vector<SafeTensorsFile> files_;
};

}  // namespace outrider
