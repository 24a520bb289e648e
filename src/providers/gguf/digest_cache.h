// SHA-256 of model files, remembered in cache_dir by device, inode, size, mtime and ctime; never by
// name.
#pragma once
#include <span>
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

// What the weights in these files are (64 hexadecimal digits, see pi_weights_key), as far as it was
// kept and none of the files changed since; "" otherwise. A key is kept only for settled files.
std::string remembered_weights(std::span<const MappedFile* const> files,
                               const std::string& cache_dir);
void keep_weights(std::span<const MappedFile* const> files, const std::string& key,
                  const std::string& cache_dir);

// "device:inode:size:mtime:ctime;"
std::string id_text(const FileId& id);

}  // namespace outrider
