// What the command says on stderr: whole lines, "cuheap: ..." each.
#ifndef CUHEAP_TOOLS_CUHEAP_MESSAGE_H_
#define CUHEAP_TOOLS_CUHEAP_MESSAGE_H_

#include <string>
#include <string_view>

namespace cuheap::tools {

inline constexpr int kUsageError = 2;  // our own errors before the program starts, and everything `report` refuses

// One line. One write per call, so that lines of several processes don't mix. What could steer the terminal or forge a
// line (a newline in a program's name) becomes '?', see analysis/printable.h. Errors of stderr are ignored: there is
// nobody left to tell.
void Say(std::string_view text);
// Several lines, in one write: newlines are the caller's own, and names in the text have been made printable.
void SayLines(std::string_view text);

// One word of a command line as a shell would read it: quoted only if needed. Printable, whatever is in it: control
// characters and the like are escaped in $'...' (bash, zsh, ksh).
std::string ShellQuoted(std::string_view word);

}  // namespace cuheap::tools

#endif  // CUHEAP_TOOLS_CUHEAP_MESSAGE_H_
