// A library that looks for the next definition of its own function, as OpenMP runtimes do.
#include <dlfcn.h>

extern "C" {

__attribute__((visibility("default"))) int cuheap_test_tool() { return 1; }
__attribute__((visibility("default"))) int cudnnCreate(void**) { return 1; }

// How often the search finds this very function; 0 is right. At most ten times, where an OpenMP would spin for ever.
__attribute__((visibility("default"))) int cuheap_test_ask_next() {
  int found = 0;
  while (found < 10 && dlsym(RTLD_NEXT, "cuheap_test_tool") == reinterpret_cast<void*>(&cuheap_test_tool)) ++found;
  // Begins as the driver's names do, but is none of them; forwards as wrappers of cuDNN do.
  if (dlsym(RTLD_NEXT, "cudnnCreate") != nullptr) ++found;
  if (dlvsym(RTLD_NEXT, "cuheap_test_tool", "ANY") != nullptr) ++found;
  return found;
}
}
