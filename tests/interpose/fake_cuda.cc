#include "tests/interpose/fake_cuda.h"

#include <algorithm>

#include "tests/interpose/fake_recorder.h"

namespace cuheap::testing {
namespace {

constexpr std::size_t kAlignment = 512;

FakeCuda& Fake() { return *FakeCuda::instance.load(); }

void Log(const char* name) { fake_recorder.load()->Append(name); }

CUresult GetCurrent(CUcontext* context) { return *context = Fake().current, CUDA_SUCCESS; }
CUresult GetDevice(CUdevice* device) { return *device = 0, Fake().context_error; }
CUresult SetCurrent(CUcontext) { return CUDA_SUCCESS; }
CUresult Push(CUcontext) { return Log("cuCtxPushCurrent"), CUDA_SUCCESS; }
CUresult Pop(CUcontext*) { return CUDA_SUCCESS; }
CUresult IsCapturing(CUstream, CUstreamCaptureStatus* status) { return *status = Fake().capture_status, CUDA_SUCCESS; }
CUresult CreateUserObject(CUuserObject* object, void* pointer, CUhostFn destroy, unsigned int, unsigned int) {
  Fake().user_objects.emplace_back(destroy, pointer);
  *object = reinterpret_cast<CUuserObject>(std::uintptr_t{0x71});
  return CUDA_SUCCESS;
}
CUresult RetainUserObject(CUgraph graph, CUuserObject, unsigned int, unsigned int flags) {
  Fake().retained_by = graph;
  return flags == CU_GRAPH_USER_OBJECT_MOVE ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
CUresult PrimaryState(CUdevice, unsigned int*, int* active) { return *active = Fake().primary_active, CUDA_SUCCESS; }

}  // namespace

std::atomic<FakeCuda*> FakeCuda::instance = nullptr;

FakeCuda::FakeCuda() { instance = this; }

void FakeCuda::ReleaseSynchronize() {
  const std::lock_guard lock(mutex);
  hold_synchronize = false;
  changed.notify_all();
}

void FakeCuda::DestroyGraphs() {
  for (const auto& [destroy, pointer] : user_objects) destroy(pointer);
  user_objects.clear();
}

DriverFunctions FakeCuda::Functions() const {
  DriverFunctions functions;
  functions.cuCtxGetCurrent = GetCurrent;
  functions.cuCtxGetDevice = GetDevice;
  functions.cuCtxSetCurrent = SetCurrent;
  functions.cuCtxPushCurrent_v2 = Push;
  functions.cuCtxPopCurrent_v2 = Pop;
  functions.cuCtxSynchronize = FakeSynchronize;
  functions.cuMemAlloc_v2 = FakeMemAlloc;
  functions.cuMemFree_v2 = FakeMemFree;
  functions.cuStreamIsCapturing = IsCapturing;
  functions.cuUserObjectCreate = CreateUserObject;
  functions.cuGraphRetainUserObject = RetainUserObject;
  functions.cuDevicePrimaryCtxGetState = PrimaryState;
  functions.cuMemGetAddressRange_v2 = FakeGetAddressRange;
  functions.cuPointerGetAttribute = FakeGetAttribute;
  return functions;
}

CUresult FakeMemAlloc(CUdeviceptr* out, std::size_t bytes) {
  FakeCuda& fake = Fake();
  const std::lock_guard lock(fake.mutex);
  Log("cuMemAlloc");
  if (fake.memory_error != CUDA_SUCCESS) return fake.memory_error;
  if (out == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if (fake.used + bytes > fake.limit) return CUDA_ERROR_OUT_OF_MEMORY;
  fake.used += bytes;
  *out = fake.next;
  fake.live[fake.next] = bytes;
  fake.next += (bytes + kAlignment - 1) / kAlignment * kAlignment + (std::size_t{2} << 20);
  return CUDA_SUCCESS;
}

CUresult FakeMemFree(CUdeviceptr address) {
  FakeCuda& fake = Fake();
  const std::lock_guard lock(fake.mutex);
  Log("cuMemFree");
  if (address == 0) return CUDA_SUCCESS;
  const auto found = fake.live.find(address);
  if (found == fake.live.end()) return CUDA_ERROR_INVALID_VALUE;
  fake.used -= found->second;
  fake.live.erase(found);
  return CUDA_SUCCESS;
}

CUresult FakeSynchronize() {
  FakeCuda& fake = Fake();
  std::unique_lock lock(fake.mutex);
  Log("cuCtxSynchronize");
  fake.changed.wait(lock, [&fake] { return !fake.hold_synchronize; });
  return fake.synchronize_result;
}

CUresult FakeMemHostAlloc(void** out, std::size_t bytes, unsigned int) {
  CUdeviceptr address = 0;
  Log("cuMemHostAlloc");
  const CUresult result = FakeMemAlloc(&address, bytes);
  if (result == CUDA_SUCCESS) *out = reinterpret_cast<void*>(address);
  return result;
}

CUresult FakeGetAttribute(void* value, CUpointer_attribute attribute, CUdeviceptr) {
  FakeCuda& fake = Fake();
  const std::lock_guard lock(fake.mutex);
  Log("cuPointerGetAttribute");
  if (attribute != CU_POINTER_ATTRIBUTE_IS_MANAGED) return CUDA_ERROR_INVALID_VALUE;
  *static_cast<unsigned int*>(value) = fake.variable_is_managed ? 1 : 0;
  return CUDA_SUCCESS;
}

CUresult FakeGetAddressRange(CUdeviceptr* base, std::size_t* bytes, CUdeviceptr address) {
  FakeCuda& fake = Fake();
  const std::lock_guard lock(fake.mutex);
  auto found = fake.live.upper_bound(address);
  if (found == fake.live.begin()) return CUDA_ERROR_NOT_FOUND;
  --found;
  if (address - found->first >= found->second) return CUDA_ERROR_NOT_FOUND;
  *base = found->first;
  *bytes = found->second;
  return CUDA_SUCCESS;
}

int Calls(const std::string& name) {
  const std::lock_guard lock(fake_recorder.load()->mutex);
  return static_cast<int>(std::count(fake_recorder.load()->log.begin(), fake_recorder.load()->log.end(), name));
}

int Position(const std::string& name) {
  const std::lock_guard lock(fake_recorder.load()->mutex);
  const auto found = std::find(fake_recorder.load()->log.begin(), fake_recorder.load()->log.end(), name);
  return found == fake_recorder.load()->log.end() ? -1 : static_cast<int>(found - fake_recorder.load()->log.begin());
}

}  // namespace cuheap::testing
