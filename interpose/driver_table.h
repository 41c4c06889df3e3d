// The real driver: found once, at the first look-up of one of its functions, and kept.
#ifndef CUHEAP_INTERPOSE_DRIVER_TABLE_H_
#define CUHEAP_INTERPOSE_DRIVER_TABLE_H_

#include <link.h>

#include <cstddef>
#include <cstdint>

#include "interpose/hook_list.h"

namespace cuheap {

class DriverTable {
 public:
  // The loaded libcuda.so.1, or null if there is none in this namespace. Takes no lock of ours and waits for nobody:
  // threads that race each build a table, and the first to publish wins. Never loads the driver by itself. A text of
  // dlerror that the program has yet to read stays, if the program itself is linked with the driver; otherwise a
  // look-up led here, or the call of a library that is linked with it.
  static const DriverTable* Find();
  // The same without looking: null until Find() succeeded once.
  static const DriverTable* Known();

  // The driver's own function, or null if this driver has no such one.
  void* Real(HookId id) const { return real_[Index(id)]; }
  // The hook whose real function lies at the address; `wanted` if several share it and it is one of them.
  HookId FindByAddress(const void* address, HookId wanted = HookId::kNone) const;
  // A function that is not hooked, by its exported name; null if missing.
  void* Lookup(const char* name) const;
  // Some function of the driver, to know its file by.
  const void* AnyFunction() const { return reinterpret_cast<const void*>(by_address_[0].address); }
  std::size_t missing_count() const { return missing_count_; }
  // The driver's file as the loader names it, "" if it does not. Asked once, with the table: dladdr takes the loader's
  // lock, which a thread may hold that waits for us.
  const char* path() const { return path_; }

 private:
  struct ByAddress {
    std::uintptr_t address;
    std::uint16_t hook;
  };
  bool FindObject();
  bool Fill();
  // What the object that it is has, or else what the loader finds through its handle.
  void* Resolve(const char* name) const;

  void* handle_ = nullptr;            // the loader's; null if the loader was not asked
  const link_map* object_ = nullptr;  // null if its own tables are not to be read
  char path_[512] = {};
  void* real_[kHookCount] = {};
  ByAddress by_address_[kHookCount] = {};
  std::size_t known_count_ = 0;
  std::size_t missing_count_ = 0;
};

// The address of the entry point of ours that stands for the hook: what dlsym and cuGetProcAddress hand out.
void* OurEntry(HookId id);

}  // namespace cuheap

#endif  // CUHEAP_INTERPOSE_DRIVER_TABLE_H_
