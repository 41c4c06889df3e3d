#include "analysis/symbol_table.h"

#include <cxxabi.h>
#include <gelf.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace cuheap::analysis {
namespace {

int RankOf(unsigned char info) {
  switch (GELF_ST_BIND(info)) {
    case STB_GLOBAL:
      return 0;
    case STB_WEAK:
      return 1;
    default:
      return 2;
  }
}

bool IsFunction(const GElf_Sym& symbol) {
  const int type = GELF_ST_TYPE(symbol.st_info);
  return (type == STT_FUNC || type == STT_GNU_IFUNC || type == STT_NOTYPE) && symbol.st_shndx != SHN_UNDEF &&
         symbol.st_size > 0;
}

}  // namespace

std::string ReadableName(const char* linker_name) {
  std::string name(linker_name, std::strcspn(linker_name, "@"));
  int status = 0;
  char* readable = abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status);
  // Only names that are mangled: "i" is a type to the demangler.
  if (status == 0 && name.starts_with("_Z")) name = readable;
  std::free(readable);
  return name;
}

SymbolTable::SymbolTable(Dwfl_Module* module) {
  const int count = dwfl_module_getsymtab(module);
  for (int i = 0; i < count; ++i) {
    GElf_Sym symbol;
    GElf_Addr address = 0;
    const char* name = dwfl_module_getsym_info(module, i, &symbol, &address, nullptr, nullptr, nullptr);
    if (name == nullptr || *name == 0 || !IsFunction(symbol)) continue;
    symbols_.push_back({address, address + symbol.st_size, name, RankOf(symbol.st_info)});
  }
  std::sort(symbols_.begin(), symbols_.end(), [](const Symbol& a, const Symbol& b) {
    if (a.begin != b.begin) return a.begin < b.begin;
    if (a.rank != b.rank) return a.rank < b.rank;
    return std::strcmp(a.name, b.name) < 0;
  });
}

const char* SymbolTable::Find(std::uint64_t address) const {
  // Sized symbols rarely nest: a few steps back find an outer one behind which a shorter one begins.
  constexpr int kSteps = 32;
  auto next = std::upper_bound(symbols_.begin(), symbols_.end(), address,
                               [](std::uint64_t value, const Symbol& symbol) { return value < symbol.begin; });
  const Symbol* found = nullptr;
  for (int step = 0; step < kSteps && next != symbols_.begin(); ++step) {
    --next;
    if (found != nullptr && next->begin != found->begin) break;
    if (address < next->end) found = &*next;  // goes on to the first of those with the same begin
  }
  return found == nullptr ? nullptr : found->name;
}

}  // namespace cuheap::analysis
