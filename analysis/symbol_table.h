// The functions of an ELF file by address, for names where there is no debug information.
#ifndef CUHEAP_ANALYSIS_SYMBOL_TABLE_H_
#define CUHEAP_ANALYSIS_SYMBOL_TABLE_H_

#include <elfutils/libdwfl.h>

#include <cstdint>
#include <string>
#include <vector>

namespace cuheap::analysis {

// Readable form of a linker name: demangled, without symbol version.
std::string ReadableName(const char* linker_name);

class SymbolTable {
 public:
  // .symtab of the file or of its separate debug file, else .dynsym. Read once: libdwfl's own look-up walks the whole
  // table each time.
  explicit SymbolTable(Dwfl_Module* module);

  // The linker name of the function that covers the address (libdwfl's, with its bias); null: none does. A symbol
  // without size covers nothing: naming what lies behind it would be a guess.
  const char* Find(std::uint64_t address) const;

 private:
  struct Symbol {
    std::uint64_t begin, end;
    const char* name;  // in the file's mapping
    int rank;          // of symbols with the same begin, the lowest is shown: global, weak, local
  };
  std::vector<Symbol> symbols_;  // by begin
};

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_SYMBOL_TABLE_H_
