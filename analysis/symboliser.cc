#include "analysis/symboliser.h"

#include <cstdint>
#include <filesystem>
#include <map>
#include <utility>
#include <vector>

#include "analysis/interner.h"
#include "analysis/module_symbols.h"

namespace cuheap::analysis {
namespace {

bool IsRaw(const Frame& frame) { return frame.kind == FrameKind::kNative && frame.function == 0 && frame.module != 0; }

std::string FileOf(const Module& module, const Process& process) {
  if (module.path.empty()) return process.executable;  // the loader gives the program itself no name
  if (module.path.front() == '/' || module.path.front() == '[') return module.path;
  if (module.path.find('/') == std::string::npos) return module.path;  // linux-vdso.so.1
  return std::filesystem::path(process.working_directory) / module.path;
}

class Rewriter {
 public:
  explicit Rewriter(Snapshot& snapshot) : snapshot_(snapshot), strings_(snapshot.strings) {}

  // Looks up the raw frames of one module.
  void Resolve(std::uint32_t module, const std::vector<std::uint32_t>& frames, const SymboliseOptions& options) {
    const Module& facts = snapshot_.modules[module];
    if (facts.path_cut) {
      for (const std::uint32_t frame : frames) {
        Add(frame, {SourceFrame{"", "", 0, false, "the path of the file is longer than the journal holds"}});
      }
      return;
    }
    ModuleSymbols symbols(FileOf(facts, snapshot_.process), facts.build_id, options.debug_root);
    for (const std::uint32_t frame : frames) Add(frame, symbols.Find(snapshot_.frames[frame].offset));
  }

  // Makes the new table of frames, and the stacks of it.
  void Finish() {
    std::vector<Frame> table{Frame{}};
    Interner<Frame> interner(table);
    std::vector<std::vector<std::uint32_t>> replaced_by(snapshot_.frames.size());
    for (std::uint32_t old = 0; old < snapshot_.frames.size(); ++old) {
      const auto found = found_.find(old);
      if (found == found_.end()) {
        replaced_by[old] = {interner.Intern(snapshot_.frames[old])};
        continue;
      }
      for (const Frame& frame : found->second) replaced_by[old].push_back(interner.Intern(frame));
    }
    for (Stack& stack : snapshot_.stacks) {
      std::vector<std::uint32_t> frames;
      for (const std::uint32_t old : stack.frames) {
        frames.insert(frames.end(), replaced_by[old].begin(), replaced_by[old].end());
      }
      stack.frames = std::move(frames);
    }
    snapshot_.frames = std::move(table);
  }

 private:
  void Add(std::uint32_t raw, const std::vector<SourceFrame>& found) {
    std::vector<Frame>& frames = found_[raw];
    for (const SourceFrame& source : found) {
      Frame frame = snapshot_.frames[raw];
      frame.function = strings_.Intern(source.function);
      frame.file = strings_.Intern(source.file);
      frame.line = source.line;
      frame.inlined = source.inlined;
      frame.reason = strings_.Intern(source.reason);
      frames.push_back(frame);
    }
  }

  Snapshot& snapshot_;
  Interner<std::string> strings_;
  std::map<std::uint32_t, std::vector<Frame>> found_;  // by raw frame
};

}  // namespace

void Symbolise(Snapshot& snapshot, const SymboliseOptions& options) {
  std::map<std::uint32_t, std::vector<std::uint32_t>> raw_by_module;
  for (std::uint32_t i = 0; i < snapshot.frames.size(); ++i) {
    const Frame& frame = snapshot.frames[i];
    if (IsRaw(frame) && frame.module <= snapshot.modules.size()) raw_by_module[frame.module - 1].push_back(i);
  }
  if (raw_by_module.empty()) return;
  Rewriter rewriter(snapshot);
  // One module after the other: only one file's debug information is in memory at a time.
  for (const auto& [module, frames] : raw_by_module) rewriter.Resolve(module, frames, options);
  rewriter.Finish();
}

}  // namespace cuheap::analysis
