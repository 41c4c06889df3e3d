// Function names and source lines of one module, from its file.
#ifndef CUHEAP_ANALYSIS_MODULE_SYMBOLS_H_
#define CUHEAP_ANALYSIS_MODULE_SYMBOLS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace cuheap::analysis {

struct SourceFrame {
  std::string function, file;
  std::uint32_t line = 0;
  bool inlined = false;  // into the next one
  std::string reason;    // why function, file or line is missing; empty if none is
};

class ModuleSymbols {
 public:
  // Opens the file; build_id is the recorded one (hex, may be empty). Never fails: if the file cannot be used, every
  // Find() says why.
  ModuleSymbols(const std::string& path, const std::string& build_id, const std::string& debug_root);
  ~ModuleSymbols();
  ModuleSymbols(const ModuleSymbols&) = delete;
  ModuleSymbols& operator=(const ModuleSymbols&) = delete;

  // What lies at a return address (less the load bias): the frame, after the functions that were inlined there,
  // innermost first. At least one.
  std::vector<SourceFrame> Find(std::uint64_t return_offset);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
  std::string refusal_;
};

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_MODULE_SYMBOLS_H_
