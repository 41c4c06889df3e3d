// What a capture in global mode forbids the thread that began it, and whether a forbidden call ends the capture.
// Source: CUDA Driver API, cuThreadExchangeStreamCaptureMode, which names cudaMalloc only.
#include <functional>
#include <string>

#include "tests/gpu/claims.h"

namespace claims {
namespace {

struct Call {
  const char* name;
  bool forbidden;  // as the simulated driver has it
  std::function<CUresult()> make;
};

// "" if the driver does as expected; else what it did.
std::string Try(const Call& call) {
  const CUstream captured = NewStream();
  Must("cuStreamBeginCapture", cuStreamBeginCapture(captured, CU_STREAM_CAPTURE_MODE_GLOBAL));
  const CUresult result = call.make();
  CUgraph graph = nullptr;
  const CUresult ended = cuStreamEndCapture(captured, &graph);
  Figure((std::string(call.name) + " in a capture").c_str(), result, "(CUresult)");
  Figure((std::string("the capture's end after ") + call.name).c_str(), ended, "(CUresult)");
  const bool refused = result == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  const bool invalidated = ended == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (refused == call.forbidden && invalidated == call.forbidden) return "";
  return std::string(call.name) + (refused ? " was refused" : " was let through") +
         (invalidated ? " and the capture ended by it; " : " and the capture went on; ");
}

const Claim kProhibited("prohibited_while_capturing", [] {
  StartDevice();
  const CUstream other = NewStream();
  const CUevent event = NewEvent();
  CUdeviceptr block = 0, made = 0;
  void* pinned = nullptr;
  CUmodule module = nullptr;
  CUmemGenericAllocationHandle handle = 0;
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  Must("cuMemAlloc", cuMemAlloc(&block, kMiB));
  Must("cuEventRecord", cuEventRecord(event, other));
  Must("cuCtxSynchronize", cuCtxSynchronize());
  const Call calls[] = {
      {"cuMemAlloc", true, [&] { return cuMemAlloc(&made, kMiB); }},
      {"cuMemHostAlloc", true, [&] { return cuMemHostAlloc(&pinned, 4096, 0); }},
      {"cuMemFree", true, [&] { return cuMemFree(block); }},
      {"cuEventQuery", true, [&] { return cuEventQuery(event); }},
      {"cuStreamQuery", true, [&] { return cuStreamQuery(other); }},
      {"cuStreamSynchronize", true, [&] { return cuStreamSynchronize(other); }},
      {"cuCtxSynchronize", true, [] { return cuCtxSynchronize(); }},
      {"cuMemCreate", false, [&] { return cuMemCreate(&handle, 2 * kMiB, &properties, 0); }},
      {"cuModuleLoadData", false,
       [&] { return cuModuleLoadData(&module, ".version 6.0\n.target sm_50\n.address_size 64\n"); }},
  };
  std::string wrong;
  for (const Call& call : calls) wrong += Try(call);
  Holds(wrong.empty(), wrong);
});

const Claim kGreen("green_context_memory", [] {
  const CUcontext primary = StartDevice();
  CUdevResource all{};
  CUdevResourceDesc description = nullptr;
  CUgreenCtx green = nullptr;
  CUcontext context = nullptr;
  CUdeviceptr block = 0;
  Must("cuDeviceGetDevResource", cuDeviceGetDevResource(0, &all, CU_DEV_RESOURCE_TYPE_SM));
  Must("cuDevResourceGenerateDesc", cuDevResourceGenerateDesc(&description, &all, 1));
  Must("cuGreenCtxCreate", cuGreenCtxCreate(&green, description, 0, CU_GREEN_CTX_DEFAULT_STREAM));
  Must("cuCtxFromGreenCtx", cuCtxFromGreenCtx(&context, green));
  Must("cuCtxSetCurrent", cuCtxSetCurrent(context));
  Must("cuMemAlloc", cuMemAlloc(&block, kMiB));
  Must("cuMemsetD8", cuMemsetD8(block, 0x5a, kMiB));
  Must("cuCtxSynchronize", cuCtxSynchronize());
  Must("cuCtxSetCurrent", cuCtxSetCurrent(primary));
  Must("cuGreenCtxDestroy", cuGreenCtxDestroy(green));
  unsigned word = 0;
  Must("reading it after cuGreenCtxDestroy", cuMemcpyDtoH(&word, block, sizeof(word)));
  Holds(word == 0x5a5a5a5a, "its bytes are gone");
});

}  // namespace
}  // namespace claims
