// Two processes of a test, each with a simulated driver of its own, and a line between them.
#pragma once

#include <sys/socket.h>

#include <cstring>
#include <functional>

#include "tests/tools/simcuda/simulated.h"

namespace cuheap::testing {

// One end of the line.
class Line {
 public:
  explicit Line(int socket) : socket_(socket) {}

  template <typename T>
  void Send(const T& value) {
    EXPECT_EQ(send(socket_, &value, sizeof value, MSG_NOSIGNAL), static_cast<ssize_t>(sizeof value));
  }
  template <typename T>
  T Receive() {
    T value{};
    EXPECT_EQ(recv(socket_, &value, sizeof value, MSG_WAITALL), static_cast<ssize_t>(sizeof value));
    return value;
  }
  // False when the other side is gone.
  template <typename T>
  bool TryReceive(T* value) {
    return recv(socket_, value, sizeof *value, MSG_WAITALL) == static_cast<ssize_t>(sizeof *value);
  }
  // Waits until the other side has come as far.
  void Meet() {
    Send('.');
    Receive<char>();
  }
  void SendDescriptor(int descriptor) {
    char byte = '.';
    iovec data{&byte, 1};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr message{};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
    EXPECT_EQ(sendmsg(socket_, &message, MSG_NOSIGNAL), 1);
  }
  int ReceiveDescriptor() {
    char byte = 0;
    iovec data{&byte, 1};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr message{};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    EXPECT_EQ(recvmsg(socket_, &message, 0), 1);
    int descriptor = -1;
    if (const cmsghdr* header = CMSG_FIRSTHDR(&message)) {
      std::memcpy(&descriptor, CMSG_DATA(header), sizeof descriptor);
    }
    return descriptor;
  }

 private:
  int socket_;
};

// Runs both at once; failures in either are the test's. The line is cut when a side ends, so neither waits for ever.
inline void SimulateTwo(const Environment& environment, const std::function<void(Line&)>& first,
                        const std::function<void(Line&)>& second) {
  int ends[2] = {-1, -1};
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  std::fflush(nullptr);
  const auto start = [&](int mine, const std::function<void(Line&)>& body) {
    const pid_t child = fork();
    if (child != 0) return child;
    close(ends[1 - mine]);
    for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
    Line line(ends[mine]);
    body(line);
    std::fflush(nullptr);
    std::exit(::testing::Test::HasFailure() ? 1 : 0);
  };
  const pid_t children[2] = {start(0, first), start(1, second)};
  close(ends[0]);
  close(ends[1]);
  for (int i = 0; i < 2; ++i) {
    int status = 0;
    waitpid(children[i], &status, 0);
    EXPECT_EQ(status, 0) << (i == 0 ? "the first" : "the second") << " process";
  }
}

}  // namespace cuheap::testing
