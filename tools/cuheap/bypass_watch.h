// Processes of a run that have the CUDA driver loaded, and not our library: what they allocate leaves no journal, and
// nothing in them can say so. Looked for from outside, now and then.
//
// The loader takes LD_PRELOAD from the environment, so a child that was given another one lacks us, as do set-user-id
// programs. They are found among the descendants of the program by the files that they have mapped (/proc). Looking
// changes nothing for them; a process that lives for less than the time between two looks is missed.
#ifndef CUHEAP_TOOLS_CUHEAP_BYPASS_WATCH_H_
#define CUHEAP_TOOLS_CUHEAP_BYPASS_WATCH_H_

#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

namespace cuheap::tools {

class BypassWatch {
 public:
  struct Process {
    pid_t pid = 0;
    std::string program;  // path of its executable
  };

  // The program and its descendants, as they are now.
  void Look(pid_t program);
  // Each once, in the order in which they were found.
  const std::vector<Process>& found() const { return found_; }

 private:
  struct Known {
    std::string image;
    bool settled = false;  // this image needs no other look
  };
  void LookAt(pid_t pid);

  std::map<pid_t, Known> known_;
  std::vector<Process> found_;
};

}  // namespace cuheap::tools

#endif  // CUHEAP_TOOLS_CUHEAP_BYPASS_WATCH_H_
