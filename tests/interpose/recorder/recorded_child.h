// The recorder is one per process, so each test records in a child process and reads what the child left.
#ifndef CUHEAP_TESTS_INTERPOSE_RECORDER_RECORDED_CHILD_H_
#define CUHEAP_TESTS_INTERPOSE_RECORDER_RECORDED_CHILD_H_

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

namespace cuheap::testing {

// A new directory, 0700, removed with everything in it at the end of the scope.
class TemporaryDirectory {
 public:
  TemporaryDirectory();
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  const std::string& path() const { return path_; }
  // Full paths of the *.journal files in it, sorted.
  std::vector<std::string> Journals() const;

 private:
  std::string path_;
};

// Starts `body` in a child process, which ends by _exit(0) after it (status 99 if body throws).
pid_t StartChild(const std::function<void()>& body);
// Waits; the raw status of waitpid.
int WaitFor(pid_t pid);
// Both; the exit status, or 128 + signal.
int RunChild(const std::function<void()>& body);

// In a child: ends it with status 98 and says why, unless the condition holds.
void Require(bool condition, const char* what);

}  // namespace cuheap::testing

#endif  // CUHEAP_TESTS_INTERPOSE_RECORDER_RECORDED_CHILD_H_
