// The outcome of a driver call as the allocator passes it on: a CUresult's number, so that a caller gets exactly the
// code that the driver gave, without allocator/ depending on cuda.h.
#ifndef CUHEAP_ALLOCATOR_DRIVER_RESULT_H_
#define CUHEAP_ALLOCATOR_DRIVER_RESULT_H_

namespace cuheap {

struct DriverResult {
  int code = 0;  // CUDA Driver API, CUresult: 0 success, 1 invalid value, 2 out of memory, 201 invalid context
  bool ok() const { return code == 0; }
  friend bool operator==(const DriverResult&, const DriverResult&) = default;
};

inline constexpr DriverResult kDriverSuccess{0};
inline constexpr DriverResult kDriverInvalidValue{1};
inline constexpr DriverResult kDriverOutOfMemory{2};

}  // namespace cuheap

#endif  // CUHEAP_ALLOCATOR_DRIVER_RESULT_H_
