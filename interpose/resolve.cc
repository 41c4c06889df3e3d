#include "interpose/resolve.h"

#include <cstdio>

#include "interpose/driver_table.h"
#include "interpose/holes.h"
#include "interpose/real_loader.h"

namespace cuheap {
namespace {

// Calls use(name) for every exported name that a symbol of cuGetProcAddress can stand for, until it returns true.
template <class Use>
bool AnyVariant(const char* symbol, Use&& use) {
  char name[128];
  for (const char* version : {"", "_v2", "_v3", "_v4"}) {
    for (const char* stream : {"", "_ptsz", "_ptds"}) {
      const int length = std::snprintf(name, sizeof(name), "%s%s%s", symbol, version, stream);
      if (length > 0 && static_cast<unsigned>(length) < sizeof(name) && use(name)) return true;
    }
  }
  return false;
}

// The driver answered a symbol of ours with a function that is not hooked. An export that we leave alone on purpose
// (the 32-bit cuMemAlloc, for instance) is no hole; anything else is.
void ReportIfHole(const DriverTable& driver, const char* symbol, const void* address) {
  HookId hooked = HookId::kNone;
  AnyVariant(symbol, [&](const char* name) {
    hooked = FindHook(name);
    return hooked != HookId::kNone;
  });
  if (hooked == HookId::kNone) return;
  const bool exported = AnyVariant(symbol, [&](const char* name) { return driver.Lookup(name) == address; });
  if (!exported) holes.Add(hooked, address);
}

}  // namespace

void* SubstituteResolved(const char* symbol, void* address) {
  if (IsOurs(address)) return address;
  const DriverTable* driver = DriverTable::Find();
  if (driver == nullptr) return address;
  const HookId id = driver->FindByAddress(address, symbol != nullptr ? FindHook(symbol) : HookId::kNone);
  if (id != HookId::kNone) return OurEntry(id);
  if (symbol != nullptr) ReportIfHole(*driver, symbol, address);
  return address;
}

}  // namespace cuheap
