#include "interpose/python/object_symbols.h"

#include <cstring>

namespace cuheap::python {

ObjectSymbols::ObjectSymbols(const stacks::LoadedObject& object) : load_bias_(object.load_bias) {
  // The first mapped page begins with the ELF header in every file that a linker makes; if not, nothing is found.
  const auto* header = reinterpret_cast<const Elf64_Ehdr*>(object.begin);
  if (object.end - object.begin < 4096 || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0) return;
  if (header->e_phoff + std::uint64_t{header->e_phnum} * sizeof(Elf64_Phdr) > 4096) return;
  const auto* headers = reinterpret_cast<const Elf64_Phdr*>(object.begin + header->e_phoff);
  for (unsigned i = 0; i < header->e_phnum; ++i) {
    if (headers[i].p_type != PT_DYNAMIC) continue;
    const std::uint64_t begin = object.load_bias + headers[i].p_vaddr;
    const std::uint64_t end = begin + headers[i].p_memsz;
    if (begin >= object.begin && end <= object.end && begin < end) ReadDynamic(object, begin, end);
    return;
  }
}

void ObjectSymbols::ReadDynamic(const stacks::LoadedObject& object, std::uint64_t begin, std::uint64_t end) {
  std::uint64_t symbols = 0, strings = 0, gnu_hash = 0;
  for (std::uint64_t at = begin; at + sizeof(Elf64_Dyn) <= end; at += sizeof(Elf64_Dyn)) {
    const auto* entry = reinterpret_cast<const Elf64_Dyn*>(at);
    if (entry->d_tag == DT_NULL) break;
    // The loader relocates these entries in place, except where they are read-only.
    const std::uint64_t value =
        entry->d_un.d_ptr < object.load_bias ? object.load_bias + entry->d_un.d_ptr : entry->d_un.d_ptr;
    if (entry->d_tag == DT_SYMTAB) symbols = value;
    if (entry->d_tag == DT_STRTAB) strings = value;
    if (entry->d_tag == DT_GNU_HASH) gnu_hash = value;
  }
  const auto inside = [&](std::uint64_t address) { return address >= object.begin && address < object.end; };
  if (!inside(symbols) || !inside(strings) || !inside(gnu_hash)) return;
  symbols_ = reinterpret_cast<const Elf64_Sym*>(symbols);
  strings_ = reinterpret_cast<const char*>(strings);
  gnu_hash_ = reinterpret_cast<const std::uint32_t*>(gnu_hash);
}

// Source: System V ABI, chapter 5, Dynamic Linking; the layout of DT_GNU_HASH as binutils writes it.
ObjectSymbols::Symbol ObjectSymbols::Find(const char* name) const {
  if (gnu_hash_ == nullptr) return {};
  std::uint32_t wanted = 5381;
  for (const char* c = name; *c != '\0'; ++c) wanted = wanted * 33 + static_cast<unsigned char>(*c);
  const std::uint32_t bucket_count = gnu_hash_[0], first_symbol = gnu_hash_[1], bloom_words = gnu_hash_[2];
  if (bucket_count == 0) return {};
  const std::uint32_t* buckets = gnu_hash_ + 4 + std::uint64_t{bloom_words} * 2;
  const std::uint32_t* chains = buckets + bucket_count;
  std::uint32_t index = buckets[wanted % bucket_count];
  if (index < first_symbol || index == 0) return {};
  for (;; ++index) {
    const std::uint32_t hash = chains[index - first_symbol];
    const Elf64_Sym& symbol = symbols_[index];
    if ((hash | 1) == (wanted | 1) && symbol.st_shndx != SHN_UNDEF &&
        std::strcmp(strings_ + symbol.st_name, name) == 0) {
      return {load_bias_ + symbol.st_value, symbol.st_size};
    }
    if ((hash & 1) != 0) return {};
  }
}

}  // namespace cuheap::python
