#include "tools/cuheap/same_file.h"

#include <sys/stat.h>

namespace cuheap::tools {

bool IsSameFile(const std::string& a, const std::string& b) {
  struct stat first{}, second{};
  return stat(a.c_str(), &first) == 0 && stat(b.c_str(), &second) == 0 && S_ISREG(first.st_mode) &&
         first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}

}  // namespace cuheap::tools
