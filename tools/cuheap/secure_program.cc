#include "tools/cuheap/secure_program.h"

#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

namespace cuheap::tools {
namespace {

bool IsProgram(const std::string& path) {
  struct stat facts{};
  return stat(path.c_str(), &facts) == 0 && S_ISREG(facts.st_mode) && access(path.c_str(), X_OK) == 0;
}

std::string FindProgram(const std::string& command) {
  if (command.find('/') != std::string::npos) return IsProgram(command) ? command : "";
  const char* folders = std::getenv("PATH");
  std::string_view rest = folders != nullptr ? folders : "/bin:/usr/bin";
  for (;;) {
    const std::size_t end = std::min(rest.find(':'), rest.size());
    std::string path(rest.substr(0, end));
    if (!path.empty()) path += '/';
    path += command;
    if (IsProgram(path)) return path;
    if (end == rest.size()) return "";
    rest.remove_prefix(end + 1);
  }
}

}  // namespace

std::string WhySecure(const std::string& command) {
  const std::string path = FindProgram(command);
  struct stat facts{};
  struct statvfs system{};
  if (path.empty() || stat(path.c_str(), &facts) != 0) return "";
  // Then the bits have no effect.
  if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1) return "";
  if (statvfs(path.c_str(), &system) == 0 && (system.f_flag & ST_NOSUID) != 0) return "";
  if ((facts.st_mode & S_ISUID) != 0 && facts.st_uid != getuid()) return "a set-user-ID program";
  if ((facts.st_mode & S_ISGID) != 0 && (facts.st_mode & S_IXGRP) != 0 && facts.st_gid != getgid())
    return "a set-group-ID program";
  if (getuid() != 0 && getxattr(path.c_str(), "security.capability", nullptr, 0) > 0)
    return "a program with capabilities of its own";
  return "";
}

}  // namespace cuheap::tools
