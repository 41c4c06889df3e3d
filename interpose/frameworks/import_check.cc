#include "interpose/frameworks/import_check.h"

#include <elf.h>

#include <cstddef>
#include <cstring>
#include <initializer_list>

#include "interpose/real_loader.h"

namespace cuheap::frameworks {
namespace {

struct Relocations {
  const ElfW(Rela) * begin = nullptr;
  std::size_t count = 0;
};

struct Tables {
  const ElfW(Sym) * symbols = nullptr;
  const char* strings = nullptr;
  Relocations plt, data;
};

Tables ReadTables(const link_map& library) {
  Tables tables;
  // glibc relocates these in place on most processors, but not on all: an address below the library is an offset.
  const auto absolute = [&](ElfW(Addr) value) { return value < library.l_addr ? value + library.l_addr : value; };
  for (const ElfW(Dyn)* entry = library.l_ld; entry != nullptr && entry->d_tag != DT_NULL; ++entry) {
    const ElfW(Addr) at = absolute(entry->d_un.d_ptr);
    switch (entry->d_tag) {
      case DT_SYMTAB:
        tables.symbols = reinterpret_cast<const ElfW(Sym)*>(at);
        break;
      case DT_STRTAB:
        tables.strings = reinterpret_cast<const char*>(at);
        break;
      case DT_JMPREL:
        tables.plt.begin = reinterpret_cast<const ElfW(Rela)*>(at);
        break;
      case DT_PLTRELSZ:
        tables.plt.count = entry->d_un.d_val / sizeof(ElfW(Rela));
        break;
      case DT_RELA:
        tables.data.begin = reinterpret_cast<const ElfW(Rela)*>(at);
        break;
      case DT_RELASZ:
        tables.data.count = entry->d_un.d_val / sizeof(ElfW(Rela));
        break;
      default:
        break;
    }
  }
  return tables;
}

// True if `address` lies in the library itself: its PLT, where a slot that was never called through points.
bool LiesIn(const link_map& library, std::uintptr_t address) {
  std::uintptr_t end = library.l_addr;
  const auto* header = reinterpret_cast<const ElfW(Ehdr)*>(library.l_addr);
  const auto* segments = reinterpret_cast<const ElfW(Phdr)*>(library.l_addr + header->e_phoff);
  for (std::size_t i = 0; i < header->e_phnum; ++i) {
    const std::uintptr_t segment_end = library.l_addr + segments[i].p_vaddr + segments[i].p_memsz;
    if (segments[i].p_type == PT_LOAD && segment_end > end) end = segment_end;
  }
  return address >= library.l_addr && address < end;
}

Import BoundTo(const link_map& library, const ElfW(Rela) & relocation) {
  const std::uintptr_t bound = *reinterpret_cast<const std::uintptr_t*>(library.l_addr + relocation.r_offset);
  if (IsOurs(reinterpret_cast<const void*>(bound))) return Import::kBoundHere;
  return LiesIn(library, bound) ? Import::kNotBound : Import::kBoundElsewhere;
}

}  // namespace

Import FindImport(const link_map& library, const char* name) {
  const Tables tables = ReadTables(library);
  if (tables.symbols == nullptr || tables.strings == nullptr) return Import::kNone;
  for (const Relocations& relocations : {tables.plt, tables.data}) {
    for (std::size_t i = 0; relocations.begin != nullptr && i < relocations.count; ++i) {
      const ElfW(Rela)& relocation = relocations.begin[i];
      const auto symbol = static_cast<std::size_t>(ELF64_R_SYM(relocation.r_info));
      if (symbol == 0 || tables.symbols[symbol].st_shndx != SHN_UNDEF) continue;
      if (std::strcmp(tables.strings + tables.symbols[symbol].st_name, name) == 0) return BoundTo(library, relocation);
    }
  }
  return Import::kNone;
}

}  // namespace cuheap::frameworks
