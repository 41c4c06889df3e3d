#include "tools/cuheap/message.h"

#include <unistd.h>

#include <cerrno>

namespace cuheap::tools {

void Say(std::string_view text) {
  std::string lines = "cuheap: ";
  for (const char byte : text) {
    const auto code = static_cast<unsigned char>(byte);
    if (byte == '\n')
      lines += "\ncuheap: ";
    else
      lines += code < 0x20 || code == 0x7F ? '?' : byte;
  }
  lines += '\n';
  for (std::string_view rest = lines; !rest.empty();) {
    const ssize_t written = write(STDERR_FILENO, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
}

std::string ShellQuoted(std::string_view word) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./,:@%^";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string_view::npos) return std::string(word);
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
