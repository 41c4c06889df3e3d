// How a loaded library reaches a function that it imports: what the loader bound it to.
#ifndef CUHEAP_INTERPOSE_FRAMEWORKS_IMPORT_CHECK_H_
#define CUHEAP_INTERPOSE_FRAMEWORKS_IMPORT_CHECK_H_

#include <link.h>

#include <cstdint>

namespace cuheap::frameworks {

enum class Import : std::uint8_t {
  kNone,       // the library does not import the name: it has the function inside, or knows another one
  kNotBound,   // lazily bound: the first call will find whoever comes first in the loader's order
  kBoundHere,  // bound to an address in this library
  kBoundElsewhere,
};

// Reads the library's own tables in memory: no lock, no allocation. Precondition: something keeps it loaded.
Import FindImport(const link_map& library, const char* name);

}  // namespace cuheap::frameworks

#endif  // CUHEAP_INTERPOSE_FRAMEWORKS_IMPORT_CHECK_H_
