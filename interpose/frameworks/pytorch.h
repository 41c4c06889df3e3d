// PyTorch's reports about its own memory: every block that its caching allocator hands out (a tensor) and takes back,
// and the out-of-memory error before it is thrown.
//
// Its library libc10_cuda calls two functions of libc10 for that (framework_functions.inc), meant for PyTorch's
// profiler. Ours come first in the loader's order; they record, then call the original, which is found once.
//
// Note [Under PyTorch's lock]
// The reports come while PyTorch holds its allocator's lock of that device. So nothing here takes a lock that somebody
// may hold while waiting for PyTorch: the recorder's are held over memory writes of ours only. The loader's lock is such
// a lock (a library's constructor could allocate a tensor), so the original is looked up with the first cuInit, where
// PyTorch usually is loaded; only a PyTorch that comes later is looked up in the first report, once.
#ifndef CUHEAP_INTERPOSE_FRAMEWORKS_PYTORCH_H_
#define CUHEAP_INTERPOSE_FRAMEWORKS_PYTORCH_H_

namespace cuheap::frameworks {

// If PyTorch is loaded: finds the original functions and notes in the journal if its reports will not reach us. Once.
// Takes the loader's lock.
void FindPyTorch();

}  // namespace cuheap::frameworks

#endif  // CUHEAP_INTERPOSE_FRAMEWORKS_PYTORCH_H_
