// The line tables of CPython's code objects: which source line a bytecode instruction belongs to.
#ifndef CUHEAP_ANALYSIS_PYTHON_LINES_H_
#define CUHEAP_ANALYSIS_PYTHON_LINES_H_

#include <cstdint>
#include <span>

namespace cuheap::analysis {

// The line of the instruction at `offset` bytes of the bytecode; 0: the table gives it none, or is damaged.
// python_version: major << 8 | minor. The table is co_lnotab for 3.9, co_linetable for 3.10 and later; other versions
// have no lines here.
//
// Sources: Objects/lnotab_notes.txt of CPython 3.9 and 3.10, Objects/locations.md of 3.11 and later.
std::uint32_t PythonLine(std::uint16_t python_version, std::span<const std::uint8_t> table, std::uint32_t first_line,
                         std::uint64_t offset);

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_PYTHON_LINES_H_
