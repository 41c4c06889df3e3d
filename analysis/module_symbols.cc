#include "analysis/module_symbols.h"

#include <elfutils/libdwelf.h>
#include <elfutils/libdwfl.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "analysis/dwarf_lines.h"
#include "analysis/symbol_table.h"

namespace cuheap::analysis {
namespace {

constexpr const char* kNoDebugInformation =
    "no line information: build with -g, or install the debug symbols of this library";
constexpr const char* kNoSymbol = "no symbol of the file covers this address (stripped)";

std::string Hex(const void* bytes, long count) {
  std::string text;
  char two[3];
  for (long i = 0; i < count; ++i) {
    std::snprintf(two, sizeof(two), "%02x", static_cast<const unsigned char*>(bytes)[i]);
    text += two;
  }
  return text;
}

std::string BuildIdOf(Elf* elf) {
  const void* bytes = nullptr;
  const ssize_t count = elf == nullptr ? 0 : dwelf_elf_gnu_build_id(elf, &bytes);
  return count > 0 ? Hex(bytes, count) : "";
}

std::string BuildIdOfFile(int descriptor) {
  Elf* elf = elf_begin(descriptor, ELF_C_READ_MMAP, nullptr);
  const std::string build_id = BuildIdOf(elf);
  elf_end(elf);
  return build_id;
}

// Where a module's separate debug file may lie. libdwfl's own search would also ask servers.
struct DebugSearch {
  std::string build_id, debug_root;
};

int OpenDebugFile(const std::string& path, const DebugSearch& search) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return -1;
  if (!search.build_id.empty() && BuildIdOfFile(descriptor) != search.build_id) {
    close(descriptor);
    return -1;
  }
  return descriptor;
}

int FindDebugFile(Dwfl_Module*, void** userdata, const char*, Dwarf_Addr, const char* file_name, const char* debuglink,
                  GElf_Word, char** found_name) {
  const auto* search = static_cast<const DebugSearch*>(*userdata);
  if (search == nullptr) return -1;
  std::vector<std::string> candidates;
  if (search->build_id.size() > 2) {
    candidates.push_back(search->debug_root + "/.build-id/" + search->build_id.substr(0, 2) + "/" +
                         search->build_id.substr(2) + ".debug");
  }
  if (debuglink != nullptr && file_name != nullptr) {
    const std::string folder = std::filesystem::path(file_name).parent_path();
    for (const std::string& place : {folder, folder + "/.debug", search->debug_root + folder}) {
      candidates.push_back(place + "/" + debuglink);
    }
  }
  for (const std::string& candidate : candidates) {
    // A debug link may name the file itself.
    std::error_code error;
    if (file_name != nullptr && std::filesystem::equivalent(candidate, file_name, error)) continue;
    const int descriptor = OpenDebugFile(candidate, *search);
    if (descriptor < 0) continue;
    *found_name = strdup(candidate.c_str());
    return descriptor;
  }
  return -1;
}

const Dwfl_Callbacks kCallbacks = {nullptr, FindDebugFile, dwfl_offline_section_address, nullptr};

// Why a file cannot be read at all; empty if it can.
std::string WhyUnreadable(const std::string& path) {
  if (path.empty()) return "the path of the file is not known";
  if (path.front() == '[' || path.starts_with("linux-vdso")) return "part of the kernel, there is no file";
  if (path.ends_with(" (deleted)")) return "the file was deleted while the program ran";
  struct stat facts;
  if (stat(path.c_str(), &facts) != 0) return std::string("the file cannot be read: ") + std::strerror(errno);
  if (!S_ISREG(facts.st_mode)) return "not a regular file";
  if (access(path.c_str(), R_OK) != 0) return std::string("the file cannot be read: ") + std::strerror(errno);
  return "";
}

}  // namespace

class ModuleSymbols::Impl {
 public:
  Impl() : dwfl_(dwfl_begin(&kCallbacks)) {}
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  ~Impl() {
    lines_.reset();
    dwfl_end(dwfl_);
  }

  // Why the file cannot be used; empty if it can.
  std::string Open(const std::string& path, const std::string& build_id, const std::string& debug_root) {
    if (dwfl_ == nullptr) return "no memory";
    dwfl_report_begin(dwfl_);
    module_ = dwfl_report_offline(dwfl_, "module", path.c_str(), -1);
    const int error = module_ == nullptr ? dwfl_errno() : 0;
    dwfl_report_end(dwfl_, nullptr, nullptr);
    if (module_ == nullptr) return std::string("the file cannot be read: ") + dwfl_errmsg(error);
    Elf* elf = dwfl_module_getelf(module_, &bias_);
    search_ = {BuildIdOf(elf), debug_root};
    if (search_.build_id != build_id) {
      return "the file on disk is another build: its build id is " +
             (search_.build_id.empty() ? "missing" : search_.build_id) + ", recorded was " +
             (build_id.empty() ? "none" : build_id);
    }
    void** userdata = nullptr;
    dwfl_module_info(module_, &userdata, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr);
    *userdata = &search_;
    lines_ = std::make_unique<DwarfLines>(module_);
    symbols_ = std::make_unique<SymbolTable>(module_);
    return "";
  }

  std::vector<SourceFrame> Find(std::uint64_t return_offset) {
    const std::uint64_t address = return_offset - 1 + bias_;  // inside the call
    std::vector<SourceFrame> frames = lines_->Find(address);
    if (frames.empty()) frames.emplace_back();
    SourceFrame& outermost = frames.back();
    if (outermost.function.empty()) {
      if (const char* name = symbols_->Find(address)) outermost.function = ReadableName(name);
    }
    for (SourceFrame& frame : frames) frame.reason = ReasonOf(frame);
    return frames;
  }

 private:
  std::string ReasonOf(const SourceFrame& frame) const {
    std::string reason = frame.function.empty() ? kNoSymbol : "";
    if (frame.file.empty()) {
      // One reason is enough where there is neither name nor line: without symbols there are no lines either.
      if (reason.empty()) reason = lines_->available() ? "no line information for this function" : kNoDebugInformation;
    } else if (frame.line == 0 && reason.empty()) {
      reason = "the compiler gave no line to this code";
    }
    return reason;
  }

  Dwfl* dwfl_;
  Dwfl_Module* module_ = nullptr;
  Dwarf_Addr bias_ = 0;
  DebugSearch search_;
  std::unique_ptr<DwarfLines> lines_;
  std::unique_ptr<SymbolTable> symbols_;
};

ModuleSymbols::ModuleSymbols(const std::string& path, const std::string& build_id, const std::string& debug_root)
    : refusal_(WhyUnreadable(path)) {
  if (!refusal_.empty()) return;
  elf_version(EV_CURRENT);
  impl_ = std::make_unique<Impl>();
  refusal_ = impl_->Open(path, build_id, debug_root);
}

ModuleSymbols::~ModuleSymbols() = default;

std::vector<SourceFrame> ModuleSymbols::Find(std::uint64_t return_offset) {
  if (!refusal_.empty()) return {SourceFrame{"", "", 0, false, refusal_}};
  return impl_->Find(return_offset);
}

}  // namespace cuheap::analysis
