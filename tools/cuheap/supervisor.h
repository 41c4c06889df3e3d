// Starts a program and stands in for it until it ends: to whoever started us, we are the program.
//
// Note [Standing in for a program]
// The program stays in our process group and on our terminal, so what the terminal sends (Ctrl-C, Ctrl-\, Ctrl-Z,
// hang-up, window size) reaches it by itself; those come to us from the kernel and are not passed on. What a process
// sends to us (kill, timeout, a batch system) is passed on, real-time values included. When the program stops, we stop,
// so that the shell sees a stopped job; when we are continued, the program is. If we are killed outright, the program
// dies with us, as it would have without us (PR_SET_PDEATHSIG); its journals stay and `cuheap recover` reads them. A
// signal sent to the whole group by a process reaches the program twice: once from there, once from us. That cannot be
// told apart.
//
// The program gets our environment (changed), descriptors, working directory, signal mask and dispositions, and nothing
// of ours. Descriptors 0 to 2 that are closed stay closed in the program; in us /dev/null takes their place, so that no
// file of ours can become stderr.
#ifndef CUHEAP_TOOLS_CUHEAP_SUPERVISOR_H_
#define CUHEAP_TOOLS_CUHEAP_SUPERVISOR_H_

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

namespace cuheap::tools {

// First thing in main: see the note.
void SecureStandardDescriptors();

struct Outcome {
  pid_t pid = 0;        // of the program, also after its end
  int start_error = 0;  // errno if the program could not be started, else 0
  int wait_status = 0;  // as of waitpid
};

// Runs command[0] (looked for in PATH) with the environment ("NAME=value" each), until it ended. Signals are blocked in
// us meanwhile; when this returns, those that came before the end are gone and the mask is the former one. `meanwhile`
// is called with the program's process id now and then: soon at first, then every two seconds.
Outcome Supervise(const std::vector<std::string>& command, const std::vector<std::string>& environment,
                  const std::function<void(pid_t)>& meanwhile = {});

// 127 if there is no such program, else 126: as shells do.
int StatusOfStartError(int error);

// Ends us as the program ended: the same exit status, or the same signal (without a core file of our own).
[[noreturn]] void EndAs(const Outcome& outcome);

}  // namespace cuheap::tools

#endif  // CUHEAP_TOOLS_CUHEAP_SUPERVISOR_H_
