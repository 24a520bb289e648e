#include "loop/segment.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "support.h"

namespace outrider::loop {
namespace {

std::string own_name(const char* what) {
  return "outrider-test-" + std::to_string(::getpid()) + "-" + what;
}

struct Ports {
  SessionPtr session = open_fake();
  Payload inputs = input_payload(session.get(), three_states()).value();
  Payload outputs = output_payload(session.get(), {}).value();
};

TEST(LoopSegment, a_robot_finds_ports_and_rings_in_it) {
  const Ports ports;
  const std::string name = own_name("find");
  auto segment = Segment::make(name, ports.inputs, ports.outputs, {20000000, 18400000});
  ASSERT_TRUE(segment) << segment.error().text;
  const int fd = ::shm_open(("/" + name).c_str(), O_RDWR, 0);
  ASSERT_GE(fd, 0);
  struct stat info = {};
  ASSERT_EQ(::fstat(fd, &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u) << "for this user alone";
  void* base =
      ::mmap(nullptr, static_cast<size_t>(info.st_size), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  ASSERT_NE(base, MAP_FAILED);
  const auto* header = static_cast<outrider_loop_header*>(base);
  EXPECT_EQ(header->period_ns, 20000000);
  EXPECT_EQ(header->n_ports, 3u);
  EXPECT_EQ(header->owner_pid, static_cast<uint32_t>(::getpid()));
  EXPECT_EQ(header->segment_bytes, static_cast<uint64_t>(info.st_size));
  const auto* rows = reinterpret_cast<const outrider_loop_port*>(header + 1);
  EXPECT_STREQ(rows[1].name, "state");
  EXPECT_EQ(rows[1].offset, 72u);
  EXPECT_STREQ(rows[2].name, "actions");
  outrider_loop_view in, out;
  ASSERT_EQ(outrider_loop_attach(base, static_cast<uint64_t>(info.st_size), &in, &out), 0);
  EXPECT_EQ(in.payload_bytes, ports.inputs.bytes);
  outrider_loop_send(&in, std::vector<std::byte>(ports.inputs.bytes).data(), 5, 0);
  EXPECT_EQ(outrider_loop_head(&segment.value().observations()), 1u);
  { const Segment gone = std::move(segment.value()); }
  EXPECT_EQ(header->state, static_cast<uint32_t>(OUTRIDER_LOOP_STOPPED))
      << "who still looks sees the end";
  EXPECT_LT(::shm_open(("/" + name).c_str(), O_RDWR, 0), 0) << "the name is gone";
  ::munmap(base, static_cast<size_t>(info.st_size));
  ::close(fd);
}

TEST(LoopSegment, a_name_in_use_is_refused_and_one_left_by_a_dead_loop_is_taken) {
  const Ports ports;
  const std::string name = own_name("use");
  auto first = Segment::make(name, ports.inputs, ports.outputs, {});
  ASSERT_TRUE(first);
  auto second = Segment::make(name, ports.inputs, ports.outputs, {});
  ASSERT_FALSE(second);
  EXPECT_NE(std::string(second.error().text).find("belongs to a loop that runs"),
            std::string::npos);
  // Left behind: the object is there, its lock is not held.
  const std::string left = own_name("left");
  const int fd = ::shm_open(("/" + left).c_str(), O_RDWR | O_CREAT | O_EXCL, 0600);
  ASSERT_GE(fd, 0);
  ::close(fd);
  auto third = Segment::make(left, ports.inputs, ports.outputs, {});
  EXPECT_TRUE(third) << third.error().text;
}

TEST(LoopSegment, one_that_a_loop_left_whole_when_it_was_killed_is_taken) {
  const Ports ports;
  const std::string name = own_name("killed");
  const pid_t child = ::fork();
  if (child == 0) {
    auto made = Segment::make(name, ports.inputs, ports.outputs, {});
    ::_exit(made ? 0 : 1);  // nothing is removed
  }
  int status = 1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  ASSERT_TRUE(std::filesystem::exists("/dev/shm/" + name));
  auto next = Segment::make(name, ports.inputs, ports.outputs, {});
  EXPECT_TRUE(next) << next.error().text;
}

TEST(LoopSegment, what_no_loop_made_is_refused_and_stays) {
  const Ports ports;
  const std::string name = own_name("foreign"), path = "/dev/shm/" + name;
  std::ofstream(path) << "somebody else's numbers";
  auto made = Segment::make(name, ports.inputs, ports.outputs, {});
  EXPECT_EQ(made.code(), Code::kInvalid);
  EXPECT_NE(made.error().message().find("no loop made it"), std::string::npos);
  EXPECT_EQ(std::filesystem::file_size(path), 23u);
  std::filesystem::remove(path);
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_EQ(Segment::make(name, ports.inputs, ports.outputs, {}).code(), Code::kInvalid);
  EXPECT_TRUE(std::filesystem::is_fifo(path));
  std::filesystem::remove(path);
}

TEST(LoopSegment, an_end_removes_its_own_memory_and_no_other_of_that_name) {
  const Ports ports;
  const std::string name = own_name("other"), path = "/dev/shm/" + name;
  {
    auto made = Segment::make(name, ports.inputs, ports.outputs, {});
    ASSERT_TRUE(made);
    std::filesystem::remove(path);
    std::ofstream(path) << "another's";
  }
  EXPECT_TRUE(std::filesystem::exists(path));
  std::filesystem::remove(path);
}

TEST(LoopSegment, names_that_are_paths_are_refused) {
  const Ports ports;
  for (const std::string name : {"../etc/passwd", "a/b", ".hidden", "a b", "a\n", "\xff"}) {
    const auto made = Segment::make(name, ports.inputs, ports.outputs, {});
    EXPECT_EQ(made.code(), Code::kInvalid) << name;
  }
  EXPECT_EQ(Segment::make(std::string(201, 'a'), ports.inputs, ports.outputs, {}).code(),
            Code::kInvalid);
}

}  // namespace
}  // namespace outrider::loop
