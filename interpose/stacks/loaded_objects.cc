#include "interpose/stacks/loaded_objects.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#ifdef DLFO_STRUCT_HAS_EH_DBASE
// Weak, so that the library also loads where glibc is older than the one it was built with.
#pragma weak _dl_find_object
#define CUHEAP_HAS_DL_FIND_OBJECT 1
#else
#define CUHEAP_HAS_DL_FIND_OBJECT 0
#endif

namespace cuheap::stacks {
namespace {

struct IterationQuery {
  std::uint64_t address;
  LoadedObject* object;
};

int MatchObject(dl_phdr_info* info, std::size_t, void* argument) {
  auto* query = static_cast<IterationQuery*>(argument);
  std::uint64_t begin = ~std::uint64_t{0}, end = 0;
  const void* eh_frame_hdr = nullptr;
  for (unsigned i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = info->dlpi_phdr[i];
    const std::uint64_t address = info->dlpi_addr + header.p_vaddr;
    if (header.p_type == PT_LOAD) {
      begin = std::min<std::uint64_t>(begin, address & ~std::uint64_t{4095});
      end = std::max<std::uint64_t>(end, address + header.p_memsz);
    } else if (header.p_type == PT_GNU_EH_FRAME) {
      eh_frame_hdr = reinterpret_cast<const void*>(address);
    }
  }
  if (query->address < begin || query->address >= end) return 0;
  *query->object =
      LoadedObject{begin, end, info->dlpi_addr, eh_frame_hdr, info->dlpi_name == nullptr ? "" : info->dlpi_name};
  return 1;
}

// Calls found(begin, path) for each line of /proc/self/maps until it returns true.
template <typename Function>
void ForEachMapping(Function found) {
  const long descriptor = syscall(SYS_openat, AT_FDCWD, "/proc/self/maps", O_RDONLY | O_CLOEXEC, 0);
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
  syscall(SYS_close, descriptor);
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

bool HasLockFreeFinder() {
#if CUHEAP_HAS_DL_FIND_OBJECT
  return _dl_find_object != nullptr;
#else
  return false;
#endif
}

bool FindLoadedObjectByIteration(std::uint64_t address, LoadedObject& object) {
  IterationQuery query{address, &object};
  return dl_iterate_phdr(MatchObject, &query) == 1;
}

bool FindLoadedObject(std::uint64_t address, LoadedObject& object) {
#if CUHEAP_HAS_DL_FIND_OBJECT
  if (_dl_find_object != nullptr) {
    dl_find_object found;
    if (_dl_find_object(reinterpret_cast<void*>(address), &found) != 0) return false;
    const link_map* map = found.dlfo_link_map;
    object.begin = reinterpret_cast<std::uint64_t>(found.dlfo_map_start);
    object.end = reinterpret_cast<std::uint64_t>(found.dlfo_map_end);
    object.load_bias = map->l_addr;
    object.eh_frame_hdr = found.dlfo_eh_frame;
    object.name = map->l_name == nullptr ? "" : map->l_name;
    return true;
  }
#endif
  return FindLoadedObjectByIteration(address, object);
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
