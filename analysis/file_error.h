// Errors about files, in one form for a person: which file, where in it, what is wrong, what to do about it.
#ifndef CUHEAP_ANALYSIS_FILE_ERROR_H_
#define CUHEAP_ANALYSIS_FILE_ERROR_H_

#include <string>

#include "absl/status/status.h"

namespace cuheap::analysis {

// place: position in the file ("byte 17", "$.events.stack[3]"), or empty for the file as a whole.
absl::Status FileError(absl::StatusCode code, const std::string& file, const std::string& place,
                       const std::string& problem, const std::string& remedy);

// The same for a failed system call on the file: problem and remedy follow from `error` (errno).
absl::Status FileSystemError(int error, const std::string& file, const std::string& action);

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_FILE_ERROR_H_
