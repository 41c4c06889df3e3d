// The driver's functions that take a stream, under their plain names and under those for per-thread default streams
// (CUDA Driver API, "Stream synchronization behavior": CUDA_API_PER_THREAD_DEFAULT_STREAM).
#ifndef CUHEAP_TESTS_CAMPAIGNS_RANDOM_CALLS_H_
#define CUHEAP_TESTS_CAMPAIGNS_RANDOM_CALLS_H_

#include <cuda.h>

#include <cstddef>

namespace cuheap::campaigns {

struct Calls {
  CUresult (*allocate_async)(CUdeviceptr*, std::size_t, CUstream);
  CUresult (*allocate_from_pool)(CUdeviceptr*, std::size_t, CUmemoryPool, CUstream);
  CUresult (*free_async)(CUdeviceptr, CUstream);
  CUresult (*memset_async)(CUdeviceptr, unsigned char, std::size_t, CUstream);
  CUresult (*memset_now)(CUdeviceptr, unsigned char, std::size_t);
  CUresult (*to_device_async)(CUdeviceptr, const void*, std::size_t, CUstream);
  CUresult (*to_device_now)(CUdeviceptr, const void*, std::size_t);
  CUresult (*to_host_async)(void*, CUdeviceptr, std::size_t, CUstream);
  CUresult (*to_host_now)(void*, CUdeviceptr, std::size_t);
  CUresult (*on_device_async)(CUdeviceptr, CUdeviceptr, std::size_t, CUstream);
  CUresult (*peer_async)(CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, std::size_t, CUstream);
  CUresult (*launch)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, void**,
                     void**);
  CUresult (*host_function)(CUstream, CUhostFn, void*);
  CUresult (*launch_graph)(CUgraphExec, CUstream);
  CUresult (*record)(CUevent, CUstream);
  CUresult (*wait_event)(CUstream, CUevent, unsigned);
  CUresult (*synchronize)(CUstream);
  CUresult (*query)(CUstream);
};

extern const Calls kPlainCalls;      // NULL is the legacy default stream
extern const Calls kPerThreadCalls;  // NULL is the calling thread's own one

// A stream as a call names it.
struct Where {
  const Calls* calls = &kPlainCalls;
  CUstream stream = nullptr;
};

}  // namespace cuheap::campaigns

#endif  // CUHEAP_TESTS_CAMPAIGNS_RANDOM_CALLS_H_
