// Descriptors in a process that is not ours.
#ifndef CUHEAP_INTERPOSE_RECORDER_OWN_FILES_H_
#define CUHEAP_INTERPOSE_RECORDER_OWN_FILES_H_

#include <string_view>

namespace cuheap::recorder {

// As openat(2) with O_CLOEXEC, by a bare system call, since glibc's wrapper is a cancellation point. The descriptor is
// never 0, 1 or 2: where a program has closed them, what it still writes there must fail, not end in a file of ours.
// -1 with errno on failure. Close it at once, by CloseOwn: the program may count on the numbers of its descriptors.
int OpenOwn(int directory, const char* name, int flags, unsigned mode);
void CloseOwn(int descriptor);

// One line (which ends with a newline) to stderr, if descriptor 2 is still what it was when we were loaded: a program
// may have closed it and opened a file of its own there. A reader that has gone away costs the line, not the program.
void Complain(std::string_view line);

}  // namespace cuheap::recorder

#endif  // CUHEAP_INTERPOSE_RECORDER_OWN_FILES_H_
