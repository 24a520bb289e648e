#include "loop/segment.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

namespace outrider::loop {
namespace {

uint64_t whole_lines(uint64_t bytes) {
  return (bytes + 63) / 64 * 64;
}

outrider_loop_place place(uint64_t& end, uint32_t n_slots, uint64_t payload_bytes) {
  outrider_loop_place p = {};
  p.offset = end;
  p.n_slots = n_slots;
  p.payload_bytes = static_cast<uint32_t>(payload_bytes);
  p.slot_bytes = static_cast<uint32_t>(whole_lines(OUTRIDER_LOOP_SLOT_HEADER + payload_bytes));
  end += sizeof(outrider_loop_ring) + uint64_t{n_slots} * p.slot_bytes;
  return p;
}

Result<void> check_name(const std::string& name) {
  bool fine = !name.empty() && name.size() <= 200 && name[0] != '.';
  for (const char c : name)
    fine = fine && ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                    c == '.' || c == '_' || c == '-');
  if (fine) return {};
  return make_error(Code::kInvalid,
                    "loop: shm:%.80s: a name is 1 to 200 letters, digits, \".\", \"_\" and \"-\", "
                    "the first no dot",
                    name.c_str());
}

// What a loop of this user made, of this version or another, or died making: anything else under
// the name is somebody else's.
bool is_left_over(int fd) {
  struct stat info {};
  if (::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode) || info.st_uid != ::geteuid()) return false;
  uint64_t magic = 0;
  return info.st_size == 0 || (::pread(fd, &magic, sizeof magic, 0) == ssize_t{sizeof magic} &&
                               magic == OUTRIDER_LOOP_MAGIC);
}

// The name may lead to another object by now.
void remove_name(const std::string& path, int fd) {
  struct stat mine {
  }, there{};
  const int now = ::shm_open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0);
  const bool same = now >= 0 && ::fstat(now, &there) == 0 && ::fstat(fd, &mine) == 0 &&
                    mine.st_dev == there.st_dev && mine.st_ino == there.st_ino;
  if (same) ::shm_unlink(path.c_str());
  if (now >= 0) ::close(now);
}

// A fresh object that this process alone holds the lock of.
Result<int> open_fresh(const std::string& path) {
  for (int n_tries = 0; n_tries < 3; ++n_tries) {
    const int fd = ::shm_open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd >= 0) {
      if (::flock(fd, LOCK_EX | LOCK_NB) == 0) return fd;
      ::close(fd);
      continue;
    }
    if (errno != EEXIST)
      return make_error(Code::kNotFound, "cannot open shared memory %.200s: %s", path.c_str(),
                        std::strerror(errno));
    const int left = ::shm_open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK, 0);
    if (left < 0) {
      if (errno == ENOENT) continue;
      return make_error(Code::kNotFound,
                        "cannot open shared memory %.200s: %s; choose another name", path.c_str(),
                        std::strerror(errno));
    }
    // Who made it holds the lock as long as it lives.
    const bool dead = ::flock(left, LOCK_EX | LOCK_NB) == 0, ours = is_left_over(left);
    if (dead && ours) ::shm_unlink(path.c_str());
    ::close(left);
    if (dead && !ours)
      return make_error(Code::kInvalid,
                        "loop: shared memory %.200s is there and no loop made it; choose another "
                        "name, or remove it when nobody needs it",
                        path.c_str());
    if (!dead)
      return make_error(
          Code::kInvalid,
          "loop: shared memory %.200s belongs to a loop that runs; choose another name",
          path.c_str());
  }
  return make_error(Code::kNotFound,
                    "cannot open shared memory %.200s: others make and remove it meanwhile",
                    path.c_str());
}

}  // namespace

Result<Segment> Segment::make(const std::string& name, const Payload& inputs,
                              const Payload& outputs, const Times& times) {
  outrider_loop_header header = {};
  header.magic = OUTRIDER_LOOP_MAGIC;
  header.version = OUTRIDER_LOOP_VERSION;
  header.period_ns = times.period_ns;
  header.deadline_ns = times.deadline_ns;
  header.owner_pid = static_cast<uint32_t>(::getpid());
  header.n_ports = static_cast<uint32_t>(inputs.slots.size() + outputs.slots.size());
  uint64_t end = whole_lines(sizeof header + header.n_ports * sizeof(outrider_loop_port));
  header.observations = place(end, kObservationSlots, inputs.bytes);
  header.actions = place(end, kActionSlots, outputs.bytes);
  header.segment_bytes = end;

  Segment segment;
  segment.bytes_ = end;
  int flags = MAP_PRIVATE | MAP_ANONYMOUS;
  if (!name.empty()) {
    OUTRIDER_TRY(check_name(name));
    auto fd = open_fresh("/" + name);
    if (!fd) return fd.error();
    segment.fd_ = fd.value();
    segment.name_ = "/" + name;
    flags = MAP_SHARED;
    // Room is taken now: a full /dev/shm is an error here, not a signal in a tick.
    if (const int failed = ::posix_fallocate(segment.fd_, 0, static_cast<off_t>(end)); failed != 0)
      return make_error(Code::kNoMemory, "loop: %llu bytes of shared memory: %s",
                        static_cast<unsigned long long>(end), std::strerror(failed));
  }
  void* base = ::mmap(nullptr, end, PROT_READ | PROT_WRITE, flags | MAP_POPULATE, segment.fd_, 0);
  if (base == MAP_FAILED)
    return make_error(Code::kNoMemory, "loop: %llu bytes for frames: %s",
                      static_cast<unsigned long long>(end), std::strerror(errno));
  segment.base_ = base;
  auto* rows = reinterpret_cast<outrider_loop_port*>(static_cast<std::byte*>(base) + sizeof header);
  for (const Slot& slot : inputs.slots) *rows++ = port_row(slot);
  for (const Slot& slot : outputs.slots) *rows++ = port_row(slot);
  // A peer that attaches now sees no magic yet.
  const uint64_t magic = std::exchange(header.magic, 0);
  std::memcpy(base, &header, sizeof header);
  __atomic_store_n(static_cast<uint64_t*>(base), magic, __ATOMIC_RELEASE);
  if (outrider_loop_attach(base, end, &segment.observations_, &segment.actions_) != 0)
    return make_error(Code::kInvalid, "loop: frames of %llu and %llu bytes are too large",
                      static_cast<unsigned long long>(inputs.bytes),
                      static_cast<unsigned long long>(outputs.bytes));
  return segment;
}

Segment::Segment(Segment&& other) noexcept
    : name_(std::exchange(other.name_, {})),
      fd_(std::exchange(other.fd_, -1)),
      base_(std::exchange(other.base_, nullptr)),
      bytes_(other.bytes_),
      observations_(other.observations_),
      actions_(other.actions_) {}

Segment::~Segment() {
  if (base_ != nullptr) {
    set_state(OUTRIDER_LOOP_STOPPED);
    ::munmap(base_, bytes_);
  }
  if (!name_.empty()) remove_name(name_, fd_);
  if (fd_ >= 0) ::close(fd_);
}

void Segment::set_state(uint32_t state) noexcept {
  __atomic_store_n(&static_cast<outrider_loop_header*>(base_)->state, state, __ATOMIC_RELEASE);
}

}  // namespace outrider::loop
