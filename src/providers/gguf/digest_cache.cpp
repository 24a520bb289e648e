#include "providers/gguf/digest_cache.h"

#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <ctime>

#include "base/fnv.h"
#include "base/private_file.h"
#include "base/sha256.h"

namespace outrider {
namespace {

constexpr size_t kHexDigits = 64;
constexpr int64_t kSecondNs = 1'000'000'000;
// File times move with the kernel's tick, 10 ms at most; some file systems keep seconds, or two.
constexpr int64_t kFineTickNs = kSecondNs / 10, kCoarseTickNs = 3 * kSecondNs;

int64_t wall_clock_ns() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return int64_t{now.tv_sec} * kSecondNs + now.tv_nsec;
}

bool is_settled(const FileId& id) {
  const bool coarse = id.mtime_ns % kSecondNs == 0 && id.ctime_ns % kSecondNs == 0;
  return std::max(id.mtime_ns, id.ctime_ns) <
         wall_clock_ns() - (coarse ? kCoarseTickNs : kFineTickNs);
}

// One entry per inode (or set of them): a changed model replaces the entry of the one before.
std::string entry_name(const char* kind, std::span<const MappedFile* const> files) {
  std::string text;
  for (const MappedFile* file : files) {
    char one[80];
    std::snprintf(one, sizeof one, "%s%" PRIx64 ":%" PRIx64, text.empty() ? "" : ",",
                  file->id().device, file->id().inode);
    text += one;
  }
  char name[48];
  std::snprintf(name, sizeof name, "%s-%016" PRIx64 ".txt", kind, fnv1a64(text));
  return name;
}

std::string entry_text(const char* kind, std::span<const MappedFile* const> files,
                       const std::string& sha256) {
  std::string text = std::string("outrider ") + kind + " 1\n";
  for (const MappedFile* file : files) text += id_text(file->id());
  text += "\n" + sha256 + "\n";
  char sum[24];
  std::snprintf(sum, sizeof sum, "%016" PRIx64 "\n", fnv1a64(text));
  return text + sum;
}

// "" unless the entry is, byte for byte, what would be written for some digest.
std::string remembered(const char* kind, std::span<const MappedFile* const> files,
                       const std::string& dir) {
  auto file = PrivateFile::open(dir + "/" + entry_name(kind, files));
  const std::string empty = entry_text(kind, files, std::string(kHexDigits, '0'));
  if (!file || file.value().size_bytes() != empty.size()) return {};
  std::string text(empty.size(), 0);
  if (::read(file.value().fd(), text.data(), text.size()) != static_cast<ssize_t>(text.size()))
    return {};
  const std::string sha256 = text.substr(empty.find(std::string(kHexDigits, '0')), kHexDigits);
  const bool hex = sha256.find_first_not_of("0123456789abcdef") == std::string::npos;
  return hex && text == entry_text(kind, files, sha256) ? sha256 : std::string();
}

void keep(const char* kind, std::span<const MappedFile* const> files, const std::string& sha256,
          const std::string& dir) {
  const std::string text = entry_text(kind, files, sha256);
  const std::span<const std::byte> pieces[] = {std::as_bytes(std::span(text))};
  (void)write_private_file(dir, entry_name(kind, files), pieces);
}

}  // namespace

std::string id_text(const FileId& id) {
  char text[160];
  std::snprintf(text, sizeof text, "%" PRIx64 ":%" PRIx64 ":%" PRIx64 ":%" PRId64 ":%" PRId64 ";",
                id.device, id.inode, id.size_bytes, id.mtime_ns, id.ctime_ns);
  return text;
}

Result<FileDigest> file_digest(const MappedFile& file, const std::string& cache_dir) {
  FileDigest digest;
  digest.settled = is_settled(file.id());
  const MappedFile* const one[] = {&file};
  if (!cache_dir.empty()) digest.sha256 = remembered("digest", one, cache_dir);
  digest.remembered = !digest.sha256.empty();
  if (digest.remembered) return digest;
  auto hex = sha256_hex(file.bytes());
  file.drop_pages(file.bytes().data(), file.size());
  if (!hex) return hex.error();
  digest.sha256 = hex.value();
  if (cache_dir.empty() || !digest.settled) return digest;
  keep("digest", one, digest.sha256, cache_dir);
  return digest;
}

std::string remembered_weights(std::span<const MappedFile* const> files,
                               const std::string& cache_dir) {
  return remembered("weights", files, cache_dir);
}

void keep_weights(std::span<const MappedFile* const> files, const std::string& key,
                  const std::string& cache_dir) {
  const bool settled = std::all_of(files.begin(), files.end(),
                                   [](const MappedFile* file) { return is_settled(file->id()); });
  if (settled) keep("weights", files, key, cache_dir);
}

}  // namespace outrider
