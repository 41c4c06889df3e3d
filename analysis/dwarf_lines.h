// Source lines and inlined functions from the debug information (DWARF) of a module.
#ifndef CUHEAP_ANALYSIS_DWARF_LINES_H_
#define CUHEAP_ANALYSIS_DWARF_LINES_H_

#include <elfutils/libdwfl.h>

#include <cstdint>
#include <vector>

#include "analysis/module_symbols.h"

namespace cuheap::analysis {

class DwarfLines {
 public:
  // The module must outlive this.
  explicit DwarfLines(Dwfl_Module* module);

  // The module, or its separate debug file, has debug information.
  bool available() const { return available_; }

  // The frames at an address (libdwfl's, with its bias), innermost first; empty if the debug information does not cover
  // it. `reason` is left to the caller.
  std::vector<SourceFrame> Find(std::uint64_t address);

 private:
  struct UnitRange {
    std::uint64_t begin, end;
    Dwarf_Die unit;
    std::uint64_t bias;
  };
  bool FindUnit(std::uint64_t address, Dwarf_Die& unit, std::uint64_t& bias);
  void ListUnits();

  Dwfl_Module* module_;
  bool available_ = false;
  bool units_listed_ = false;
  std::vector<UnitRange> units_;  // by begin; only filled when the file's own index lacks an address
};

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_DWARF_LINES_H_
