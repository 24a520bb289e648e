// `Files` on the real disk.
#pragma once
#include <memory>
#include <string>

#include "base/result.h"
#include "link/store/files.h"

namespace outrider::store {

// Makes the folder (mode 0700, parents too) when it is missing. Refuses one that belongs to another
// user or that others may write: kInvalid. kNotFound when it cannot be made or opened.
Result<std::unique_ptr<Files>> open_posix_files(const std::string& folder);

}  // namespace outrider::store
