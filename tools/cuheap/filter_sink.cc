#include "tools/cuheap/filter_sink.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

extern char** environ;  // NOLINT(readability-redundant-declaration): unistd.h has it for GNU only

namespace cuheap::tools {
namespace {

constexpr std::size_t kBufferBytes = 256u << 10;
constexpr std::size_t kComplaintBytes = 16u << 10;  // of standard error: its end

void Close(int& descriptor) {
  if (descriptor >= 0) close(descriptor);
  descriptor = -1;
}

// All are closed in programs that are started, and at the end of this.
struct Channels {
  // Sockets, since sending to one that is closed can be told from a signal.
  std::array<int, 2> input{-1, -1};
  std::array<int, 2> output{-1, -1}, complaints{-1, -1};
  bool Open() {
    return socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, input.data()) == 0 &&
           pipe2(output.data(), O_CLOEXEC) == 0 && pipe2(complaints.data(), O_CLOEXEC) == 0;
  }
  ~Channels() {
    for (std::array<int, 2>* pair : {&input, &output, &complaints}) {
      for (int& descriptor : *pair) Close(descriptor);
    }
  }
};

// 0, or errno.
int Spawn(const std::vector<std::string>& command, const Channels& channels, pid_t* pid) {
  std::vector<char*> words;
  words.reserve(command.size() + 1);
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));  // exec does not write
  words.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, channels.input[1], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, channels.output[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, channels.complaints[1], STDERR_FILENO);
  const int error = posix_spawnp(pid, words[0], &actions, nullptr, words.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  return error;
}

}  // namespace

absl::StatusOr<std::unique_ptr<FilterSink>> FilterSink::Start(const std::vector<std::string>& command,
                                                              std::string_view ready) {
  Channels channels;
  if (!channels.Open()) return absl::InternalError("no pipe: " + std::string(std::strerror(errno)));
  pid_t pid = 0;
  if (const int error = Spawn(command, channels, &pid); error != 0) {
    const std::string text = command[0] + ": " + (error == ENOENT ? "not found" : std::strerror(error));
    return error == ENOENT ? absl::NotFoundError(text) : absl::PermissionDeniedError(text);
  }
  std::unique_ptr<FilterSink> sink(new FilterSink(pid, command[0], std::exchange(channels.input[0], -1),
                                                  std::exchange(channels.output[0], -1),
                                                  std::exchange(channels.complaints[0], -1)));
  for (int* end : {&channels.input[1], &channels.output[1], &channels.complaints[1]}) Close(*end);
  if (absl::Status status = sink->AwaitReady(ready); !status.ok()) return status;
  return sink;
}

FilterSink::~FilterSink() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    Reap();
  }
  for (int* descriptor : {&input_, &output_, &complaints_}) Close(*descriptor);
}

absl::Status FilterSink::AwaitReady(std::string_view ready) {
  std::string line(ready);
  line += '\n';
  std::string got;
  while (got.size() < line.size() && output_ >= 0) {
    std::array<pollfd, 2> waiting{{{output_, POLLIN, 0}, {complaints_, POLLIN, 0}}};
    if (poll(waiting.data(), waiting.size(), -1) < 0 && errno != EINTR) break;
    if (waiting[1].revents != 0) TakeComplaints();
    if (waiting[0].revents == 0) continue;
    std::string piece(line.size() - got.size(), '\0');
    const ssize_t count = read(output_, piece.data(), piece.size());
    if (count <= 0 && (count == 0 || errno != EINTR)) break;
    if (count > 0) got.append(piece, 0, static_cast<std::size_t>(count));
  }
  if (got == line) return absl::OkStatus();
  Close(input_);
  if (!got.empty()) kill(pid_, SIGKILL);  // it is something else, and may wait for more
  while (complaints_ >= 0) TakeComplaints();
  Reap();
  return absl::FailedPreconditionError(LastComplaint());
}

void FilterSink::Write(std::string_view text) {
  buffer_.append(text);
  if (buffer_.size() < kBufferBytes) return;
  Exchange(buffer_);
  buffer_.clear();
}

absl::Status FilterSink::Finish() {
  Exchange(buffer_);
  buffer_.clear();
  Close(input_);
  Exchange({});
  while (complaints_ >= 0) TakeComplaints();
  const int status = Reap();
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    const std::string how = WIFSIGNALED(status) ? "was killed by signal " + std::to_string(WTERMSIG(status))
                                                : "failed with status " + std::to_string(WEXITSTATUS(status));
    return absl::InternalError(name_ + " " + how + ": " + LastComplaint());
  }
  return sink_->Finish();
}

void FilterSink::Exchange(std::string_view text) {
  const bool to_the_end = text.empty();
  while (output_ >= 0 && (to_the_end || !text.empty())) {
    std::array<pollfd, 3> waiting{
        {{output_, POLLIN, 0}, {complaints_, POLLIN, 0}, {text.empty() ? -1 : input_, POLLOUT, 0}}};
    if (poll(waiting.data(), waiting.size(), -1) < 0) {
      if (errno == EINTR) continue;
      return;
    }
    if (waiting[0].revents != 0) TakeOutput();
    if (waiting[1].revents != 0) TakeComplaints();
    if (waiting[2].revents == 0) continue;
    const ssize_t sent = send(input_, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) text.remove_prefix(static_cast<std::size_t>(sent));
    // It takes no more: its end, and why, comes out of Finish().
    if (sent < 0 && errno != EINTR && errno != EAGAIN && errno != EWOULDBLOCK) return;
  }
}

void FilterSink::TakeOutput() {
  std::array<char, 1 << 16> piece;
  const ssize_t count = read(output_, piece.data(), piece.size());
  if (count > 0)
    sink_->Write({piece.data(), static_cast<std::size_t>(count)});
  else if (count == 0 || errno != EINTR)
    Close(output_);
}

void FilterSink::TakeComplaints() {
  std::array<char, 4096> piece;
  const ssize_t count = read(complaints_, piece.data(), piece.size());
  if (count > 0)
    said_.append(piece.data(), static_cast<std::size_t>(count));
  else if (count == 0 || errno != EINTR)
    Close(complaints_);
  if (said_.size() > kComplaintBytes) said_.erase(0, said_.size() - kComplaintBytes);
}

int FilterSink::Reap() {
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = 0;
  return status;
}

std::string FilterSink::LastComplaint() const {
  std::string_view text = said_;
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.remove_suffix(1);
  const std::size_t line = text.rfind('\n');
  if (line != std::string_view::npos) text.remove_prefix(line + 1);
  return text.empty() ? "it said nothing" : std::string(text);
}

}  // namespace cuheap::tools
