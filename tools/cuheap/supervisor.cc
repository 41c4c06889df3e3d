#include "tools/cuheap/supervisor.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace cuheap::tools {
namespace {

std::vector<char*> Pointers(const std::vector<std::string>& words) {
  std::vector<char*> pointers;
  pointers.reserve(words.size() + 1);
  for (const std::string& word : words) pointers.push_back(const_cast<char*>(word.c_str()));  // exec does not write
  pointers.push_back(nullptr);
  return pointers;
}

// In the forked child: becomes the program, or tells errno through the pipe.
[[noreturn]] void Become(char* const* command, char* const* environment, const sigset_t& mask,
                         const struct sigaction& child_action, pid_t supervisor, int error_pipe) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != supervisor) _exit(127);  // we were killed before the line above
  sigaction(SIGCHLD, &child_action, nullptr);
  sigprocmask(SIG_SETMASK, &mask, nullptr);
  execvpe(command[0], command, environment);
  const int error = errno;
  [[maybe_unused]] const ssize_t written = write(error_pipe, &error, sizeof(error));
  _exit(127);
}

// errno of the child's exec, or 0 when the pipe closes because exec succeeded.
int ReadStartError(int pipe) {
  int error = 0;
  ssize_t got = 0;
  do {
    got = read(pipe, &error, sizeof(error));
  } while (got < 0 && errno == EINTR);
  return got == sizeof(error) ? error : 0;
}

// Its state letter in /proc: true for stopped.
bool IsStopped(pid_t pid) {
  const std::string path = "/proc/" + std::to_string(pid) + "/stat";
  std::FILE* file = std::fopen(path.c_str(), "re");
  if (file == nullptr) return false;
  char text[512] = {};
  const std::size_t size = std::fread(text, 1, sizeof(text) - 1, file);
  std::fclose(file);
  const std::string_view content(text, size);
  const std::size_t end = content.rfind(')');  // the name before it may hold anything
  return end != std::string_view::npos && end + 2 < content.size() && content[end + 2] == 'T';
}

void PassOn(pid_t program, const siginfo_t& info) {
  if (info.si_code == SI_KERNEL) return;  // from the terminal: the program has it already
  pid_t pid = program;
  if (info.si_pid == program) {
    // The program signals its parent, which it takes to be who started us; or its whole process group, of which our
    // parent may be no part. Only signals that cannot be meant to end a group are passed on.
    const bool notice = info.si_signo == SIGUSR1 || info.si_signo == SIGUSR2 || info.si_signo >= SIGRTMIN;
    pid = getppid();
    if (pid <= 1 || !notice) return;
  }
  if (info.si_signo == SIGCONT && pid == program && !IsStopped(pid)) return;
  if (info.si_code == SI_QUEUE) {
    sigqueue(pid, info.si_signo, info.si_value);
  } else {
    kill(pid, info.si_signo);
  }
}

int WaitForEnd(pid_t pid, const sigset_t& all, const std::function<void(pid_t)>& meanwhile) {
  constexpr std::int64_t kFirstMs = 50, kLastMs = 2000;
  std::int64_t wait_ms = kFirstMs;
  for (;;) {
    siginfo_t info{};
    const timespec wait{wait_ms / 1000, wait_ms % 1000 * 1'000'000};
    if ((meanwhile ? sigtimedwait(&all, &info, &wait) : sigwaitinfo(&all, &info)) < 0) {
      if (meanwhile && errno == EAGAIN) {
        meanwhile(pid);
        wait_ms = std::min(wait_ms * 3 / 2, kLastMs);
      }
      continue;
    }
    if (info.si_signo != SIGCHLD) {
      PassOn(pid, info);
      continue;
    }
    int status = 0;
    while (waitpid(pid, &status, WNOHANG | WUNTRACED) == pid) {
      if (!WIFSTOPPED(status)) return status;
      if (IsStopped(pid)) kill(getpid(), SIGSTOP);
      // Continued: the program was as well if the shell continued the group; if somebody continued us only, SIGCONT
      // waits.
    }
  }
}

}  // namespace

void SecureStandardDescriptors() {
  for (int descriptor = 0; descriptor <= 2; ++descriptor) {
    if (fcntl(descriptor, F_GETFD) >= 0 || errno != EBADF) continue;
    // The lowest free number is this one; close-on-exec keeps it closed in the program.
    const int opened = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (opened >= 0 && opened != descriptor) close(opened);
  }
}

Outcome Supervise(const std::vector<std::string>& command, const std::vector<std::string>& environment,
                  const std::function<void(pid_t)>& meanwhile) {
  Outcome outcome;
  const std::vector<char*> words = Pointers(command), variables = Pointers(environment);
  int error_pipe[2];
  if (pipe2(error_pipe, O_CLOEXEC) != 0) {
    outcome.start_error = errno;
    return outcome;
  }
  sigset_t all, former_mask;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, &former_mask);
  // If our parent ignores SIGCHLD, the kernel would reap the program before we ask how it ended.
  struct sigaction wanted{}, former_action{};
  wanted.sa_handler = SIG_DFL;
  sigaction(SIGCHLD, &wanted, &former_action);

  const pid_t self = getpid();
  outcome.pid = fork();
  if (outcome.pid == 0) Become(words.data(), variables.data(), former_mask, former_action, self, error_pipe[1]);
  const int fork_error = errno;
  close(error_pipe[1]);
  if (outcome.pid < 0) {
    outcome.start_error = fork_error;
  } else {
    outcome.start_error = ReadStartError(error_pipe[0]);
    if (outcome.start_error == 0) {
      outcome.wait_status = WaitForEnd(outcome.pid, all, meanwhile);
    } else {
      while (waitpid(outcome.pid, nullptr, 0) < 0 && errno == EINTR) {
      }
    }
  }
  close(error_pipe[0]);
  // The signal that ended the program came to us too and did its work; what comes from now on is for us.
  siginfo_t info{};
  const timespec now{};
  while (sigtimedwait(&all, &info, &now) > 0) {
  }
  sigaction(SIGCHLD, &former_action, nullptr);
  sigprocmask(SIG_SETMASK, &former_mask, nullptr);
  return outcome;
}

int StatusOfStartError(int error) { return error == ENOENT ? 127 : 126; }

void EndAs(const Outcome& outcome) {
  if (WIFSIGNALED(outcome.wait_status)) {
    const int signal_number = WTERMSIG(outcome.wait_status);
    const rlimit no_core{0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    prctl(PR_SET_DUMPABLE, 0);  // a core pattern that is a pipe ignores the limit
    std::signal(signal_number, SIG_DFL);
    sigset_t mask;
    sigemptyset(&mask);
    sigaddset(&mask, signal_number);
    sigprocmask(SIG_UNBLOCK, &mask, nullptr);
    kill(getpid(), signal_number);
    _exit(128 + signal_number);  // cannot be reached: it ended the program
  }
  _exit(WEXITSTATUS(outcome.wait_status));
}

}  // namespace cuheap::tools
