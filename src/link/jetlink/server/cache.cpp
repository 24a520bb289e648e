#include "link/jetlink/server/cache.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>

#include "base/input_file.h"
#include "base/json_text.h"
#include "base/log.h"
#include "base/output_file.h"
#include "base/printable.h"
#include "base/private_file.h"
#include "base/sha256.h"
#include "link/transport/socket_stream.h"

namespace outrider::link::jetlink {
namespace {

constexpr size_t kMaxRecordBytes = 1u << 20;
constexpr size_t kMaxEntries = 100'000;

Error system_error(const char* what, const std::string& path) {
  const Code code =
      errno == ENOSPC || errno == EDQUOT || errno == EFBIG ? Code::kNoMemory : Code::kNotFound;
  return make_error(code, "%s %s: %s", what, short_path(path).c_str(), std::strerror(errno));
}

std::string sha16(const std::string& sha256) {
  return sha256.substr(0, 16);
}

Result<void> make_folder(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    if (errno != ENOENT || path.find('/', 1) == std::string::npos)
      return system_error("cannot make the folder", path);
    OUTRIDER_TRY(make_folder(path.substr(0, path.rfind('/'))));
    if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST)
      return system_error("cannot make the folder", path);
  }
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return system_error("cannot read the folder", path);
  if (!S_ISDIR(info.st_mode))
    return make_error(Code::kNotFound, "%s is no folder", short_path(path).c_str());
  return {};
}

// Nobody else may put a model where it is run from.
Result<void> check_owner(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return system_error("cannot read the folder", path);
  const bool sticky = (info.st_mode & S_ISVTX) != 0;
  if (info.st_uid != ::geteuid() && info.st_uid != 0)
    return make_error(Code::kInvalid,
                      "the folder %s belongs to user %u, allowed: this user or root",
                      short_path(path).c_str(), info.st_uid);
  if ((info.st_mode & S_IWOTH) != 0 && !sticky)
    return make_error(Code::kInvalid, "every user may write to %s: chmod o-w",
                      short_path(path).c_str());
  return {};
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> out;
  DIR* dir = ::opendir(folder.c_str());
  if (dir == nullptr) return out;
  while (const dirent* entry = ::readdir(dir)) {
    if (out.size() >= kMaxEntries) break;
    out.emplace_back(entry->d_name);
  }
  ::closedir(dir);
  std::sort(out.begin(), out.end());
  return out;
}

std::optional<Json> read_record(const std::string& path) {
  auto text = read_file(path, kMaxRecordBytes, Links::kRefuse);
  if (!text) return std::nullopt;
  auto json = Json::parse(text.value());
  if (!json || !json.value().is_object()) return std::nullopt;
  return std::move(json.value());
}

// Never through a link that lies in the folder, and over nothing but a regular file.
Result<void> write_record(const std::string& path, std::string_view text) {
  const size_t slash = path.rfind('/');
  const std::span<const std::byte> piece = std::as_bytes(std::span(text));
  auto wrote = write_private_file(path.substr(0, slash), path.substr(slash + 1), {&piece, 1});
  if (!wrote)
    return make_error(wrote.code(), "cannot write %s: %s", short_path(path).c_str(),
                      wrote.error().text);
  return {};
}

std::string plan_text(const std::string& sha256) {
  return "outrider plan 1\n" + sha256 + "\n";
}

bool is_plan_of(const std::string& path, const std::string& sha256) {
  auto text = read_file(path, kMaxRecordBytes, Links::kRefuse);
  return text && text.value() == plan_text(sha256);
}

// Nothing but a regular file: a link, a pipe or a folder of that name is none of ours. 0 also when
// nothing is there or it stays; else errno is set.
int remove_file(const std::string& path) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0) return errno == ENOENT ? 0 : -1;
  if (!S_ISREG(info.st_mode)) return 0;
  return ::unlink(path.c_str()) != 0 && errno != ENOENT ? -1 : 0;
}

void sweep_temporaries(const std::string& folder) {
  for (const std::string& name : names_in(folder)) {
    if (name.find(".part-") == std::string::npos) continue;
    const std::string path = folder + "/" + name;
    struct stat info {};
    if (::lstat(path.c_str(), &info) == 0 && std::time(nullptr) - info.st_mtime > kStaleBuildS)
      remove_file(path);
  }
}

}  // namespace

Result<Cache> Cache::open(const std::string& root, const BackendFacts& facts) {
  Cache cache;
  cache.root_ = root;
  while (cache.root_.size() > 1 && cache.root_.back() == '/') cache.root_.pop_back();
  cache.facts_ = facts;
  for (const char* folder : {"", "/models", "/engines"}) {
    OUTRIDER_TRY(make_folder(cache.root_ + folder));
    OUTRIDER_TRY(check_owner(cache.root_ + folder));
  }
  sweep_temporaries(cache.root_ + "/engines");
  return cache;
}

void Cache::add_outside(const ModelId& id, const std::string& path) {
  outside_[id.sha256] = path;
}

std::string Cache::model_path(const std::string& sha256) const {
  const auto outside = outside_.find(sha256);
  if (outside != outside_.end()) return outside->second;
  return root_ + "/models/" + sha16(sha256) + ".onnx";
}

int64_t Cache::model_bytes(const std::string& sha256) const {
  struct stat info {};
  if (::stat(model_path(sha256).c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return -1;
  return info.st_size;
}

Result<std::string> Cache::hash_model(const std::string& sha256, const std::atomic<bool>& stop,
                                      const std::function<void(double)>& progress) const {
  const std::string path = model_path(sha256);
  auto file = InputFile::open(path);
  if (!file) return file.error();
  const uint64_t size = file.value().size_bytes();
  Sha256 digest;
  std::vector<std::byte> piece(1u << 20);
  uint64_t done = 0;
  for (;;) {
    if (stop) return make_error(Code::kNotReady, "the server ends");
    auto n = file.value().read_at(done, piece);
    if (!n) return n.error();
    if (n.value() == 0) return digest.hex();
    digest.add(std::span(piece).first(n.value()));
    done += n.value();
    if (progress && size > 0) progress(static_cast<double>(done) / static_cast<double>(size));
  }
}

Result<void> Cache::write_model(const std::string& sha256, uint64_t offset,
                                std::span<const std::byte> bytes) {
  const std::string path = model_path(sha256);
  if (outside_.contains(sha256))
    return make_error(Code::kInvalid, "this model was given at the start and is not replaced");
  if (offset == 0 && remove_file(path) != 0) return system_error("cannot begin", path);
  auto opened = open_in_place(path, InPlace::kRegular, 0600);
  if (!opened) return opened.error();
  const Fd fd(opened.value());
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t n = ::pwrite(fd.get(), bytes.data() + done, bytes.size() - done,
                               static_cast<off_t>(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      const Error error = system_error("cannot write", path);
      remove_file(path);  // what cannot become whole takes no room
      return error;
    }
    done += static_cast<size_t>(n);
  }
  return {};
}

void Cache::remove_model(const std::string& sha256) {
  if (!outside_.contains(sha256)) remove_file(model_path(sha256));
}

// ---- what was built ---------------------------------------------------------------------------

std::string Cache::stem(const std::string& sha256) const {
  return root_ + "/engines/" + sha16(sha256) + "." + facts_.tag;
}

std::optional<ModelSpec> Cache::find_built(const std::string& sha256) const {
  const auto record = read_record(stem(sha256) + ".json");
  const Json* spec = record ? record->find("spec") : nullptr;
  if (spec == nullptr) return std::nullopt;
  auto read = spec_from_json(*spec);
  if (!read || read.value().id.sha256 != sha256) return std::nullopt;
  if (model_bytes(sha256) != read.value().id.nbytes) return std::nullopt;
  if (!is_plan_of(stem(sha256) + ".plan", sha256)) return std::nullopt;
  return std::move(read.value());
}

Result<void> Cache::save_built(const ModelSpec& spec, double build_seconds) {
  const std::string at = stem(spec.id.sha256);
  OUTRIDER_TRY(write_record(at + ".plan", plan_text(spec.id.sha256)));
  char seconds[32];
  std::snprintf(seconds, sizeof seconds, "%.3f", build_seconds);
  const std::string record = "{\"backend\":" + json_quoted(facts_.name) +
                             ",\"runtime_version\":" + json_quoted(facts_.runtime_version) +
                             ",\"device\":" + json_quoted(facts_.device) +
                             ",\"built_at\":" + std::to_string(std::time(nullptr)) +
                             ",\"build_seconds\":" + seconds + ",\"spec\":" + to_json(spec) + "}\n";
  OUTRIDER_TRY(write_record(at + ".json", record));
  prune();
  return {};
}

void Cache::remove_built(const std::string& sha256) {
  for (const char* suffix : {".plan", ".json"}) remove_file(stem(sha256) + suffix);
}

// The oldest beyond kKeepArtifacts go, of this backend's tag alone.
void Cache::prune() {
  std::vector<std::pair<int64_t, std::string>> all;
  const std::string folder = root_ + "/engines", suffix = "." + facts_.tag + ".json";
  for (const std::string& name : names_in(folder)) {
    if (name.size() != 16 + suffix.size() || !name.ends_with(suffix)) continue;
    struct stat info {};
    const std::string path = folder + "/" + name;
    if (::stat(path.c_str(), &info) == 0)
      all.emplace_back(int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec,
                       path.substr(0, path.size() - 5));
  }
  std::sort(all.begin(), all.end());
  for (size_t i = 0; i + kKeepArtifacts < all.size(); ++i)
    for (const char* end : {".plan", ".json"}) remove_file(all[i].second + end);
}

std::vector<std::string> Cache::built_models() const {
  std::vector<std::string> out;
  const std::string folder = root_ + "/engines", suffix = "." + facts_.tag + ".json";
  for (const std::string& name : names_in(folder)) {
    if (name.size() != 16 + suffix.size() || !name.ends_with(suffix)) continue;
    const auto record = read_record(folder + "/" + name);
    const Json* spec = record ? record->find("spec") : nullptr;
    const Json* sha = spec != nullptr ? spec->find("sha256") : nullptr;
    if (sha == nullptr || !sha->is_string() || !is_sha256(sha->text())) continue;
    if (name.starts_with(sha16(sha->text())) && find_built(sha->text())) out.push_back(sha->text());
  }
  std::sort(out.begin(), out.end());
  return out;
}

std::optional<ModelId> Cache::last_loaded() const {
  const auto record = read_record(root_ + "/last-loaded.json");
  if (!record) return std::nullopt;
  const Json* sha = record->find("sha256");
  const Json* skip = record->find("frame_skip");
  if (sha == nullptr || !sha->is_string() || !is_sha256(sha->text())) return std::nullopt;
  ModelId id{sha->text(), model_bytes(sha->text()), kDefaultFrameSkip};
  if (skip != nullptr && skip->is_integer() && skip->integer() >= 1 &&
      skip->integer() <= kMaxFrameSkip)
    id.frame_skip = static_cast<uint32_t>(skip->integer());
  return id;
}

void Cache::save_last_loaded(const ModelId& id) {
  const std::string text = "{\"sha256\":" + json_quoted(id.sha256) +
                           ",\"frame_skip\":" + std::to_string(id.frame_skip) +
                           ",\"backend\":" + json_quoted(facts_.name) + "}\n";
  if (auto saved = write_record(root_ + "/last-loaded.json", text); !saved)
    log_line(LogLevel::kWarn, "jetlink: %s", saved.error().text);
}

}  // namespace outrider::link::jetlink
