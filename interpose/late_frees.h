// Frees that a signal handler asked for while its thread was in our own code: made when the hook ends. See Note [Calls
// that come in between] in thread_guard.h.
#ifndef CUHEAP_INTERPOSE_LATE_FREES_H_
#define CUHEAP_INTERPOSE_LATE_FREES_H_

#include <atomic>

#include "interpose/cuda_api.h"

namespace cuheap {

// Of the calling thread. A handler may come in between at any point of these functions.
class LateFrees {
 public:
  // CUDA_ERROR_NOT_PERMITTED: the handler asks for more than there is room for.
  static CUresult Add(CUresult (*free)(CUdeviceptr), CUdeviceptr address) {
    return Add({address, nullptr, free, nullptr});
  }
  static CUresult Add(CUresult (*free)(CUdeviceptr, CUstream), CUdeviceptr address, CUstream stream) {
    return Add({address, stream, nullptr, free});
  }
  static bool any() { return count_ != 0; }
  // Makes them all, those that come in meanwhile too, and calls failed(address, result) of those that fail.
  template <class Failed>
  static void Make(Failed&& failed) {
    while (count_ != 0) {
      const Free free = frees_[count_ - 1];
      std::atomic_signal_fence(std::memory_order_seq_cst);
      count_ = count_ - 1;
      const CUresult result = free.now != nullptr ? free.now(free.address) : free.in_stream(free.address, free.stream);
      if (result != CUDA_SUCCESS) failed(free.address, result);
    }
  }

 private:
  struct Free {
    CUdeviceptr address;
    CUstream stream;
    CUresult (*now)(CUdeviceptr);
    CUresult (*in_stream)(CUdeviceptr, CUstream);
  };
  static CUresult Add(const Free& free) {
    if (count_ == kMost) return CUDA_ERROR_NOT_PERMITTED;
    frees_[count_] = free;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    count_ = count_ + 1;
    return CUDA_SUCCESS;
  }

  static constexpr unsigned kMost = 16;
  [[gnu::tls_model("initial-exec")]] static inline constinit thread_local volatile unsigned count_ = 0;
  [[gnu::tls_model("initial-exec")]] static inline constinit thread_local Free frees_[kMost] = {};
};

}  // namespace cuheap

#endif  // CUHEAP_INTERPOSE_LATE_FREES_H_
