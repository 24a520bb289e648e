#include "owner/borrow/fd_pass.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/assert.h"

namespace outrider::owner {
namespace {

constexpr size_t kMaxPassed = 8;  // of one message, beyond it the kernel closes them

union Control {
  cmsghdr align;
  char bytes[CMSG_SPACE(kMaxPassed * sizeof(int))];
};

}  // namespace

int send_line(int socket, std::string_view line, std::span<const int> descriptors) noexcept {
  OUTRIDER_ASSERT(descriptors.size() <= kMaxPassed);
  iovec piece{const_cast<char*>(line.data()), line.size()};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  Control control{};
  if (!descriptors.empty()) {
    message.msg_control = control.bytes;
    message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
    cmsghdr* head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(descriptors.size_bytes());
    std::memcpy(CMSG_DATA(head), descriptors.data(), descriptors.size_bytes());
  }
  ssize_t sent = 0;
  do sent = ::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  while (sent < 0 && errno == EINTR);
  if (sent < 0) return -errno;
  // A peer that does not read its few lines is of no use: half a line is as bad as none.
  return static_cast<size_t>(sent) == line.size() ? 0 : -EAGAIN;
}

int receive_some(int socket, std::string& text, std::vector<Fd>& taken, size_t max_descriptors) {
  char bytes[4096];
  iovec piece{bytes, sizeof bytes};
  Control control{};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes;
  message.msg_controllen = sizeof control.bytes;
  ssize_t got = 0;
  do got = ::recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  while (got < 0 && errno == EINTR);
  if (got < 0) return -errno;
  std::vector<Fd> came;
  for (cmsghdr* head = CMSG_FIRSTHDR(&message); head != nullptr;
       head = CMSG_NXTHDR(&message, head)) {
    if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS) continue;
    const size_t n = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < n; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(head) + i * sizeof fd, sizeof fd);
      came.emplace_back(fd);
    }
  }
  const bool cut = (message.msg_flags & MSG_CTRUNC) != 0;
  for (Fd& fd : came)
    if (!cut && taken.size() < max_descriptors) taken.push_back(std::move(fd));
  if (got > 0) text.append(bytes, static_cast<size_t>(got));
  return static_cast<int>(got);
}

}  // namespace outrider::owner
