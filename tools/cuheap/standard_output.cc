#include "tools/cuheap/standard_output.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "tools/cuheap/message.h"

namespace cuheap::tools {
namespace {

bool LocaleIsUtf8() {
  for (const char* variable : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = std::getenv(variable);
    if (value == nullptr || *value == '\0') continue;  // the first that is set decides
    const std::string_view text(value);
    return text.find("UTF-8") != std::string_view::npos || text.find("utf8") != std::string_view::npos ||
           text.find("UTF8") != std::string_view::npos;
  }
  return false;
}

}  // namespace

analysis::TextOptions TextOptionsFor(const Display& display) {
  analysis::TextOptions text;
  const bool terminal = isatty(STDOUT_FILENO) == 1;
  const char* no_color = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  const bool may_color =
      terminal && (no_color == nullptr || *no_color == '\0') && term != nullptr && std::string_view(term) != "dumb";
  text.color = display.color == ColorChoice::kAlways || (display.color == ColorChoice::kAuto && may_color);
  text.utf8 = LocaleIsUtf8();
  text.top = display.top;
  winsize size{};
  if (display.width != 0)
    text.width = display.width;
  else if (terminal && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col != 0)
    text.width = size.ws_col;
  return text;
}

bool StandardOutputIsOpen() {
  // What comes through exec is never close-on-exec: this is what SecureStandardDescriptors put in a closed one's place.
  const int flags = fcntl(STDOUT_FILENO, F_GETFD);
  if (flags >= 0 && (flags & FD_CLOEXEC) == 0) return true;
  Say("cannot write the report: standard output is closed");
  return false;
}

int Print(const std::string& text) {
  // Without the buffer of stdio, which drops what it could not write: a later flush then succeeds.
  for (std::size_t at = 0; at < text.size();) {
    const ssize_t written = write(STDOUT_FILENO, text.data() + at, text.size() - at);
    if (written >= 0) {
      at += static_cast<std::size_t>(written);
    } else if (errno == EPIPE) {
      return 0;
    } else if (errno != EINTR) {
      Say("cannot write the report: " + std::string(std::strerror(errno)));
      return kUsageError;
    }
  }
  return 0;
}

}  // namespace cuheap::tools
