#include "interpose/stacks/module_table.h"

#include <algorithm>
#include <cstring>

namespace cuheap::stacks {
namespace {

constexpr std::uint64_t kAddressMask = (std::uint64_t{1} << journal::kModuleShift) - 1;

std::uint64_t HashBytes(std::uint64_t hash, const void* bytes, std::size_t size) {
  const auto* byte = static_cast<const unsigned char*>(bytes);
  for (std::size_t i = 0; i < size; ++i) hash = (hash ^ byte[i]) * 0x100000001B3;
  return hash;
}

// Equal for the same file; different, as good as surely, for another one.
std::uint64_t IdentityOf(const LoadedObject& object) {
  unsigned char build_id[kMaxBuildId];
  const std::size_t size = BuildIdOf(object, build_id);
  const std::uint64_t hash = HashBytes(0xCBF29CE484222325, build_id, size);
  return HashBytes(hash, object.name, std::strlen(object.name));
}

bool StartsWith(const char* text, const char* prefix) { return std::strncmp(text, prefix, std::strlen(prefix)) == 0; }

}  // namespace

ModuleRole RoleOfPath(const char* path) {
  const char* slash = std::strrchr(path, '/');
  const char* name = slash == nullptr ? path : slash + 1;
  if (StartsWith(name, "libc10_cuda")) return ModuleRole::kPyTorch;
  if (StartsWith(name, "libcudart") || StartsWith(name, "libcuda.so")) return ModuleRole::kRuntime;
  return ModuleRole::kOther;
}

ModuleTable::Module* ModuleTable::Find(std::uint64_t address) {
  const auto holds = [&](std::size_t i) { return address - modules_[i].begin < modules_[i].end - modules_[i].begin; };
  if (last_found_ < modules_.size() && holds(last_found_)) return &modules_[last_found_];
  // The newest first: what was there before at the same place is still in the list.
  for (std::size_t i = modules_.size(); i > 0; --i) {
    if (holds(i - 1)) {
      last_found_ = i - 1;
      return &modules_[i - 1];
    }
  }
  return nullptr;
}

ModuleTable::Module ModuleTable::Describe(const LoadedObject& object, std::uint64_t identity,
                                          recorder::Recorder& recorder, std::uint32_t generation) {
  Module module{object.begin, object.end, object.load_bias, object.eh_frame_hdr,
                identity,     0,          generation,       ModuleRole::kOther};
  const auto added = recorder.modules.Add([&](journal::ModuleRecord& record) {
    record.load_bias = object.load_bias;
    record.begin = object.begin;
    record.end = object.end;
    static_assert(sizeof(record.build_id) == kMaxBuildId);
    record.build_id_bytes = static_cast<std::uint32_t>(BuildIdOf(object, record.build_id));
    const std::size_t length = PathOf(object, record.path, sizeof(record.path));
    record.path_bytes = static_cast<std::uint32_t>(std::min(length, sizeof(record.path) - 1));
    record.path_cut = length > record.path_bytes ? 1 : 0;
    module.role = RoleOfPath(record.path);
  });
  module.index = added.index;
  if (added.index == 0) {
    recorder.Note(journal::NoteCode::kNoSpace, "modules: some frames have no module", 0, 0);
    module.role = RoleOfPath(object.name);
  }
  return module;
}

ResolvedFrame ModuleTable::Resolve(std::uint64_t address, recorder::Recorder& recorder, std::uint32_t generation) {
  // The address before the return address: a call may be the last instruction of its module's code.
  const std::uint64_t inside = address - 1;
  Module* module = Find(inside);
  if (module == nullptr || module->generation != generation) {
    LoadedObject object;
    if (!FindLoadedObject(inside, object)) return {address & kAddressMask, ModuleRole::kOther};
    const std::uint64_t identity = IdentityOf(object);
    const bool same = module != nullptr && module->begin == object.begin && module->end == object.end &&
                      module->load_bias == object.load_bias && module->eh_frame_hdr == object.eh_frame_hdr &&
                      module->identity == identity;
    if (same) {
      module->generation = generation;
    } else {
      if (!modules_.PushBack(Describe(object, identity, recorder, generation))) {
        return {address & kAddressMask, ModuleRole::kOther};
      }
      last_found_ = modules_.size() - 1;
      module = &modules_[last_found_];
    }
  }
  if (module->index == 0) return {address & kAddressMask, module->role};
  return {(static_cast<std::uint64_t>(module->index) << journal::kModuleShift) |
              ((address - module->load_bias) & kAddressMask),
          module->role};
}

}  // namespace cuheap::stacks
