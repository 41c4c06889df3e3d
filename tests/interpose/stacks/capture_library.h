// The recorder and its stacks as a shared library, as the preload library is one: so its own frames are those of
// another object than the test's.
#ifndef CUHEAP_TESTS_INTERPOSE_STACKS_CAPTURE_LIBRARY_H_
#define CUHEAP_TESTS_INTERPOSE_STACKS_CAPTURE_LIBRARY_H_

#include <cstdint>

#define CUHEAP_TEST_EXPORT extern "C" __attribute__((visibility("default")))

struct CaptureLibraryWalk {
  unsigned depth;
  bool truncated;
  bool failed;
};

// A walk without the library's own frames.
CUHEAP_TEST_EXPORT CaptureLibraryWalk CaptureLibraryWalkStack(std::uint64_t* addresses, unsigned max_addresses);

CUHEAP_TEST_EXPORT bool CaptureLibraryStart(const char* directory);
CUHEAP_TEST_EXPORT bool CaptureLibraryStartWithCap(const char* directory, std::uint64_t max_event_bytes);
CUHEAP_TEST_EXPORT void CaptureLibraryConfigure(bool enabled, unsigned max_depth);
// Packs id and caller_is_pytorch << 32.
CUHEAP_TEST_EXPORT std::uint64_t CaptureLibraryCapture(bool need_caller);
// The same with need_caller, for calling through PassOn.
CUHEAP_TEST_EXPORT std::uint64_t CaptureLibraryCaptureFor(void* unused);
// Captures, and records an allocation with it.
CUHEAP_TEST_EXPORT std::uint32_t CaptureLibraryAllocate(std::uint64_t address, std::uint64_t bytes,
                                                        std::uint64_t stream = 0);
CUHEAP_TEST_EXPORT void CaptureLibraryFree(std::uint64_t address, std::uint64_t stream = 0);
CUHEAP_TEST_EXPORT void CaptureLibraryModulesChanged();

#endif  // CUHEAP_TESTS_INTERPOSE_STACKS_CAPTURE_LIBRARY_H_
