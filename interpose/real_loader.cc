#include "interpose/real_loader.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <sys/auxv.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

extern "C" {
extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const char _end[] __attribute__((visibility("hidden")));  // NOLINT(readability-identifier-naming): the linker's
}

namespace cuheap {
namespace {

#if defined(__x86_64__)
constexpr const char* kBaseVersion = "GLIBC_2.2.5";
#elif defined(__aarch64__)
constexpr const char* kBaseVersion = "GLIBC_2.17";
#else
#error "the base version of glibc on this processor is not known here"
#endif
constexpr const char* kMergedVersion = "GLIBC_2.34";  // libdl became part of libc

// As strcmp(a, b) == 0. A sanitizer's runtime intercepts that, and asks us for the original before it has it.
bool Same(const char* a, const char* b) {
  while (*a != '\0' && *a == *b) ++a, ++b;
  return *a == *b;
}

// What of an object's dynamic section a look-up needs.
struct DynamicTables {
  const ElfW(Sym) * symbols = nullptr;
  const char* strings = nullptr;
  const std::uint32_t* gnu_hash = nullptr;
  const ElfW(Half) * versions = nullptr;  // of each symbol; null: the object has none
};

constexpr ElfW(Half) kNotDefault = 0x8000;  // in a symbol's version: of an old one, which only a version finds

DynamicTables ReadDynamicTables(const link_map& object) {
  DynamicTables tables;
  // glibc relocates these in place on most processors, but not on all: an address below the object is an offset.
  const auto absolute = [&](ElfW(Addr) value) { return value < object.l_addr ? value + object.l_addr : value; };
  for (const ElfW(Dyn)* entry = object.l_ld; entry != nullptr && entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag == DT_SYMTAB) tables.symbols = reinterpret_cast<const ElfW(Sym)*>(absolute(entry->d_un.d_ptr));
    if (entry->d_tag == DT_STRTAB) tables.strings = reinterpret_cast<const char*>(absolute(entry->d_un.d_ptr));
    if (entry->d_tag == DT_VERSYM) tables.versions = reinterpret_cast<const ElfW(Half)*>(absolute(entry->d_un.d_ptr));
    if (entry->d_tag == DT_GNU_HASH) {
      tables.gnu_hash = reinterpret_cast<const std::uint32_t*>(absolute(entry->d_un.d_ptr));
    }
  }
  return tables;
}

// The function of this name in the object, of its default version; of any version if `any_version`.
void* FindFunction(const link_map& object, const char* name, bool any_version) {
  const DynamicTables tables = ReadDynamicTables(object);
  if (tables.symbols == nullptr || tables.strings == nullptr || tables.gnu_hash == nullptr) return nullptr;
  std::uint32_t hash = 5381;
  for (const char* c = name; *c != '\0'; ++c) hash = hash * 33 + static_cast<unsigned char>(*c);
  const std::uint32_t bucket_count = tables.gnu_hash[0];
  const std::uint32_t first_symbol = tables.gnu_hash[1];
  const std::uint32_t bloom_words = tables.gnu_hash[2];
  if (bucket_count == 0) return nullptr;
  const std::uint32_t* buckets = tables.gnu_hash + 4 + bloom_words * (sizeof(ElfW(Addr)) / 4);
  const std::uint32_t* chain = buckets + bucket_count;
  for (std::uint32_t index = buckets[hash % bucket_count]; index >= first_symbol && index != 0; ++index) {
    const std::uint32_t chained = chain[index - first_symbol];
    const ElfW(Sym)& symbol = tables.symbols[index];
    const bool hidden = tables.versions != nullptr && (tables.versions[index] & kNotDefault) != 0;
    if ((any_version || !hidden) && (chained | 1) == (hash | 1) && symbol.st_shndx != SHN_UNDEF &&
        ELF64_ST_TYPE(symbol.st_info) == STT_FUNC && Same(tables.strings + symbol.st_name, name)) {
      return reinterpret_cast<void*>(object.l_addr + symbol.st_value);
    }
    if ((chained & 1) != 0) break;
  }
  return nullptr;
}

bool IsCLibrary(const char* path) {
  if (path == nullptr) return false;
  const char* name = path;
  for (const char* c = path; *c != '\0'; ++c) {
    if (*c == '/') name = c + 1;
  }
  return Same(name, "libc.so.6") || Same(name, "libdl.so.2");
}

// The C library's own function. It is one of the objects that the program started with: these come first in the
// loader's list and never leave it, so walking to it needs no lock (dl_iterate_phdr would, and is intercepted by
// sanitizers, whose runtimes are not ready for it when they ask us).
void* FindInCLibrary(const char* name) {
  for (const link_map* object = _r_debug.r_map; object != nullptr; object = object->l_next) {
    if (!IsCLibrary(object->l_name)) continue;
    if (void* found = FindFunction(*object, name, true)) return found;
  }
  return nullptr;
}

// Whether the object has an entry of this kind (DT_NEEDED, DT_SONAME) with this name.
bool HasName(const link_map& object, ElfW(Sxword) tag, const char* name) {
  const DynamicTables tables = ReadDynamicTables(object);
  if (tables.strings == nullptr) return false;
  for (const ElfW(Dyn)* entry = object.l_ld; entry != nullptr && entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag == tag && Same(tables.strings + entry->d_un.d_val, name)) return true;
  }
  return false;
}

// A racing second thread finds the same values, so plain atomics are enough.
constinit std::atomic<DlvsymFunction> real_dlvsym{nullptr};
constinit std::atomic<DlsymFunction> real_dlsym{nullptr};
constinit std::atomic<DlcloseFunction> real_dlclose{nullptr};

template <class Function>
Function Next(std::atomic<Function>& cache, const char* name) {
  Function function = cache.load(std::memory_order_acquire);
  if (function != nullptr) return function;
  const DlvsymFunction dlvsym_function = RealDlvsym();
  if (dlvsym_function == nullptr) return nullptr;
  for (const char* version : {kBaseVersion, kMergedVersion}) {
    void* found = dlvsym_function(RTLD_NEXT, name, version);
    if (found != nullptr && !IsOurs(found)) {
      function = reinterpret_cast<Function>(found);
      cache.store(function, std::memory_order_release);
      return function;
    }
  }
  return nullptr;
}

}  // namespace

DlvsymFunction RealDlvsym() {
  DlvsymFunction function = real_dlvsym.load(std::memory_order_acquire);
  if (function == nullptr) {
    function = reinterpret_cast<DlvsymFunction>(FindInCLibrary("dlvsym"));
    real_dlvsym.store(function, std::memory_order_release);
  }
  return function;
}

DlsymFunction RealDlsym() { return Next(real_dlsym, "dlsym"); }
DlsymFunction KnownDlsym() { return real_dlsym.load(std::memory_order_acquire); }
DlsymFunction CLibraryDlsym() { return reinterpret_cast<DlsymFunction>(FindInCLibrary("dlsym")); }
DlcloseFunction RealDlclose() { return Next(real_dlclose, "dlclose"); }

const link_map* LinkedLibrary(const char* soname) {
  const link_map* program = _r_debug.r_map;
  if (program == nullptr || !HasName(*program, DT_NEEDED, soname)) return nullptr;
  for (const link_map* object = program->l_next; object != nullptr; object = object->l_next) {
    if (HasName(*object, DT_SONAME, soname)) return object;
  }
  return nullptr;
}

const link_map* NextAtStart(const link_map* object) {
  if (object == nullptr) {
    for (object = _r_debug.r_map; object != nullptr; object = object->l_next) {
      if (IsCLibrary(object->l_name)) return nullptr;
      if (IsOurs(object->l_ld)) break;
    }
  }
  if (object != nullptr) object = object->l_next;
  return object == nullptr || IsCLibrary(object->l_name) ? nullptr : object;
}

void* FunctionOf(const link_map& object, const char* name) { return FindFunction(object, name, false); }

bool IsOurs(const void* address) {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  return at >= reinterpret_cast<std::uintptr_t>(__ehdr_start) && at < reinterpret_cast<std::uintptr_t>(_end);
}

bool IsInMainProgram(const void* address) {
  const auto* headers = reinterpret_cast<const ElfW(Phdr)*>(getauxval(AT_PHDR));
  const std::size_t count = getauxval(AT_PHNUM);
  if (headers == nullptr) return false;
  std::uintptr_t bias = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (headers[i].p_type == PT_PHDR) bias = reinterpret_cast<std::uintptr_t>(headers) - headers[i].p_vaddr;
  }
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  for (std::size_t i = 0; i < count; ++i) {
    if (headers[i].p_type == PT_LOAD && at >= bias + headers[i].p_vaddr &&
        at < bias + headers[i].p_vaddr + headers[i].p_memsz) {
      return true;
    }
  }
  return false;
}

}  // namespace cuheap
