// Small pieces over `Files`: errors with path and cause, small files written whole, folders erased.
#pragma once
#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"
#include "link/store/files.h"
#include "link/store/progress.h"

namespace outrider::store {

// The disk, a quota or a size limit is exhausted.
bool is_no_room(int cause);

// "store: DOING PATH: cause". kNoMemory when the room ends, kNotFound when the file is missing,
// else kFailed.
Error io_error(const Files& files, const char* doing, const std::string& path, int cause);

Result<File> open_file(Files& files, const std::string& path, OpenHow how);

// errno of the first failure, ENOSPC when a write made no progress, EIO when the file ends early.
int write_all(Files& files, int handle, uint64_t offset, std::span<const std::byte> bytes);
int read_all(Files& files, int handle, uint64_t offset, std::span<std::byte> bytes);

// A small text file. Larger than max_bytes: kInvalid.
Result<std::string> read_text(Files& files, const std::string& path, size_t max_bytes);
// Old or new content, never less, whatever happens; on the disk when it returns without error.
Result<void> replace_text(Files& files, const std::string& folder, const std::string& name,
                          std::string_view text);

// Deletes a folder that holds files only; one that is not there is no failure.
Result<void> erase_folder(Files& files, const std::string& folder);

// SHA-256 of the first n_bytes, read in pieces. kFailed when they cannot be read, kNotReady when
// `on_progress` gave up.
Result<std::string> hash_file(Files& files, int handle, const std::string& path, uint64_t n_bytes,
                              Stage stage, const OnProgress& on_progress);

}  // namespace outrider::store
