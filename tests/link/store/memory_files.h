// A file system in memory that keeps apart what is in the caches and what is on the disk. It can
// fail any one operation, run out of room, lose its power before any operation, and come back with
// any part of what was not flushed: names there or not, bytes there, missing, torn or zero.
#pragma once
#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "link/store/files.h"

namespace outrider::store {

class MemoryFiles final : public Files {
 public:
  static constexpr uint64_t kNever = UINT64_MAX;
  static constexpr uint64_t kSectorBytes = 512;

  // What of the unflushed survives a loss of power.
  struct Survival {
    enum class How : uint8_t { kNothing, kEverything, kNamesOnly, kBytesOnly, kRandom };
    How how = How::kNothing;
    uint64_t seed = 0;  // of kRandom
  };

  MemoryFiles();

  uint64_t n_operations() const { return n_operations_; }
  // Operations are counted from 0. The power goes before that one.
  void cut_power_at(uint64_t operation) { power_off_at_ = operation; }
  bool has_power() const { return n_operations_ <= power_off_at_; }
  void fail_at(uint64_t operation, int cause) {
    fail_at_ = operation;
    fail_cause_ = cause;
  }
  bool failed() const { return n_operations_ > fail_at_; }
  const std::string& failed_name() const { return failed_name_; }
  // Power is back; nothing is open or locked.
  void reboot(const Survival& survival);

  void set_capacity(uint64_t bytes) { capacity_bytes_ = bytes; }
  void set_free_inodes(uint64_t n) { free_inodes_ = n; }
  void set_read_only(bool read_only) { read_only_ = read_only; }
  void advance_ns(int64_t ns) { wall_ns_ += ns; }
  uint64_t used_bytes() const;
  size_t n_open() const { return handles_.size(); }

  // Without being an operation.
  bool exists(const std::string& path) { return find(path) != nullptr; }
  std::string content(const std::string& path);
  void put(const std::string& path, std::string bytes);  // made in an existing folder, or changed
  void flip_byte(const std::string& path, uint64_t offset, bool keep_times);
  std::vector<std::string> names(const std::string& path);

  int open(const std::string& path, OpenHow how, int* handle) override;
  void close(int handle) noexcept override;
  int read(int handle, uint64_t offset, std::span<std::byte> bytes, size_t* n_read) override;
  int write(int handle, uint64_t offset, std::span<const std::byte> bytes,
            size_t* n_written) override;
  int truncate(int handle, uint64_t size_bytes) override;
  int reserve(int handle, uint64_t size_bytes) override;
  int sync(int handle) override;
  int info(int handle, FileInfo* info) override;
  int touch(int handle) override;
  int lock(int handle, LockHow how) override;
  int make_folder(const std::string& path) override;
  int remove_folder(const std::string& path) override;
  int unlink(const std::string& path) override;
  int rename(const std::string& from, const std::string& to) override;
  int info(const std::string& path, FileInfo* info) override;
  int list(const std::string& path, size_t max_names, std::vector<std::string>* names) override;
  int sync_folder(const std::string& path) override;
  int space(FreeSpace* space) override;
  int64_t wall_ns() override { return wall_ns_; }
  void pause_ns(int64_t ns) override { wall_ns_ += ns; }
  std::string path_of(const std::string& path) const override { return "/store/" + path; }

 private:
  struct Node;
  using NodePtr = std::shared_ptr<Node>;
  using Names = std::map<std::string, NodePtr>;
  // Bytes at an offset, or a new size.
  struct Change {
    bool is_write = true;
    uint64_t offset = 0;
    std::string bytes;
  };
  // At once: `removed` goes ("" none), `added` becomes `node` ("" none).
  struct NameChange {
    std::string removed, added;
    NodePtr node;
  };
  struct Node {
    bool is_folder = false;
    uint64_t inode = 0, reserved_bytes = 0;
    int64_t mtime_ns = 0, ctime_ns = 0;
    std::string now, safe;
    std::vector<Change> unsynced;
    Names names, safe_names;
    std::vector<NameChange> unsynced_names;
    std::map<int, LockHow> locks;
    uint64_t taken_bytes() const { return std::max<uint64_t>(now.size(), reserved_bytes); }
  };
  struct Handle {
    NodePtr node;
    bool may_write = false;
  };

  int step(const char* name);    // counts; the errno this operation ends with, or 0
  int change(const char* name);  // step of an operation that changes something
  NodePtr new_node(bool is_folder);
  NodePtr find(const std::string& path);
  NodePtr folder_of(const std::string& path, std::string* leaf);
  void rename_in(Node& folder, NameChange change);
  static void apply(std::string* bytes, const Change& change);
  static void apply(Names* names, const NameChange& change);
  void survive(Node& node, const Survival& survival, std::mt19937_64& rng);
  Handle* handle_of(int handle);

  NodePtr root_;
  std::map<int, Handle> handles_;
  int next_handle_ = 3;
  uint64_t next_inode_ = 1, n_operations_ = 0;
  uint64_t power_off_at_ = kNever - 1, fail_at_ = kNever;
  int fail_cause_ = 0;
  std::string failed_name_;
  uint64_t capacity_bytes_ = uint64_t{1} << 40, free_inodes_ = UINT64_MAX;
  bool read_only_ = false;
  int64_t wall_ns_ = 1'700'000'000'123'456'789;
};

}  // namespace outrider::store
