// The Python code objects of a journal, by number: names and lines of the Python frames that stacks hold.
#ifndef CUHEAP_ANALYSIS_JOURNAL_PYTHON_H_
#define CUHEAP_ANALYSIS_JOURNAL_PYTHON_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "analysis/journal_bytes.h"
#include "analysis/journal_layout.h"
#include "analysis/snapshot.h"

namespace cuheap::analysis {

struct PythonCode {
  std::string file, name;
  std::uint32_t first_line = 0;
  std::uint16_t version = 0;  // major << 8 | minor
  bool file_cut = false, has_lines = true;
  std::vector<std::uint8_t> line_table;
};

using PythonCodes = absl::flat_hash_map<std::uint32_t, PythonCode>;

// Reads those of the code objects whose numbers are wanted. What is damaged is left out and said.
PythonCodes ReadPythonCodes(const JournalBytes& bytes, const JournalLayout& layout,
                            const absl::flat_hash_set<std::uint32_t>& wanted, JournalDamage& damage);

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_JOURNAL_PYTHON_H_
