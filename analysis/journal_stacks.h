// Decodes the stacks that a journal's events and slots name: native frames raw, Python frames with name, file and line.
#ifndef CUHEAP_ANALYSIS_JOURNAL_STACKS_H_
#define CUHEAP_ANALYSIS_JOURNAL_STACKS_H_

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "analysis/journal_bytes.h"
#include "analysis/journal_layout.h"
#include "analysis/snapshot.h"

namespace cuheap::analysis {

// Reasons of raw frames.
inline constexpr const char* kNotSymbolised = "not symbolised";
inline constexpr const char* kNoModule = "generated code: the address lies in no loaded file";
inline constexpr const char* kStackLost = "the stack could not be read from the journal";
// Reasons of Stack::no_python.
inline constexpr const char* kPythonUnknownThread = "a thread of C++ that Python does not know";
inline constexpr const char* kPythonIdleThread = "the thread runs no Python code";
inline constexpr const char* kPythonNotInitialized = "Python had not begun, or was ending";
// ... of Python frames.
inline constexpr const char* kPythonCodeLost = "the code of the frame is not in the journal";
inline constexpr const char* kPythonFileCut = "the path of the file is longer than the journal holds";
inline constexpr const char* kPythonNoLine = "Python's line table gives no line";

// Fills snapshot.frames and snapshot.stacks with the stacks of `ids` (sorted, unique, without 0) and returns the index
// of each. A stack that cannot be read becomes one frame with the reason. Precondition: snapshot.modules is complete.
absl::flat_hash_map<std::uint32_t, std::uint32_t> ReadJournalStacks(const JournalBytes& bytes,
                                                                    const JournalLayout& layout,
                                                                    const std::vector<std::uint32_t>& ids,
                                                                    Snapshot& snapshot, JournalDamage& damage);

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_JOURNAL_STACKS_H_
