#include "tests/interpose/semantics/two_processes.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "tests/interpose/semantics/scene.h"

namespace semantics {
namespace {

constexpr const char* kSocketVariable = "SEMANTICS_SECOND";
constexpr const char* kPreloadVariable = "SEMANTICS_SECOND_PRELOAD";

[[noreturn]] void End(const char* why) {
  std::printf("UNEXPECTED: %s\n", why);
  std::fflush(nullptr);
  std::exit(0);
}

std::vector<std::string> SecondEnvironment(int socket) {
  std::vector<std::string> environment;
  const char* preload = std::getenv(kPreloadVariable);
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (preload == nullptr || std::strncmp(*variable, "LD_PRELOAD=", 11) != 0) environment.emplace_back(*variable);
  }
  if (preload != nullptr && *preload != '\0') environment.push_back(std::string("LD_PRELOAD=") + preload);
  environment.push_back(std::string(kSocketVariable) + "=" + std::to_string(socket));
  return environment;
}

pid_t Start(const char* scene, int socket, int output) {
  std::vector<std::string> environment = SecondEnvironment(socket);
  std::vector<char*> variables;
  for (std::string& variable : environment) variables.push_back(variable.data());
  variables.push_back(nullptr);
  std::string program = "/proc/self/exe", name = scene;
  char* arguments[] = {program.data(), name.data(), nullptr};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  pid_t child = -1;
  if (posix_spawn(&child, program.c_str(), &actions, nullptr, arguments, variables.data()) != 0) End("a second process");
  posix_spawn_file_actions_destroy(&actions);
  return child;
}

// What the second process printed, and how it ended.
void Finish(pid_t child, int output) {
  char text[4096];
  for (ssize_t size = 0; (size = read(output, text, sizeof(text))) > 0;) {
    std::fwrite(text, 1, static_cast<std::size_t>(size), stdout);
  }
  close(output);
  int status = 0;
  waitpid(child, &status, 0);
  Expect(status == 0, "the second process's exit with 0");
}

}  // namespace

void Line::SendBytes(const void* bytes, std::size_t size) {
  if (send(socket_, bytes, size, MSG_NOSIGNAL) != static_cast<ssize_t>(size)) End("the other process is gone");
}

void Line::ReceiveBytes(void* bytes, std::size_t size) {
  if (recv(socket_, bytes, size, MSG_WAITALL) != static_cast<ssize_t>(size)) End("the other process is gone");
}

void Line::WaitForEnd() {
  char byte = 0;
  Expect(recv(socket_, &byte, 1, 0) == 0, "the other process's end");
}

void Line::SendDescriptor(int descriptor) {
  char byte = '.';
  iovec data{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &descriptor, sizeof(descriptor));
  if (sendmsg(socket_, &message, MSG_NOSIGNAL) != 1) End("the other process is gone");
}

int Line::ReceiveDescriptor() {
  char byte = 0;
  iovec data{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  int descriptor = -1;
  if (recvmsg(socket_, &message, 0) != 1) End("the other process is gone");
  if (const cmsghdr* header = CMSG_FIRSTHDR(&message)) {
    std::memcpy(&descriptor, CMSG_DATA(header), sizeof(descriptor));
  }
  return descriptor;
}

void RunTwo(const char* scene, void (*first)(Line& line), void (*second)(Line& line)) {
  if (const char* socket = std::getenv(kSocketVariable)) {
    Line line(std::atoi(socket));
    return second(line);
  }
  int ends[2] = {-1, -1}, output[2] = {-1, -1};
  // Only what the second process needs stays open there.
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0 || pipe2(output, O_CLOEXEC) != 0) End("a line");
  fcntl(ends[0], F_SETFD, FD_CLOEXEC);
  const pid_t child = Start(scene, ends[1], output[1]);
  close(ends[1]);
  close(output[1]);
  Line line(ends[0]);
  first(line);
  Finish(child, output[0]);
  close(ends[0]);
}

}  // namespace semantics
