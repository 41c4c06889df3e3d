// What the command says on stderr: whole lines, "cuheap: ..." each.
#ifndef CUHEAP_TOOLS_CUHEAP_MESSAGE_H_
#define CUHEAP_TOOLS_CUHEAP_MESSAGE_H_

#include <string>
#include <string_view>

namespace cuheap::tools {

inline constexpr int kUsageError = 2;  // our own errors before the program starts, and everything `report` refuses

// One write per call, so that lines of several processes don't mix. Control characters but newline become '?'. Errors
// of stderr are ignored: there is nobody left to tell.
void Say(std::string_view text);

// One word of a command line as a shell would read it: quoted only if needed.
std::string ShellQuoted(std::string_view word);

}  // namespace cuheap::tools

#endif  // CUHEAP_TOOLS_CUHEAP_MESSAGE_H_
