// The modules that stacks pass through: which record of the journal an address belongs to. Not locked by itself.
#ifndef CUHEAP_INTERPOSE_STACKS_MODULE_TABLE_H_
#define CUHEAP_INTERPOSE_STACKS_MODULE_TABLE_H_

#include <cstdint>

#include "interpose/journal/format.h"
#include "interpose/recorder/own_memory.h"
#include "interpose/recorder/state.h"
#include "interpose/stacks/loaded_objects.h"

namespace cuheap::stacks {

// What a module is in the question "who called the driver".
enum class ModuleRole : std::uint8_t {
  kOther,
  kRuntime,  // libcudart or libcuda: passes the call on
  kPyTorch,  // libc10_cuda: PyTorch's caching allocator
};

// By the file's name, whatever its version. path: may be relative.
ModuleRole RoleOfPath(const char* path);

struct ResolvedFrame {
  std::uint64_t word = 0;  // as in journal::StackHeader's frames
  ModuleRole role = ModuleRole::kOther;
};

class ModuleTable {
 public:
  constexpr ModuleTable() = default;

  // The frame word of a code address that is active on the calling thread's stack; writes the module's record if it is
  // new. What lies in no module, or in one that found no room in the journal, is module 0 with its absolute address.
  // generation: counts unloads. A module seen in an older one is looked at again, since another may be at its place.
  ResolvedFrame Resolve(std::uint64_t address, recorder::Recorder& recorder, std::uint32_t generation);
  // Modules seen so far.
  std::size_t size() const { return modules_.size(); }

 private:
  struct Module {
    std::uint64_t begin;
    std::uint64_t end;
    std::uint64_t load_bias;
    const void* eh_frame_hdr;
    std::uint64_t identity;  // of build-id and name
    std::uint32_t index;     // of the journal's record, 0 if there was no room
    std::uint32_t generation;
    ModuleRole role;
  };

  Module* Find(std::uint64_t address);
  Module Describe(const LoadedObject& object, std::uint64_t identity, recorder::Recorder& recorder,
                  std::uint32_t generation);

  // In the order they came: a program has a few hundred at most, and this is asked for new stacks only.
  recorder::GrowingArray<Module> modules_;
  std::size_t last_found_ = 0;
};

}  // namespace cuheap::stacks

#endif  // CUHEAP_INTERPOSE_STACKS_MODULE_TABLE_H_
