// Who we are: the facts of the process that the journal's header keeps. Reads /proc; no malloc, no locale, no stdio
// files.
#ifndef CUHEAP_INTERPOSE_RECORDER_PROCESS_FACTS_H_
#define CUHEAP_INTERPOSE_RECORDER_PROCESS_FACTS_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "interpose/journal/format.h"

namespace cuheap::recorder {

// Field 22 of /proc/self/stat, or 0 where /proc is not there. Together with the pid unique on a host.
std::uint64_t ProcessStartTicks();

// Fills everything descriptive: host, executable, command line, directory, launcher facts, times, configuration.
void FillProcessFacts(journal::FileHeader& header, std::string_view configuration);

// Reads a small file whole, or its first `size` bytes; the count of bytes read, 0 on failure.
std::size_t ReadSmallFile(const char* path, char* out, std::size_t size);

// The thread's kernel id and name (16 bytes with NUL).
std::uint32_t ThreadKernelId();
void ThreadName(char (&name)[16]);

}  // namespace cuheap::recorder

#endif  // CUHEAP_INTERPOSE_RECORDER_PROCESS_FACTS_H_
