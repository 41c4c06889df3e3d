#include "interpose/unseen/unseen.h"

#include <elf.h>
#include <link.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "interpose/unseen/mapped_files.h"
#include "interpose/unseen/own_memory_reader.h"

namespace cuheap::unseen {
namespace {

constexpr std::uint64_t kPage = 4096;
constexpr std::size_t kMaxHeaders = 64;
constexpr std::size_t kMaxCopies = Findings::kMaxDrivers + 1;
constexpr std::size_t kMaxFunctions = 512;
constexpr std::uint64_t kMaxNames = std::uint64_t{1} << 20;    // bytes of a driver's names; it has some 20 KiB
constexpr std::uint64_t kMaxSymbols = std::uint64_t{1} << 14;  // of a driver; it has some 700
// Beyond these a file is not searched further: tables of look-ups lie in files of a usual size.
constexpr std::uint64_t kMaxData = std::uint64_t{128} << 20;
constexpr std::uint64_t kMaxText = std::uint64_t{256} << 20;

// A loaded copy of the driver.
struct Copy {
  std::uint64_t begin, end;
  bool known;      // the one that we stand in front of
  bool elsewhere;  // in a namespace of its own
  // Of its hooked functions, in order.
  std::uint64_t functions[kMaxFunctions];
  std::size_t function_count;
};

// Everything that a look needs, in one mapping.
struct Scratch {
  MappedFiles files;
  Copy copies[kMaxCopies];
  char names[kMaxNames];
  alignas(8) unsigned char buffer[std::size_t{1} << 16];
};

bool StartsWith(const char* text, const char* beginning) {
  return std::strncmp(text, beginning, std::strlen(beginning)) == 0;
}

bool IsDriver(const char* path) { return StartsWith(FileName(path), "libcuda.so"); }

// The C library and the loader, whose business dlsym is; parts of the vendor's driver, which may call each other.
bool IsExempt(const char* path) {
  for (const char* beginning : {"libc.so", "libc-", "ld-", "ld.so", "libdl.so", "libdl-", "libpthread", "libnvidia-",
                                "libcudadebugger", "libcuheap_preload"}) {
    if (StartsWith(FileName(path), beginning)) return true;
  }
  return false;
}

void CopyPath(const char* path, char (&out)[kPathBytes]) {
  const std::size_t length = std::strlen(path);
  const char* kept = length < kPathBytes ? path : path + (length - (kPathBytes - 1));
  std::memcpy(out, kept, std::min(length, kPathBytes - 1) + 1);
}

// What the words of one file were found to be.
struct Words {
  std::uint32_t direct = 0, other = 0, lookups = 0;
};

class Looker {
 public:
  Looker(const Surroundings& surroundings, Scratch& scratch, Findings& findings)
      : surroundings_(surroundings), scratch_(scratch), findings_(findings) {}

  void LookAtAll(std::uint64_t only) {
    findings_.looked = scratch_.files.Read();
    if (!findings_.looked) return;
    findings_.left_out += scratch_.files.left_out();
    FindDrivers();
    findings_.driver_is_mapped = copy_count_ != 0;
    if (copy_count_ == 0) return;
    if (only == 0) findings_.device_files = scratch_.files.device_mappings() + OpenDeviceFiles();
    for (std::size_t i = 0; i < scratch_.files.size(); ++i) {
      const MappedFile& file = scratch_.files[i];
      if (only != 0 && (only < file.begin || only >= file.end)) continue;
      const auto ours = reinterpret_cast<std::uint64_t>(surroundings_.ours);
      if (IsDriver(file.path) || IsExempt(file.path) || (ours >= file.begin && ours < file.end)) continue;
      LookAt(file);
    }
  }

 private:
  // The loader's list of the namespace that the program starts in, read as other memory is: it may change meanwhile.
  bool IsInMainNamespace(const MappedFile& file) {
    const link_map* at = _r_debug.r_map;
    for (std::size_t i = 0; at != nullptr && i < MappedFiles::kMaxFiles; ++i) {
      link_map object;
      if (!reader_.ReadOne(reinterpret_cast<std::uint64_t>(at), object)) return true;  // not known
      const auto dynamic = reinterpret_cast<std::uint64_t>(object.l_ld);
      if (dynamic >= file.begin && dynamic < file.end) return true;
      at = object.l_next;
    }
    return false;
  }

  void FindDrivers() {
    const auto known = reinterpret_cast<std::uint64_t>(surroundings_.driver);
    for (std::size_t i = 0; i < scratch_.files.size() && copy_count_ < kMaxCopies; ++i) {
      const MappedFile& file = scratch_.files[i];
      if (!IsDriver(file.path)) continue;
      Elf64_Phdr headers[kMaxHeaders];
      const std::size_t header_count = ReadHeaders(file, headers);
      if (header_count == 0) continue;  // data of that name
      Copy& copy = scratch_.copies[copy_count_++];
      copy.begin = file.begin;
      copy.end = file.end;
      copy.known = known >= file.begin && known < file.end;
      copy.elsewhere = !copy.known && !IsInMainNamespace(file);
      ReadFunctions(file, headers, header_count, copy);
      CopyPath(file.path, findings_.driver_path);
      if (copy.elsewhere || (surroundings_.driver != nullptr && !copy.known)) AddDriver(file.path);
    }
  }

  // The hooked functions among its dynamic symbols, which end where their names begin, or sooner.
  void ReadFunctions(const MappedFile& file, const Elf64_Phdr* headers, std::size_t header_count, Copy& copy) {
    copy.function_count = 0;
    const std::uint64_t bias = file.begin - FirstAddress(headers, header_count);
    std::uint64_t symbols = 0, names = 0, name_bytes = 0;
    for (std::size_t i = 0; i < header_count; ++i) {
      if (headers[i].p_type != PT_DYNAMIC) continue;
      Elf64_Dyn entry{};
      for (std::uint64_t at = 0; at + sizeof(entry) <= headers[i].p_memsz; at += sizeof(entry)) {
        if (!reader_.ReadOne(bias + headers[i].p_vaddr + at, entry) || entry.d_tag == DT_NULL) break;
        // The loader relocates these in place, except where they are read-only.
        const std::uint64_t value = entry.d_un.d_ptr < bias ? bias + entry.d_un.d_ptr : entry.d_un.d_ptr;
        if (entry.d_tag == DT_SYMTAB) symbols = value;
        if (entry.d_tag == DT_STRTAB) names = value;
        if (entry.d_tag == DT_STRSZ) name_bytes = std::min(std::uint64_t{entry.d_un.d_val}, kMaxNames - 1);
      }
    }
    if (symbols == 0 || names <= symbols || reader_.Read(names, scratch_.names, name_bytes) != name_bytes) return;
    scratch_.names[name_bytes] = '\0';
    const std::uint64_t count = std::min((names - symbols) / sizeof(Elf64_Sym), kMaxSymbols);
    for (std::uint64_t i = 0; i < count && copy.function_count < kMaxFunctions; ++i) {
      Elf64_Sym symbol;
      if (!reader_.ReadOne(symbols + i * sizeof(symbol), symbol)) break;
      if (symbol.st_shndx == SHN_UNDEF || symbol.st_name >= name_bytes || symbol.st_value == 0) continue;
      if (surroundings_.hooked(scratch_.names + symbol.st_name)) {
        copy.functions[copy.function_count++] = bias + symbol.st_value;
      }
    }
    std::sort(copy.functions, copy.functions + copy.function_count);
  }

  void AddDriver(const char* path) {
    OtherDriver driver{};
    CopyPath(path, driver.path);
    for (std::size_t i = 0; i < findings_.driver_count; ++i) {
      if (std::strcmp(findings_.drivers[i].path, driver.path) == 0) return;
    }
    if (findings_.driver_count == Findings::kMaxDrivers) {
      ++findings_.left_out;
      return;
    }
    findings_.drivers[findings_.driver_count++] = driver;
  }

  // How many program headers the file has; 0 if it is no ELF file that could be read.
  std::size_t ReadHeaders(const MappedFile& file, Elf64_Phdr (&headers)[kMaxHeaders]) {
    Elf64_Ehdr header;
    if (!reader_.ReadOne(file.begin, header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return 0;
    if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_phentsize != sizeof(Elf64_Phdr)) return 0;
    const std::size_t count = std::min<std::size_t>(header.e_phnum, kMaxHeaders);
    const std::size_t bytes = count * sizeof(Elf64_Phdr);
    return reader_.Read(file.begin + header.e_phoff, headers, bytes) == bytes ? count : 0;
  }

  static std::uint64_t FirstAddress(const Elf64_Phdr* headers, std::size_t count) {
    std::uint64_t first = ~std::uint64_t{0};
    for (std::size_t i = 0; i < count; ++i) {
      if (headers[i].p_type == PT_LOAD)
        first = std::min<std::uint64_t>(first, headers[i].p_vaddr & ~std::uint64_t{4095});
    }
    return first;
  }

  void LookAt(const MappedFile& file) {
    Elf64_Phdr headers[kMaxHeaders];
    const std::size_t count = ReadHeaders(file, headers);
    std::uint64_t first = ~std::uint64_t{0};
    for (std::size_t i = 0; i < count; ++i) {
      if (headers[i].p_type == PT_LOAD)
        first = std::min<std::uint64_t>(first, headers[i].p_vaddr & ~std::uint64_t{4095});
    }
    Words words;
    std::uint64_t left = kMaxData;
    for (std::size_t i = 0; i < count; ++i) {
      if (headers[i].p_type != PT_LOAD || (headers[i].p_flags & PF_W) == 0) continue;
      SearchWords(file.begin - first + headers[i].p_vaddr, headers[i].p_memsz, left, words);
    }
    if (words.direct != 0) {
      Add(file.path, Way::kDirect, words.direct);
    } else if (words.other != 0) {
      Add(file.path, Way::kOtherDriver, words.other);
    } else if (words.lookups != 0 && NamesTheDriver(headers, count, file.begin - first)) {
      Add(file.path, Way::kOwnLookups, words.lookups);
    }
  }

  // Only pages that were written can hold an address: the others are as in the file, or were never touched.
  void SearchWords(std::uint64_t begin, std::uint64_t bytes, std::uint64_t& left, Words& words) {
    constexpr std::size_t kPages = sizeof(scratch_.buffer) / kPage;
    const std::uint64_t end = begin + bytes;
    bool written[kPages];
    for (std::uint64_t page = begin & ~(kPage - 1); page < end && left != 0; page += kPages * kPage) {
      reader_.FindWritten(page, written, kPages);
      for (std::size_t first = 0; first < kPages && page + first * kPage < end && left != 0;) {
        std::size_t last = first;
        while (last < kPages && written[last] == written[first]) ++last;
        const std::uint64_t from = std::max(page + first * kPage, (begin + 7) & ~std::uint64_t{7});
        const std::uint64_t to = std::min(page + last * kPage, end);
        if (written[first] && from < to) {
          SearchRun(from, to - from, words);
          left -= std::min(left, to - from);
        }
        first = last;
      }
    }
  }

  void SearchRun(std::uint64_t at, std::uint64_t bytes, Words& words) {
    const std::size_t got = reader_.Read(at, scratch_.buffer, bytes);
    for (std::size_t i = 0; i + 8 <= got; i += 8) {
      std::uint64_t word;
      std::memcpy(&word, scratch_.buffer + i, sizeof(word));
      Judge(word, words);
    }
  }

  void Judge(std::uint64_t word, Words& words) const {
    for (std::size_t i = 0; i < copy_count_; ++i) {
      const Copy& copy = scratch_.copies[i];
      if (word < copy.begin || word >= copy.end) continue;
      if (!std::binary_search(copy.functions, copy.functions + copy.function_count, word)) return;
      const bool direct = copy.known || (surroundings_.driver == nullptr && !copy.elsewhere);
      ++(direct ? words.direct : words.other);
      return;
    }
    if (word != 0 && (word == surroundings_.dlsym || word == surroundings_.dlvsym)) ++words.lookups;
  }

  // Whether its constants have a name that only users of the driver need.
  bool NamesTheDriver(const Elf64_Phdr* headers, std::size_t count, std::uint64_t bias) {
    std::uint64_t left = kMaxText;
    for (std::size_t i = 0; i < count; ++i) {
      if (headers[i].p_type != PT_LOAD || (headers[i].p_flags & PF_W) != 0) continue;
      if (HasText(bias + headers[i].p_vaddr, headers[i].p_memsz, left)) return true;
    }
    return false;
  }

  bool HasText(std::uint64_t begin, std::uint64_t bytes, std::uint64_t& left) {
    constexpr const char* kTexts[] = {"libcuda.so", "cuGetProcAddress", "cuMemAlloc"};
    constexpr std::size_t kOverlap = 16;
    for (std::uint64_t at = begin; at < begin + bytes && left != 0;) {
      const std::uint64_t wanted = std::min({begin + bytes - at, std::uint64_t{sizeof(scratch_.buffer)}, left});
      const std::size_t got = reader_.Read(at, scratch_.buffer, wanted);
      for (const char* text : kTexts) {
        if (memmem(scratch_.buffer, got, text, std::strlen(text)) != nullptr) return true;
      }
      if (got <= kOverlap) return false;
      at += got - kOverlap;
      left -= std::min<std::uint64_t>(left, got - kOverlap);
      if (got < wanted || wanted < sizeof(scratch_.buffer)) return false;
    }
    return false;
  }

  void Add(const char* path, Way way, std::uint32_t functions) {
    Library library{};
    CopyPath(path, library.path);
    library.way = way;
    library.functions = functions;
    for (std::size_t i = 0; i < findings_.library_count; ++i) {
      Library& there = findings_.libraries[i];
      if (std::strcmp(there.path, library.path) != 0) continue;
      if (there.way != way && way == Way::kOwnLookups) return;  // the other says more
      there = library;
      return;
    }
    if (findings_.library_count == Findings::kMaxLibraries) {
      ++findings_.left_out;
      return;
    }
    findings_.libraries[findings_.library_count++] = library;
  }

  const Surroundings& surroundings_;
  Scratch& scratch_;
  Findings& findings_;
  OwnMemoryReader reader_;
  std::size_t copy_count_ = 0;
};

}  // namespace

void Look(const Surroundings& surroundings, std::uint64_t only, Findings& findings) {
  void* place = mmap(nullptr, sizeof(Scratch), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  findings.looked = false;
  if (place == MAP_FAILED) return;
  // Not value-initialised: the kernel's pages are zero, and most of them are never touched.
  Looker(surroundings, *static_cast<Scratch*>(place), findings).LookAtAll(only);
  munmap(place, sizeof(Scratch));
}

}  // namespace cuheap::unseen
