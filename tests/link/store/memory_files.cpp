#include "link/store/memory_files.h"

#include <cerrno>
#include <functional>
#include <set>

#include "base/assert.h"

namespace outrider::store {

MemoryFiles::MemoryFiles() : root_(new_node(true)) {}

MemoryFiles::NodePtr MemoryFiles::new_node(bool is_folder) {
  auto node = std::make_shared<Node>();
  node->is_folder = is_folder;
  node->inode = next_inode_++;
  node->mtime_ns = node->ctime_ns = wall_ns_;
  return node;
}

int MemoryFiles::step(const char* name) {
  wall_ns_ += 1000;
  if (n_operations_ >= power_off_at_) {
    n_operations_ = power_off_at_ + 1;
    return EIO;
  }
  if (n_operations_++ != fail_at_) return 0;
  failed_name_ = name;
  return fail_cause_;
}

int MemoryFiles::change(const char* name) {
  const int cause = step(name);
  return cause == 0 && read_only_ ? EROFS : cause;
}

MemoryFiles::NodePtr MemoryFiles::folder_of(const std::string& path, std::string* leaf) {
  const size_t slash = path.find('/');
  *leaf = slash == std::string::npos ? path : path.substr(slash + 1);
  OUTRIDER_ASSERT(!leaf->empty() && leaf->find('/') == std::string::npos && (*leaf)[0] != '.');
  if (slash == std::string::npos) return root_;
  const auto found = root_->names.find(path.substr(0, slash));
  return found == root_->names.end() || !found->second->is_folder ? nullptr : found->second;
}

MemoryFiles::NodePtr MemoryFiles::find(const std::string& path) {
  if (path.empty()) return root_;
  std::string leaf;
  const NodePtr folder = folder_of(path, &leaf);
  if (!folder) return nullptr;
  const auto found = folder->names.find(leaf);
  return found == folder->names.end() ? nullptr : found->second;
}

void MemoryFiles::apply(std::string* bytes, const Change& change) {
  if (!change.is_write) {
    bytes->resize(change.offset);
    return;
  }
  bytes->resize(std::max<size_t>(bytes->size(), change.offset + change.bytes.size()));
  std::copy(change.bytes.begin(), change.bytes.end(),
            bytes->begin() + static_cast<std::ptrdiff_t>(change.offset));
}

void MemoryFiles::apply(Names* names, const NameChange& change) {
  if (!change.removed.empty()) names->erase(change.removed);
  if (!change.added.empty()) (*names)[change.added] = change.node;
}

void MemoryFiles::rename_in(Node& folder, NameChange change) {
  apply(&folder.names, change);
  folder.unsynced_names.push_back(std::move(change));
  folder.mtime_ns = wall_ns_;
}

MemoryFiles::Handle* MemoryFiles::handle_of(int handle) {
  const auto found = handles_.find(handle);
  return found == handles_.end() ? nullptr : &found->second;
}

int MemoryFiles::open(const std::string& path, OpenHow how, int* handle) {
  if (const int cause = step("open"); cause != 0) return cause;
  std::string leaf;
  const NodePtr folder = folder_of(path, &leaf);
  if (!folder) return ENOENT;
  NodePtr node = find(path);
  if (how != OpenHow::kRead && read_only_) return EROFS;
  if (!node) {
    if (how != OpenHow::kCreate) return ENOENT;
    if (free_inodes_ == 0) return ENOSPC;
    node = new_node(false);
    rename_in(*folder, {"", leaf, node});
  }
  if (node->is_folder) return EINVAL;
  *handle = next_handle_++;
  handles_[*handle] = {node, how != OpenHow::kRead};
  return 0;
}

void MemoryFiles::close(int handle) noexcept {
  if (Handle* found = handle_of(handle); found != nullptr) {
    found->node->locks.erase(handle);
    handles_.erase(handle);
  }
}

int MemoryFiles::read(int handle, uint64_t offset, std::span<std::byte> bytes, size_t* n_read) {
  *n_read = 0;
  if (const int cause = step("read"); cause != 0) return cause;
  const Handle* found = handle_of(handle);
  if (found == nullptr) return EBADF;
  const std::string& now = found->node->now;
  if (offset >= now.size()) return 0;
  *n_read = std::min<size_t>(bytes.size(), now.size() - offset);
  const auto from = std::as_bytes(std::span(now)).subspan(offset, *n_read);
  std::copy(from.begin(), from.end(), bytes.begin());
  return 0;
}

int MemoryFiles::write(int handle, uint64_t offset, std::span<const std::byte> bytes,
                       size_t* n_written) {
  *n_written = 0;
  if (const int cause = change("write"); cause != 0) return cause;
  const Handle* found = handle_of(handle);
  if (found == nullptr || !found->may_write) return EBADF;
  Node& node = *found->node;
  // As real ones do: what still fits is written, and only the next write fails.
  const uint64_t taken = node.taken_bytes(),
                 free = capacity_bytes_ - std::min(capacity_bytes_, used_bytes());
  const uint64_t may_reach = std::max(taken + free, offset);
  const auto n = static_cast<size_t>(std::min<uint64_t>(bytes.size(), may_reach - offset));
  if (n == 0 && !bytes.empty()) return ENOSPC;
  Change made{true, offset, std::string(reinterpret_cast<const char*>(bytes.data()), n)};
  apply(&node.now, made);
  node.unsynced.push_back(std::move(made));
  node.mtime_ns = node.ctime_ns = wall_ns_;
  *n_written = n;
  return 0;
}

int MemoryFiles::truncate(int handle, uint64_t size_bytes) {
  if (const int cause = change("truncate"); cause != 0) return cause;
  const Handle* found = handle_of(handle);
  if (found == nullptr || !found->may_write) return EBADF;
  Change made{false, size_bytes, {}};
  apply(&found->node->now, made);
  found->node->unsynced.push_back(std::move(made));
  found->node->reserved_bytes = 0;
  found->node->mtime_ns = found->node->ctime_ns = wall_ns_;
  return 0;
}

int MemoryFiles::reserve(int handle, uint64_t size_bytes) {
  if (const int cause = change("reserve"); cause != 0) return cause;
  const Handle* found = handle_of(handle);
  if (found == nullptr || !found->may_write) return EBADF;
  Node& node = *found->node;
  if (size_bytes <= node.taken_bytes()) return 0;
  if (used_bytes() - node.taken_bytes() + size_bytes > capacity_bytes_) return ENOSPC;
  node.reserved_bytes = size_bytes;
  node.ctime_ns = wall_ns_;
  return 0;
}

// A failed flush loses what it should have written: the caches are clean, the disk is not.
int MemoryFiles::sync(int handle) {
  const int cause = step("sync");
  const Handle* found = handle_of(handle);
  if (found == nullptr) return cause != 0 ? cause : EBADF;
  if (n_operations_ > power_off_at_) return cause;
  Node& node = *found->node;
  for (const Change& made : node.unsynced)
    if (cause == 0) apply(&node.safe, made);
  node.unsynced.clear();
  return cause;
}

int MemoryFiles::info(int handle, FileInfo* info) {
  if (const int cause = step("info"); cause != 0) return cause;
  const Handle* found = handle_of(handle);
  if (found == nullptr) return EBADF;
  const Node& node = *found->node;
  *info = {!node.is_folder, node.is_folder, node.now.size(), node.taken_bytes(), 1,
           node.inode,      node.mtime_ns,  node.ctime_ns};
  return 0;
}

int MemoryFiles::info(const std::string& path, FileInfo* info) {
  if (const int cause = step("info"); cause != 0) return cause;
  const NodePtr found = find(path);
  if (!found) return ENOENT;
  const Node& node = *found;
  *info = {!node.is_folder, node.is_folder, node.now.size(), node.taken_bytes(), 1,
           node.inode,      node.mtime_ns,  node.ctime_ns};
  return 0;
}

int MemoryFiles::touch(int handle) {
  if (const int cause = change("touch"); cause != 0) return cause;
  handle_of(handle)->node->mtime_ns = wall_ns_;
  return 0;
}

int MemoryFiles::lock(int handle, LockHow how) {
  if (const int cause = step("lock"); cause != 0) return cause;
  Node& node = *handle_of(handle)->node;
  for (const auto& [other, other_how] : node.locks)
    if (other != handle && (how == LockHow::kExclusive || other_how == LockHow::kExclusive))
      return EWOULDBLOCK;
  node.locks[handle] = how;
  return 0;
}

int MemoryFiles::make_folder(const std::string& path) {
  if (const int cause = change("make_folder"); cause != 0) return cause;
  if (free_inodes_ == 0) return ENOSPC;
  if (find(path)) return EEXIST;
  std::string leaf;
  rename_in(*folder_of(path, &leaf), {"", path, new_node(true)});
  return 0;
}

int MemoryFiles::remove_folder(const std::string& path) {
  if (const int cause = change("remove_folder"); cause != 0) return cause;
  const NodePtr node = find(path);
  if (!node) return ENOENT;
  if (!node->is_folder) return ENOTDIR;
  if (!node->names.empty()) return ENOTEMPTY;
  rename_in(*root_, {path, "", nullptr});
  return 0;
}

int MemoryFiles::unlink(const std::string& path) {
  if (const int cause = change("unlink"); cause != 0) return cause;
  std::string leaf;
  const NodePtr folder = folder_of(path, &leaf), node = find(path);
  if (!node) return ENOENT;
  if (node->is_folder) return EISDIR;
  rename_in(*folder, {leaf, "", nullptr});
  return 0;
}

int MemoryFiles::rename(const std::string& from, const std::string& to) {
  if (const int cause = change("rename"); cause != 0) return cause;
  std::string from_leaf, to_leaf;
  const NodePtr folder = folder_of(from, &from_leaf), target = folder_of(to, &to_leaf);
  OUTRIDER_ASSERT(folder == target);  // the contract of Files promises nothing for others
  const NodePtr node = find(from), old = find(to);
  if (!node) return ENOENT;
  if (old && old->is_folder && !old->names.empty()) return ENOTEMPTY;
  rename_in(*folder, {from_leaf, to_leaf, node});
  return 0;
}

int MemoryFiles::list(const std::string& path, size_t max_names, std::vector<std::string>* names) {
  if (const int cause = step("list"); cause != 0) return cause;
  const NodePtr node = find(path);
  if (!node) return ENOENT;
  if (!node->is_folder) return ENOTDIR;
  if (node->names.size() > max_names) return E2BIG;
  names->clear();
  for (const auto& [name, child] : node->names) names->push_back(name);
  return 0;
}

int MemoryFiles::sync_folder(const std::string& path) {
  if (const int cause = step("sync_folder"); cause != 0) return cause;
  const NodePtr node = find(path);
  if (!node) return ENOENT;
  for (const NameChange& made : node->unsynced_names) apply(&node->safe_names, made);
  node->unsynced_names.clear();
  return 0;
}

int MemoryFiles::space(FreeSpace* space) {
  if (const int cause = step("space"); cause != 0) return cause;
  *space = {capacity_bytes_ - std::min(capacity_bytes_, used_bytes()), free_inodes_};
  return 0;
}

uint64_t MemoryFiles::used_bytes() const {
  std::set<const Node*> nodes;
  const std::function<void(const Node&)> visit = [&](const Node& node) {
    for (const auto& [name, child] : node.names)
      if (nodes.insert(child.get()).second) visit(*child);
  };
  visit(*root_);
  for (const auto& [number, handle] : handles_) nodes.insert(handle.node.get());
  uint64_t total = 0;
  for (const Node* node : nodes) total += node->taken_bytes();
  return total;
}

// What the disk has when the power is back.
void MemoryFiles::survive(Node& node, const Survival& survival, std::mt19937_64& rng) {
  using How = Survival::How;
  const bool random = survival.how == How::kRandom;
  const bool all_bytes = survival.how == How::kEverything || survival.how == How::kBytesOnly;
  const bool all_names = survival.how == How::kEverything || survival.how == How::kNamesOnly;
  for (Change& made : node.unsynced) {
    const uint64_t fate = random ? rng() % 4 : all_bytes ? 0 : 1;
    if (fate == 1) continue;
    if (fate == 2) {  // torn at a sector
      const uint64_t sectors = (made.offset + made.bytes.size()) / kSectorBytes;
      const uint64_t end = rng() % (sectors + 1) * kSectorBytes;
      made.bytes.resize(end > made.offset ? std::min<size_t>(made.bytes.size(), end - made.offset)
                                          : 0);
    }
    if (fate == 3 && made.is_write) {  // the size is there, the bytes are not
      std::string& safe = node.safe;
      safe.resize(std::max<size_t>(safe.size(), made.offset + made.bytes.size()));
      continue;
    }
    apply(&node.safe, made);
  }
  for (const NameChange& made : node.unsynced_names)
    if (random ? rng() % 2 == 0 : all_names) apply(&node.safe_names, made);
  node.unsynced.clear();
  node.unsynced_names.clear();
  node.now = node.safe;
  node.names = node.safe_names;
  node.reserved_bytes = 0;
  node.locks.clear();
  for (const auto& [name, child] : node.names) survive(*child, survival, rng);
}

void MemoryFiles::reboot(const Survival& survival) {
  std::mt19937_64 rng(survival.seed);
  handles_.clear();
  survive(*root_, survival, rng);
  power_off_at_ = kNever - 1;
  fail_at_ = kNever;
  n_operations_ = 0;
  wall_ns_ += 60'000'000'000;
}

std::string MemoryFiles::content(const std::string& path) {
  const NodePtr node = find(path);
  return node ? node->now : std::string();
}

void MemoryFiles::put(const std::string& path, std::string bytes) {
  std::string leaf;
  const NodePtr folder = folder_of(path, &leaf);
  NodePtr node = find(path);
  if (!node) folder->names[leaf] = folder->safe_names[leaf] = node = new_node(false);
  node->now = node->safe = std::move(bytes);
  node->mtime_ns = node->ctime_ns = wall_ns_;
}

void MemoryFiles::flip_byte(const std::string& path, uint64_t offset, bool keep_times) {
  const NodePtr node = find(path);
  node->now[offset] = static_cast<char>(node->now[offset] ^ 1);
  node->safe = node->now;
  if (!keep_times) node->mtime_ns = node->ctime_ns = wall_ns_;
}

std::vector<std::string> MemoryFiles::names(const std::string& path) {
  std::vector<std::string> names;
  if (const NodePtr node = find(path))
    for (const auto& [name, child] : node->names) names.push_back(name);
  return names;
}

}  // namespace outrider::store
