#include "analysis/file_error.h"

#include <cerrno>
#include <cstring>

namespace cuheap::analysis {
namespace {

std::string RemedyOf(int error) {
  switch (error) {
    case ENOENT:
      return "check the name";
    case EACCES:
    case EPERM:
      return "check the permissions, or run as the user that owns it";
    case ENOSPC:
    case EDQUOT:
      return "free some space, or name a file on another file system";
    case EISDIR:
      return "name a file";
    case EROFS:
      return "name a file in a writable folder";
    default:
      return "check that the file system is healthy";
  }
}

absl::StatusCode CodeOf(int error) {
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return absl::StatusCode::kNotFound;
    case EACCES:
    case EPERM:
    case EROFS:
      return absl::StatusCode::kPermissionDenied;
    case ENOSPC:
    case EDQUOT:
      return absl::StatusCode::kResourceExhausted;
    case EISDIR:
      return absl::StatusCode::kInvalidArgument;
    default:
      return absl::StatusCode::kUnavailable;
  }
}

}  // namespace

absl::Status FileError(absl::StatusCode code, const std::string& file, const std::string& place,
                       const std::string& problem, const std::string& remedy) {
  std::string message = file;
  if (!place.empty()) message += ": " + place;
  message += ": " + problem;
  if (!remedy.empty()) message += "; " + remedy;
  return absl::Status(code, message);
}

absl::Status FileSystemError(int error, const std::string& file, const std::string& action) {
  return FileError(CodeOf(error), file, "", action + " failed: " + std::strerror(error), RemedyOf(error));
}

}  // namespace cuheap::analysis
