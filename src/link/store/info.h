// What the store knows of a file beside its bytes: the text file `info.json` in its folder.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/sha256.h"
#include "link/store/files.h"

namespace outrider::store {

// What a file is good for. Models are what is served and counted; the others accompany them.
enum class Role : uint8_t { kModel, kProjector, kOther };
const char* role_name(Role role);  // "model" "projector" "other"

struct EntryInfo {
  std::string sha256;    // 64 lower-case hex digits: the identity
  uint64_t n_bytes = 0;  // 1 or more
  std::string name;      // a label for people; never part of a path
  Role role = Role::kModel;
  std::vector<std::string> companions;  // sha256 of the files it needs
  // When the bytes were last compared with the digest: what the file looked like then, "" when it
  // never was or when a later change might not show.
  std::string checked;
};

// Everything but n_bytes' upper limit. Errors: kInvalid, naming field, value found and allowed.
Result<void> check_info(const EntryInfo& info);

// The file's text, and back. What read_info accepts is what write_info writes, any spacing and
// order; unknown keys are refused. Errors: kInvalid, naming the fault.
std::string info_text(const EntryInfo& info);
Result<EntryInfo> read_info(std::string_view text);
inline constexpr size_t kMaxInfoBytes = 8192;

// device, inode, size and both times: changes whenever the file changes.
std::string look_of(const FileInfo& file);
// Its times are further from now than its file system's clock ticks: a change from now on shows.
bool is_settled(const FileInfo& file, int64_t wall_ns);

}  // namespace outrider::store
