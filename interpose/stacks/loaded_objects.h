// Which loaded object an address lies in, asked of the loader without its lock where that is possible.
#ifndef CUHEAP_INTERPOSE_STACKS_LOADED_OBJECTS_H_
#define CUHEAP_INTERPOSE_STACKS_LOADED_OBJECTS_H_

#include <cstddef>
#include <cstdint>

namespace cuheap::stacks {

struct LoadedObject {
  std::uint64_t begin = 0;  // mapped range
  std::uint64_t end = 0;
  std::uint64_t load_bias = 0;
  const void* eh_frame_hdr = nullptr;  // nullptr: none
  const char* name = "";               // the loader's; "" for the main program. Valid while the object stays loaded
};

// glibc >= 2.35: _dl_find_object, which takes no lock and may be called in signal handlers. Before: dl_iterate_phdr,
// which takes the lock of the list of objects (not the one that is held while constructors run). False: no object (code
// made at run time). Precondition for the fields to stay true: something keeps the object loaded, such as a frame of it
// on the calling stack.
bool FindLoadedObject(std::uint64_t address, LoadedObject& object);

// The two ways, for tests. The first returns false where glibc lacks it.
bool HasLockFreeFinder();
bool FindLoadedObjectByIteration(std::uint64_t address, LoadedObject& object);

// The first object of our namespace, in the loader's order, that `matches`. By dl_iterate_phdr: takes the lock of the
// list, and dlerror keeps the text that it has. `matches` is called under that lock, while no object can go away.
bool FindObject(bool (*matches)(const LoadedObject& object), LoadedObject& found);

inline constexpr std::size_t kMaxBuildId = 32;

// The object's build-id from its notes in memory; how many bytes (0: none, or its headers are not mapped).
std::size_t BuildIdOf(const LoadedObject& object, unsigned char (&build_id)[kMaxBuildId]);

// The object's file as an absolute path, cut to size - 1; its full length. What the loader has may be relative to a
// directory that was left since: then /proc/self/maps is asked. No allocation.
std::size_t PathOf(const LoadedObject& object, char* out, std::size_t size);

}  // namespace cuheap::stacks

#endif  // CUHEAP_INTERPOSE_STACKS_LOADED_OBJECTS_H_
