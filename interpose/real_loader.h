// The real dlsym, dlvsym and dlclose behind the ones that this library exports.
//
// Note [Finding the real dlsym]
// dlvsym(RTLD_NEXT, "dlsym", ...) is the usual way, but dlvsym is exported by us too: an unversioned export satisfies
// every versioned reference, so even dlvsym@GLIBC_2.2.5 would bind to ourselves. So the C library's own dlvsym is read
// from its symbol table, once; everything else comes from it through RTLD_NEXT, which honours another preloaded
// interposer after us (our "real" dlsym is then theirs).
#ifndef CUHEAP_INTERPOSE_REAL_LOADER_H_
#define CUHEAP_INTERPOSE_REAL_LOADER_H_

#include <link.h>

namespace cuheap {

using DlsymFunction = void* (*)(void* handle, const char* name);
using DlvsymFunction = void* (*)(void* handle, const char* name, const char* version);
using DlcloseFunction = int (*)(void* handle);

// Null only if the process has no C library that has them. Take no lock, allocate nothing; the first call of the first
// one walks the list of loaded objects, and then each first call ends a text of dlerror.
DlsymFunction RealDlsym();
DlvsymFunction RealDlvsym();
DlcloseFunction RealDlclose();

// What RealDlsym() answered before; null if it was not asked yet. It alone leaves a text of dlerror alone.
DlsymFunction KnownDlsym();
// The C library's own dlsym, whatever interposer lies between; read from its symbol table anew with each call.
DlsymFunction CLibraryDlsym();

// The library of that soname, if the main program itself is linked with it: then it is one of the objects that the
// process started with, which come first in the loader's list and never leave it, so that no lock is needed. Null
// otherwise.
const link_map* LinkedLibrary(const char* soname);
// The next one behind `object` (null: behind this library) of those that the process started with, up to the C library:
// other preloaded libraries, and some that the program is linked with. These never leave the loader's list, so that no
// lock is needed. Null: there is none, or this library was not preloaded.
const link_map* NextAtStart(const link_map* object);
// A function of the object itself, in its default version, or null. Reads the object's tables: no lock, and dlerror
// keeps the text that it has. Precondition: the object stays loaded.
void* FunctionOf(const link_map& object, const char* name);

// True for an address inside this library: never an answer, never a thing to call.
bool IsOurs(const void* address);
// True for an address inside the main program.
bool IsInMainProgram(const void* address);

}  // namespace cuheap

#endif  // CUHEAP_INTERPOSE_REAL_LOADER_H_
