#include "tools/cuheap/message.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <ctime>

#include "analysis/printable.h"

namespace cuheap::tools {

namespace {

// Blocks SIGPIPE: whoever reads our messages may go, and we still have to end as the program did.
class WithoutSigpipe {
 public:
  WithoutSigpipe() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGPIPE) == 1;
    sigprocmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~WithoutSigpipe() {
    const timespec now{};
    if (!was_pending_) sigtimedwait(&pipe_, nullptr, &now);
    sigprocmask(SIG_SETMASK, &before_, nullptr);
  }
  WithoutSigpipe(const WithoutSigpipe&) = delete;
  WithoutSigpipe& operator=(const WithoutSigpipe&) = delete;

 private:
  sigset_t pipe_, before_;
  bool was_pending_ = false;
};

void WriteAll(std::string_view text) {
  const WithoutSigpipe whole;
  while (!text.empty()) {
    const ssize_t written = write(STDERR_FILENO, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

// \xNN for every byte that is not plain ASCII.
std::string Escaped(std::string_view word) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string quoted = "$'";
  for (const char byte : word) {
    const auto code = static_cast<unsigned char>(byte);
    if (code < 0x20 || code >= 0x7F)
      quoted.append("\\x").append(1, kDigits[code / 16]).append(1, kDigits[code % 16]);
    else if (byte == '\'' || byte == '\\')
      quoted.append(1, '\\').append(1, byte);
    else
      quoted += byte;
  }
  return quoted + "'";
}

}  // namespace

void Say(std::string_view text) { WriteAll("cuheap: " + analysis::Printable(text) + "\n"); }

void SayLines(std::string_view text) {
  std::string lines;
  while (true) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines += "cuheap: " + analysis::Printable(text.substr(0, end)) + "\n";
    if (end == text.size()) break;
    text.remove_prefix(end + 1);
  }
  WriteAll(lines);
}

std::string ShellQuoted(std::string_view word) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./,:@%^";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string_view::npos) return std::string(word);
  if (analysis::Printable(word) != word) return Escaped(word);
  std::string quoted = "'";
  for (const char byte : word) {
    if (byte == '\'')
      quoted += "'\\''";
    else
      quoted += byte;
  }
  return quoted + "'";
}

}  // namespace cuheap::tools
