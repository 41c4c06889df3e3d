// CUHEAP_FILL: every block that our pools hand out is filled with a byte first, as malloc's M_PERTURB does.
//
// 0xff is a NaN in every floating-point format: a read of memory that nobody wrote shows. 0 makes runs repeatable
// that read such memory. Any number of threads; no lock is held over a driver call.
#ifndef CUHEAP_INTERPOSE_BLOCK_FILLER_H_
#define CUHEAP_INTERPOSE_BLOCK_FILLER_H_

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "allocator/stream_types.h"
#include "interpose/capture_watch.h"
#include "interpose/driver_functions.h"

namespace cuheap {

class BlockFiller {
 public:
  // byte: -1 for none; also none if the driver lacks a function, which a note tells.
  BlockFiller(const DriverFunctions& driver, const CaptureWatch& captures, int byte);
  BlockFiller(const BlockFiller&) = delete;
  BlockFiller& operator=(const BlockFiller&) = delete;

  bool on() const { return byte_ >= 0; }

  // Fills a block of cuMemAlloc, which any stream may use at once: complete on return. In a stream of ours that waits
  // for nobody (CUDA Driver API, CU_STREAM_NON_BLOCKING), one a context. `context` is current and the block idle.
  // An error is the driver's; the block is as it was then.
  CUresult FillNow(std::uint64_t context, CUdeviceptr address, std::size_t bytes);
  // Fills a block of cuMemAllocAsync in its stream, behind what used the memory before and ahead of the program's use.
  CUresult FillInStream(const StreamRef& stream, CUdeviceptr address, std::size_t bytes);

  // The stream whose fill of the block may not have run yet although the program is done with the block (it need not
  // have looked at it); empty if none. Forgets it. A stream that is gone has id 0, its context tells what to wait for.
  std::optional<StreamRef> Freed(CUdeviceptr address);
  void StreamGone(StreamId id);
  void ContextGone(std::uint64_t context);

 private:
  CUresult StreamOf(std::uint64_t context, CUstream* stream);
  CUresult Told(CUresult result);

  const DriverFunctions& driver_;
  const CaptureWatch& captures_;
  int byte_;
  std::mutex mutex_;
  bool told_ = false;
  std::unordered_map<std::uint64_t, CUstream> own_streams_;  // by context
  std::unordered_map<CUdeviceptr, StreamRef> filled_;        // live stream-ordered blocks
};

}  // namespace cuheap

#endif  // CUHEAP_INTERPOSE_BLOCK_FILLER_H_
