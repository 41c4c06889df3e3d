#include "interpose/self_check.h"

#include <link.h>
#include <sched.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "interpose/driver_table.h"
#include "interpose/frameworks/pytorch.h"
#include "interpose/real_loader.h"
#include "interpose/recorder/recorder.h"
#include "interpose/stacks/loaded_objects.h"
#include "interpose/unseen/own_memory_reader.h"
#include "interpose/unseen/unseen.h"

namespace cuheap {
namespace {

constexpr unsigned kMaxLooksBeforeClose = 256;
constexpr unsigned kTriesAtEnd = 1000;

constinit unseen::Findings findings{};
constinit std::atomic<bool> looking{false};  // guards findings
constinit std::atomic<bool> ended{false};    // nobody would hear of more

bool IsHooked(const char* name) { return FindHook(name) != HookId::kNone; }

unseen::Surroundings WhatIsKnown() {
  unseen::Surroundings known;
  known.ours = &findings;
  if (const DriverTable* driver = DriverTable::Known()) known.driver = driver->AnyFunction();
  known.hooked = IsHooked;
  known.dlsym = reinterpret_cast<std::uint64_t>(CLibraryDlsym());
  known.dlvsym = reinterpret_cast<std::uint64_t>(RealDlvsym());
  return known;
}

bool BeginLook(unsigned tries) {
  for (unsigned i = 0; i < tries; ++i) {
    if (!looking.exchange(true, std::memory_order_acquire)) return true;
    sched_yield();
  }
  return false;
}

bool FindObjectOf(const void* address, stacks::LoadedObject& object) {
  return stacks::FindLoadedObject(reinterpret_cast<std::uintptr_t>(address), object);
}

// Other preloaded libraries that stand in front of the driver as we do, but behind us: the driver's own functions are
// what we call, so what such a library limits or counts is not limited or counted.
void NoteInterposersBehind(const stacks::LoadedObject& driver_file) {
  for (const link_map* object = NextAtStart(nullptr); object != nullptr; object = NextAtStart(object)) {
    unsigned functions = 0;
    for (std::size_t i = 0; i < kHookCount; ++i) {
      const void* function = FunctionOf(*object, Name(static_cast<HookId>(i)));
      if (function == nullptr) continue;
      stacks::LoadedObject owner;
      if (FindObjectOf(function, owner) && owner.begin == driver_file.begin) break;  // the driver, linked
      ++functions;
    }
    const char* slash = std::strrchr(object->l_name, '/');
    const char* name = slash != nullptr ? slash + 1 : object->l_name;
    if (functions == 0 || std::string_view(name).starts_with("libcuda.so")) continue;
    char text[200];
    std::snprintf(text, sizeof(text),
                  "%.80s stands in front of %u of the driver's functions as well, but behind cuheap, and may see none "
                  "of their calls: it must come first in LD_PRELOAD",
                  name, functions);
    recorder::Note(journal::NoteCode::kSelfCheck, text, functions);
  }
}

void EndLook() { looking.store(false, std::memory_order_release); }

}  // namespace

void SelfCheck(const DriverTable& driver) {
  frameworks::FindPyTorch();
  char text[200];
  // Not by dladdr, which takes the loader's lock: a constructor may hold it and wait for this thread.
  stacks::LoadedObject driver_file;
  FindObjectOf(driver.Real(HookId::cuInit), driver_file);
  unsigned elsewhere = 0;
  for (std::size_t i = 0; i < kHookCount; ++i) {
    void* real = driver.Real(static_cast<HookId>(i));
    stacks::LoadedObject owner;
    if (real != nullptr && FindObjectOf(real, owner) && owner.begin != driver_file.begin) ++elsewhere;
  }
  std::snprintf(text, sizeof(text), "%zu of %zu hooked functions are in this driver (%.120s)",
                kHookCount - driver.missing_count(), kHookCount, driver.path());
  recorder::Note(journal::NoteCode::kSelfCheck, text, kHookCount - driver.missing_count(), kHookCount);
  if (elsewhere != 0) {
    std::snprintf(text, sizeof(text), "%u hooked functions of the driver lie in another library", elsewhere);
    recorder::Note(journal::NoteCode::kSelfCheck, text, elsewhere);
  }
  NoteInterposersBehind(driver_file);
  stacks::LoadedObject owner;
  const char* name = "";
  if (KnownDlsym() == nullptr) return;
  if (FindObjectOf(reinterpret_cast<void*>(KnownDlsym()), owner)) {
    const char* slash = std::strrchr(owner.name, '/');
    name = slash != nullptr ? slash + 1 : owner.name;
  }
  if (std::string_view(name) != "libc.so.6" && std::string_view(name) != "libdl.so.2") {
    std::snprintf(text, sizeof(text), "dlsym is also hooked by %.150s", name);
    recorder::Note(journal::NoteCode::kSelfCheck, text);
  }
}

const char* LookAtEnd() {
  ended.store(true, std::memory_order_relaxed);
  if (!BeginLook(kTriesAtEnd)) return nullptr;
  const unseen::Surroundings known = WhatIsKnown();
  unseen::Look(known, 0, findings);
  const bool used = findings.library_count != 0 || findings.driver_count != 0 ||
                    (known.driver == nullptr && findings.device_files != 0);
  EndLook();
  return used ? findings.driver_path : nullptr;
}

void LookBeforeClose(void* handle) {
  static constinit std::atomic<unsigned> looks{0};
  if (handle == nullptr || ended.load(std::memory_order_relaxed) ||
      looks.load(std::memory_order_relaxed) >= kMaxLooksBeforeClose)
    return;
  const int saved_errno = errno;
  // glibc's handles are its objects. What is no object is not dereferenced, and the real dlclose deals with it.
  link_map object{};
  unseen::OwnMemoryReader reader;
  if (reader.ReadOne(reinterpret_cast<std::uint64_t>(handle), object) && object.l_ld != nullptr && BeginLook(1)) {
    looks.fetch_add(1, std::memory_order_relaxed);
    unseen::Look(WhatIsKnown(), reinterpret_cast<std::uint64_t>(object.l_ld), findings);
    EndLook();
  }
  errno = saved_errno;
}

void ReportUnseen(bool a_call_came) {
  if (!BeginLook(kTriesAtEnd)) return;
  for (std::size_t i = 0; i < findings.library_count; ++i) {
    const unseen::Library& library = findings.libraries[i];
    recorder::Note(journal::NoteCode::kUnseenLibrary, library.path, static_cast<std::uint64_t>(library.way),
                   library.functions);
  }
  for (std::size_t i = 0; i < findings.driver_count; ++i) {
    recorder::Note(journal::NoteCode::kUnseenDriver, findings.drivers[i].path);
  }
  if (!a_call_came && findings.driver_path[0] != '\0') {
    recorder::Note(journal::NoteCode::kUnseenProcess, findings.driver_path, findings.device_files);
  }
  if (!findings.looked) {
    recorder::Note(
        journal::NoteCode::kSelfCheck,
        "libraries that reach the driver past the preload library were not looked for: /proc/self/maps could "
        "not be read",
        0, 1);
  }
  if (findings.left_out != 0) {
    recorder::Note(journal::NoteCode::kSelfCheck,
                   "more files are mapped, or more libraries reach the driver past the preload library, than could be "
                   "looked at",
                   findings.left_out);
  }
  EndLook();
}

}  // namespace cuheap
