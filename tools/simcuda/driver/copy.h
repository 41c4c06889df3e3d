// One plan for every copy function: a box of rows between two places.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "tools/simcuda/driver/context.h"
#include "tools/simcuda/driver/stream.h"

namespace simcuda {

// What the function's name says about one side.
enum class Expected {
  kHost,    // any host memory
  kDevice,  // an address that the driver knows
  kAny,     // the address decides (unified addressing)
  kArray,   // inside an array, which has been found already (array.h)
};

struct CopySide {
  uint64_t address = 0;
  size_t pitch = 0;  // bytes from row to row
  size_t slice = 0;  // bytes from plane to plane
  Expected expected = Expected::kAny;
  CUarray array = nullptr;  // kArray: which, and where in it (x in bytes), as a graph's node tells it
  size_t x = 0, y = 0, z = 0;
};

// Bytes from the first to behind the last of `planes` planes of `rows` rows of `width` bytes; false: beyond all numbers.
// None of the three is 0.
inline bool ExtentOf(size_t width, size_t rows, size_t pitch, size_t planes, size_t slice, size_t* extent) {
  size_t of_rows = 0, of_planes = 0;
  return !__builtin_mul_overflow(rows - 1, pitch, &of_rows) && !__builtin_mul_overflow(planes - 1, slice, &of_planes) &&
         !__builtin_add_overflow(of_rows, width, extent) && !__builtin_add_overflow(*extent, of_planes, extent);
}

struct Copy {
  CopySide to, from;
  size_t width = 0;  // bytes
  size_t height = 1, depth = 1;
};

enum class Timing {
  kSynchronous,
  kAsynchronous,
  kAsynchronousCapturing,  // asynchronous, but the source is read during the call
};

// Queues the copy in `stream` and waits as the Driver API reference's "API synchronization behavior" says:
//   synchronous:  pageable host -> device  returns once the source was read; the bytes arrive later
//                 device -> device         does not wait at all
//                 anything else            complete on return
//   asynchronous: pageable host -> device  the source is read during the call (large ones: complete on return)
//                 device -> pageable host  complete on return
//                 host -> host             complete on return
//                 anything else            later
// Errors: INVALID_VALUE when a side is not what its name says or leaves its block.
CUresult QueueCopy(const std::shared_ptr<Stream>& stream, const Copy& copy, Timing timing);

// The piece of work of a graph's memcpy node in `context`. Errors: INVALID_VALUE, as QueueCopy.
CUresult MakeNodeCopy(Context& context, const Copy& copy, std::shared_ptr<Work>* work);

// Whether queued work may touch the range now; if not the context gets CUDA_ERROR_ILLEGAL_ADDRESS, as on a GPU.
bool CheckAccess(Context& context, uint64_t address, size_t bytes);

// Whether a kernel of the context may use the range: memory of another device only if the program allowed it, by
// cuCtxEnablePeerAccess (Driver API reference 6.17 "Peer Context Memory Access"), cuMemPoolSetAccess or cuMemSetAccess.
// What is allowed to be read may be written too: which of the two a kernel does is not known here.
bool KernelMayUse(const Context& context, uint64_t address, size_t bytes);

}  // namespace simcuda
