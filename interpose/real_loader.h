// The real dlsym, dlvsym and dlclose behind the ones that this library exports.
//
// Note [Finding the real dlsym]
// dlvsym(RTLD_NEXT, "dlsym", ...) is the usual way, but dlvsym is exported by us too: an unversioned export satisfies
// every versioned reference, so even dlvsym@GLIBC_2.2.5 would bind to ourselves. So the C library's own dlvsym is read
// from its symbol table, once; everything else comes from it through RTLD_NEXT, which honours another preloaded
// interposer after us (our "real" dlsym is then theirs).
#ifndef CUHEAP_INTERPOSE_REAL_LOADER_H_
#define CUHEAP_INTERPOSE_REAL_LOADER_H_

namespace cuheap {

using DlsymFunction = void* (*)(void* handle, const char* name);
using DlvsymFunction = void* (*)(void* handle, const char* name, const char* version);
using DlcloseFunction = int (*)(void* handle);

// Null only if the process has no C library that has them. Take no lock, allocate nothing; the first call of the first
// one walks the list of loaded objects.
DlsymFunction RealDlsym();
DlvsymFunction RealDlvsym();
DlcloseFunction RealDlclose();

// True for an address inside this library: never an answer, never a thing to call.
bool IsOurs(const void* address);
// True for an address inside the main program.
bool IsInMainProgram(const void* address);

}  // namespace cuheap

#endif  // CUHEAP_INTERPOSE_REAL_LOADER_H_
