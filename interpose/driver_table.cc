#include "interpose/driver_table.h"

#include <dlfcn.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <new>

#include "interpose/real_loader.h"
#include "interpose/stacks/loaded_objects.h"

namespace cuheap {
namespace {

constexpr const char* kDriver = "libcuda.so.1";

constinit std::atomic<const DriverTable*> known_table{nullptr};

}  // namespace

const DriverTable* DriverTable::Known() { return known_table.load(std::memory_order_acquire); }

const DriverTable* DriverTable::Find() {
  if (const DriverTable* table = Known()) return table;
  // Not from malloc: this runs inside dlsym, possibly while the program's allocator is still being set up.
  void* place = mmap(nullptr, sizeof(DriverTable), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (place == MAP_FAILED) return nullptr;
  auto* table = new (place) DriverTable();
  if (!table->Fill()) {
    munmap(place, sizeof(DriverTable));
    return nullptr;
  }
  const DriverTable* expected = nullptr;
  if (!known_table.compare_exchange_strong(expected, table, std::memory_order_acq_rel)) {
    munmap(place, sizeof(DriverTable));
    return expected;
  }
  return table;
}

// By its soname, only if it is loaded already: finds it whatever file name it was opened by. NODELETE, so that the
// pointers we keep survive the program's dlclose.
bool DriverTable::FindObject() {
  object_ = LinkedLibrary(kDriver);
  if (object_ == nullptr) {
    handle_ = dlopen(kDriver, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
    if (handle_ == nullptr) {
      dlerror();  // the miss is ours, not the program's
      return false;
    }
    link_map* object = nullptr;
    if (dlinfo(handle_, RTLD_DI_LINKMAP, static_cast<void*>(&object)) == 0) object_ = object;
  }
  // A driver that only passes on what another library has: the loader knows where.
  if (object_ != nullptr && FunctionOf(*object_, "cuInit") == nullptr) {
    object_ = nullptr;
    if (handle_ == nullptr) handle_ = dlopen(kDriver, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
  }
  return object_ != nullptr || handle_ != nullptr;
}

void* DriverTable::Resolve(const char* name) const {
  if (object_ != nullptr) return FunctionOf(*object_, name);
  void* found = RealDlsym()(handle_, name);
  if (found == nullptr) dlerror();
  return found;
}

bool DriverTable::Fill() {
  if (!FindObject() || (object_ == nullptr && RealDlsym() == nullptr)) return false;
  // Not by dladdr: a constructor, with the loader's lock held, may wait for the thread that makes this first call.
  stacks::LoadedObject file;
  const void* start = Resolve("cuInit");
  if (start != nullptr && stacks::FindLoadedObject(reinterpret_cast<std::uintptr_t>(start), file) &&
      file.name != nullptr) {
    std::strncpy(path_, file.name, sizeof(path_) - 1);
  }
  for (std::size_t i = 0; i < kHookCount; ++i) {
    void* found = Resolve(kHooks[i].name);
    if (found == nullptr || IsOurs(found)) {
      ++missing_count_;
      continue;
    }
    real_[i] = found;
    by_address_[known_count_++] = {reinterpret_cast<std::uintptr_t>(found), static_cast<std::uint16_t>(i)};
  }
  std::sort(by_address_, by_address_ + known_count_, [](const ByAddress& a, const ByAddress& b) {
    return a.address != b.address ? a.address < b.address : a.hook < b.hook;
  });
  return known_count_ != 0;
}

HookId DriverTable::FindByAddress(const void* address, HookId wanted) const {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  const ByAddress* end = by_address_ + known_count_;
  const ByAddress* entry = std::lower_bound(by_address_, end, at,
                                            [](const ByAddress& a, std::uintptr_t value) { return a.address < value; });
  if (entry == end || entry->address != at) return HookId::kNone;
  const HookId first = static_cast<HookId>(entry->hook);
  for (; entry != end && entry->address == at; ++entry) {
    if (static_cast<HookId>(entry->hook) == wanted) return wanted;
  }
  return first;
}

void* DriverTable::Lookup(const char* name) const {
  void* found = Resolve(name);
  return found != nullptr && IsOurs(found) ? nullptr : found;
}

}  // namespace cuheap
