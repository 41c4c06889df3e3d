#include "interpose/stacks/loaded_objects.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "interpose/recorder/own_files.h"

// Note [Finding _dl_find_object]
//
// The function is asked for at run time: a reference, even a weak one, would make the library need glibc 2.35 to be
// loaded at all. Not with dlsym, which takes the loader's lock, and we may be anywhere. It is in libc.so.6, whose
// dynamic symbols are read in place, once. libc.so.6 is one of the objects that the program started with; these come
// first in the loader's list and never leave it, so walking to it needs no lock either.

namespace cuheap::stacks {
namespace {

// Source: glibc manual, "Dynamic Linker Introspection" (_dl_find_object), and <bits/dl_find_object.h> of glibc 2.35 for
// x86-64; declared here so that the library can be built with an older one.
struct FoundObject {
  unsigned long long flags;
  void* map_start;
  void* map_end;
  link_map* map;
  void* eh_frame;
  unsigned long long reserved[7];
};
using DlFindObject = int (*)(void*, FoundObject*);

// The address of a dynamic symbol of the object, by its GNU hash table; 0 if there is none.
// Source: System V ABI, chapter 5, Dynamic Linking; the layout of DT_GNU_HASH as binutils writes it.
std::uint64_t DynamicSymbol(const link_map& object, const char* name) {
  std::uint64_t symbols = 0, strings = 0, hash_table = 0;
  const std::uint64_t base = object.l_addr;
  for (const ElfW(Dyn)* entry = object.l_ld; entry != nullptr && entry->d_tag != DT_NULL; ++entry) {
    // The loader relocates these entries in place, except where they are read-only.
    const std::uint64_t value = entry->d_un.d_ptr < base ? base + entry->d_un.d_ptr : entry->d_un.d_ptr;
    if (entry->d_tag == DT_SYMTAB) symbols = value;
    if (entry->d_tag == DT_STRTAB) strings = value;
    if (entry->d_tag == DT_GNU_HASH) hash_table = value;
  }
  if (symbols == 0 || strings == 0 || hash_table == 0) return 0;
  std::uint32_t wanted = 5381;
  for (const char* c = name; *c != '\0'; ++c) wanted = wanted * 33 + static_cast<unsigned char>(*c);
  const auto* words = reinterpret_cast<const std::uint32_t*>(hash_table);
  const std::uint32_t bucket_count = words[0], first_symbol = words[1], bloom_words = words[2];
  const std::uint32_t* buckets = words + 4 + bloom_words * 2;
  const std::uint32_t* chains = buckets + bucket_count;
  std::uint32_t index = buckets[wanted % bucket_count];
  if (index < first_symbol) return 0;
  for (;; ++index) {
    const std::uint32_t hash = chains[index - first_symbol];
    const auto* symbol = reinterpret_cast<const ElfW(Sym)*>(symbols) + index;
    if ((hash | 1) == (wanted | 1) && symbol->st_shndx != SHN_UNDEF &&
        std::strcmp(reinterpret_cast<const char*>(strings) + symbol->st_name, name) == 0) {
      return base + symbol->st_value;
    }
    if ((hash & 1) != 0) return 0;
  }
}

// nullptr: this C library has none.
DlFindObject LoaderFinder() {
  static constinit std::atomic<bool> asked = false;
  static constinit std::atomic<DlFindObject> finder = nullptr;
  if (asked.load(std::memory_order_acquire)) return finder.load(std::memory_order_relaxed);
  DlFindObject found = nullptr;
  for (const link_map* map = _r_debug.r_map; map != nullptr; map = map->l_next) {
    const char* slash = std::strrchr(map->l_name, '/');
    if (std::strcmp(slash == nullptr ? map->l_name : slash + 1, "libc.so.6") != 0) continue;
    found = reinterpret_cast<DlFindObject>(DynamicSymbol(*map, "_dl_find_object"));
    break;
  }
  finder.store(found, std::memory_order_relaxed);
  asked.store(true, std::memory_order_release);
  return found;
}

LoadedObject Describe(const dl_phdr_info& info) {
  std::uint64_t begin = ~std::uint64_t{0}, end = 0;
  const void* eh_frame_hdr = nullptr;
  for (unsigned i = 0; i < info.dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = info.dlpi_phdr[i];
    const std::uint64_t address = info.dlpi_addr + header.p_vaddr;
    if (header.p_type == PT_LOAD) {
      begin = std::min<std::uint64_t>(begin, address & ~std::uint64_t{4095});
      end = std::max<std::uint64_t>(end, address + header.p_memsz);
    } else if (header.p_type == PT_GNU_EH_FRAME) {
      eh_frame_hdr = reinterpret_cast<const void*>(address);
    }
  }
  end = (end + 4095) & ~std::uint64_t{4095};
  return {begin, end, info.dlpi_addr, eh_frame_hdr, info.dlpi_name == nullptr ? "" : info.dlpi_name};
}

struct AddressQuery {
  std::uint64_t address;
  LoadedObject* object;
};

int MatchAddress(dl_phdr_info* info, std::size_t, void* argument) {
  auto* query = static_cast<AddressQuery*>(argument);
  const LoadedObject object = Describe(*info);
  if (query->address < object.begin || query->address >= object.end) return 0;
  *query->object = object;
  return 1;
}

struct ObjectQuery {
  bool (*matches)(const LoadedObject&);
  LoadedObject* object;
};

int MatchObject(dl_phdr_info* info, std::size_t, void* argument) {
  auto* query = static_cast<ObjectQuery*>(argument);
  const LoadedObject object = Describe(*info);
  if (!query->matches(object)) return 0;
  *query->object = object;
  return 1;
}

// Calls found(begin, path) for each line of /proc/self/maps until it returns true.
template <typename Function>
void ForEachMapping(Function found) {
  const int descriptor = recorder::OpenOwn(AT_FDCWD, "/proc/self/maps", O_RDONLY, 0);
  if (descriptor < 0) return;
  // A line holds 73 characters and a path; one that is longer than this is passed over.
  char buffer[1536];
  std::size_t used = 0;
  bool skipping = false;
  for (bool done = false; !done;) {
    const long got = syscall(SYS_read, descriptor, buffer + used, sizeof(buffer) - used);
    if (got <= 0) break;
    used += static_cast<std::size_t>(got);
    std::size_t line = 0;
    while (const void* newline = std::memchr(buffer + line, '\n', used - line)) {
      const auto end = static_cast<std::size_t>(static_cast<const char*>(newline) - buffer);
      buffer[end] = '\0';
      if (!skipping && found(buffer + line)) {
        done = true;
        break;
      }
      skipping = false;
      line = end + 1;
    }
    std::memmove(buffer, buffer + line, used - line);
    used -= line;
    if (used == sizeof(buffer)) {
      used = 0;
      skipping = true;
    }
  }
  recorder::CloseOwn(descriptor);
}

std::size_t Copy(const char* text, char* out, std::size_t size) {
  const std::size_t length = std::strlen(text);
  const std::size_t kept = std::min(length, size - 1);
  std::memcpy(out, text, kept);
  out[kept] = '\0';
  return length;
}

std::size_t PathFromMaps(std::uint64_t begin, char* out, std::size_t size) {
  std::size_t length = 0;
  ForEachMapping([&](const char* line) {
    std::uint64_t start = 0;
    for (; *line != '-' && *line != '\0'; ++line) {
      const char c = *line;
      start = start * 16 + static_cast<std::uint64_t>(c <= '9' ? c - '0' : c - 'a' + 10);
    }
    if (start != begin) return false;
    const char* path = std::strchr(line, '/');
    if (path != nullptr) length = Copy(path, out, size);
    return true;
  });
  return length;
}

}  // namespace

bool HasLockFreeFinder() { return LoaderFinder() != nullptr; }

bool FindLoadedObjectByIteration(std::uint64_t address, LoadedObject& object) {
  AddressQuery query{address, &object};
  return dl_iterate_phdr(MatchAddress, &query) == 1;
}

bool FindObject(bool (*matches)(const LoadedObject& object), LoadedObject& found) {
  ObjectQuery query{matches, &found};
  return dl_iterate_phdr(MatchObject, &query) == 1;
}

bool FindLoadedObject(std::uint64_t address, LoadedObject& object) {
  const DlFindObject finder = LoaderFinder();
  if (finder == nullptr) return FindLoadedObjectByIteration(address, object);
  FoundObject found;
  if (finder(reinterpret_cast<void*>(address), &found) != 0) return false;
  object.begin = reinterpret_cast<std::uint64_t>(found.map_start);
  object.end = reinterpret_cast<std::uint64_t>(found.map_end);
  object.load_bias = found.map->l_addr;
  object.eh_frame_hdr = found.eh_frame;
  object.name = found.map->l_name == nullptr ? "" : found.map->l_name;
  return true;
}

std::size_t BuildIdOf(const LoadedObject& object, unsigned char (&build_id)[kMaxBuildId]) {
  // The first mapped page begins with the ELF header in every file that a linker makes; if not, it is left alone.
  const auto* header = reinterpret_cast<const ElfW(Ehdr)*>(object.begin);
  if (object.end - object.begin < 4096 || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0) return 0;
  if (header->e_phoff + std::uint64_t{header->e_phnum} * sizeof(ElfW(Phdr)) > 4096) return 0;
  const auto* headers = reinterpret_cast<const ElfW(Phdr)*>(object.begin + header->e_phoff);
  for (unsigned i = 0; i < header->e_phnum; ++i) {
    if (headers[i].p_type != PT_NOTE) continue;
    const std::uint64_t note_begin = object.load_bias + headers[i].p_vaddr;
    const std::uint64_t note_end = note_begin + headers[i].p_memsz;
    if (note_begin < object.begin || note_end > object.end) continue;
    const std::uint64_t align = headers[i].p_align == 8 ? 8 : 4;
    for (std::uint64_t at = note_begin; at + sizeof(ElfW(Nhdr)) <= note_end;) {
      const auto* note = reinterpret_cast<const ElfW(Nhdr)*>(at);
      const std::uint64_t name = at + sizeof(ElfW(Nhdr));
      const std::uint64_t content = name + (note->n_namesz + align - 1) / align * align;
      if (content + note->n_descsz > note_end) break;
      if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4 &&
          std::memcmp(reinterpret_cast<const void*>(name), "GNU", 4) == 0) {
        const std::size_t size = std::min<std::size_t>(note->n_descsz, kMaxBuildId);
        std::memcpy(build_id, reinterpret_cast<const void*>(content), size);
        return size;
      }
      at = content + (note->n_descsz + align - 1) / align * align;
    }
  }
  return 0;
}

std::size_t PathOf(const LoadedObject& object, char* out, std::size_t size) {
  if (object.name[0] == '/') return Copy(object.name, out, size);
  if (object.name[0] == '\0') {
    const long length = syscall(SYS_readlinkat, AT_FDCWD, "/proc/self/exe", out, size - 1);
    out[length < 0 ? 0 : length] = '\0';
    return length < 0 ? 0 : static_cast<std::size_t>(length);
  }
  const std::size_t length = PathFromMaps(object.begin, out, size);
  return length != 0 ? length : Copy(object.name, out, size);  // "linux-vdso.so.1" has no file
}

}  // namespace cuheap::stacks
