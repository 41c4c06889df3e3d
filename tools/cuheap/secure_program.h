// Programs that the loader keeps every preloaded library out of.
#ifndef CUHEAP_TOOLS_CUHEAP_SECURE_PROGRAM_H_
#define CUHEAP_TOOLS_CUHEAP_SECURE_PROGRAM_H_

#include <string>

namespace cuheap::tools {

// What makes the program run in the loader's secure mode if we start it: "a set-user-ID program", ...; empty if nothing
// does. command: a path, or a name that is looked for in PATH, as execvp does. Source: ld.so(8), "Secure-execution
// mode".
std::string WhySecure(const std::string& command);

}  // namespace cuheap::tools

#endif  // CUHEAP_TOOLS_CUHEAP_SECURE_PROGRAM_H_
