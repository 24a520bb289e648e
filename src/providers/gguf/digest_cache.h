// SHA-256 of model files, remembered in cache_dir by device, inode, size, mtime and ctime; never by
// name.
#pragma once
#include <string>

#include "base/mapped_file.h"
#include "base/result.h"

namespace outrider {

struct FileDigest {
  std::string sha256;
  bool remembered = false;  // no byte of the file was read
  // The file had been left alone for longer than its file system's clock ticks when it was looked
  // at: a later change shows in its times. Only then may anything be kept on disk for it.
  bool settled = false;
};

// cache_dir "" reads the file. A digest that cannot be kept is not missed. Errors: those of
// sha256_hex.
Result<FileDigest> file_digest(const MappedFile& file, const std::string& cache_dir);

// "device:inode:size:mtime:ctime;"
std::string id_text(const FileId& id);

}  // namespace outrider
