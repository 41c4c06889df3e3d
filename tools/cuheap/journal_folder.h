// The private folder that the processes of one `cuheap run` write their journals into.
//
// Note [Where journals go]
// Journals are files mapped by the program, so the folder decides what a record costs and whether space can be had: it
// must be on a local file system (a mapping on a network one can block or lose what a killed process wrote), and memory
// (tmpfs) takes a record in a sixth of the time a disk does. The first of these with room is taken: /dev/shm, $TMPDIR,
// /tmp, $XDG_RUNTIME_DIR (last of the memory ones: a full one breaks the user's session), /var/tmp. If none has enough
// room, the one with most is, down to a minimum. --journal-dir overrules all this.
#ifndef CUHEAP_TOOLS_CUHEAP_JOURNAL_FOLDER_H_
#define CUHEAP_TOOLS_CUHEAP_JOURNAL_FOLDER_H_

#include <time.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace cuheap::tools {

// Makes `cuheap-<uid>-<pid>-XXXXXX`, mode 0700, in the first fitting candidate; or in `wanted` if that is not empty.
// Errors: with what is wrong with the folder that was wanted, or with all candidates.
struct JournalFolder {
  std::string path;
  timespec made = {};  // when its list of files was last changed, by then
};
absl::StatusOr<JournalFolder> MakeJournalFolder(const std::string& wanted);

// Were files made or removed in it since, or is it gone?
bool WasChanged(const JournalFolder& folder);

// Paths of the journals in a folder, by name; or of the one journal, if `path` is a file.
// Errors: NotFound and PermissionDenied with the path; NotFound if there are none and `path` is a folder.
absl::StatusOr<std::vector<std::string>> ListJournals(const std::string& path);

// Removes the journals of a folder and the folder. Files that are not ours stay, and with them the folder.
void RemoveJournalFolder(const std::string& folder);

// Free space for us in bytes, or 0 if the folder cannot be used; *reason says why.
std::uint64_t UsableSpace(const std::string& folder, std::string* reason);

}  // namespace cuheap::tools

#endif  // CUHEAP_TOOLS_CUHEAP_JOURNAL_FOLDER_H_
