// A small part of NVML (libnvidia-ml.so.1), by its documentation: what frameworks ask about a device while they
// allocate. PyTorch's expandable segments call it without checking that it is there. Facts come from the simulated
// driver; what only a real management library can know (other processes, links, clocks) answers
// NVML_ERROR_NOT_SUPPORTED.
#include <cuda.h>
#include <dlfcn.h>
#include <strings.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <iterator>
#include <mutex>

#define SIMCUDA_NVML_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

// nvmlReturn_t.
enum Result : int {
  kSuccess = 0,
  kUninitialized = 1,
  kInvalidArgument = 2,
  kNotSupported = 3,
  kNotFound = 6,
  kInsufficientSize = 7,
  kDriverNotLoaded = 9,
  kUnknown = 999,
};

// nvmlDevice_t points to one of these.
struct Device {
  CUdevice handle = 0;
  unsigned int index = 0;
  char name[96] = "";
  char bus_id[32] = "";
  CUuuid uuid = {};
  std::size_t total = 0;
};

struct Driver {
  decltype(&::cuInit) init;
  decltype(&::cuDriverGetVersion) version;
  decltype(&::cuDeviceGetCount) count;
  decltype(&::cuDeviceGet) get;
  decltype(&::cuDeviceGetName) name;
  decltype(&::cuDeviceTotalMem) total;
  decltype(&::cuDeviceGetPCIBusId) bus_id;
  decltype(&::cuDeviceGetUuid) uuid;
  decltype(&::cuCtxGetCurrent) current;
  CUresult (*context_device)(CUdevice*);
  decltype(&::cuMemGetInfo) memory;
};

constexpr unsigned int kDevices = 32;

struct State {
  std::mutex mutex;
  unsigned int users = 0;  // nvmlInit less nvmlShutdown
  Driver driver = {};
  unsigned int count = 0;
  Device devices[kDevices];
};

State& Shared() {
  static auto* const state = new State();
  return *state;
}

template <typename Function>
bool Find(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(library, name));
  return function != nullptr;
}

bool Load(Driver& driver) {
  void* library = dlopen("libcuda.so.1", RTLD_NOW);
  return library != nullptr && Find(library, "cuInit", driver.init) &&
         Find(library, "cuDriverGetVersion", driver.version) && Find(library, "cuDeviceGetCount", driver.count) &&
         Find(library, "cuDeviceGet", driver.get) && Find(library, "cuDeviceGetName", driver.name) &&
         Find(library, "cuDeviceTotalMem_v2", driver.total) && Find(library, "cuDeviceGetPCIBusId", driver.bus_id) &&
         Find(library, "cuDeviceGetUuid_v2", driver.uuid) && Find(library, "cuCtxGetCurrent", driver.current) &&
         Find(library, "cuCtxGetDevice", driver.context_device) && Find(library, "cuMemGetInfo_v2", driver.memory);
}

Result Start(State& state) {
  if (!Load(state.driver) || state.driver.init(0) != CUDA_SUCCESS) return kDriverNotLoaded;
  int count = 0;
  if (state.driver.count(&count) != CUDA_SUCCESS) return kUnknown;
  for (int i = 0; i < count && i < static_cast<int>(kDevices); ++i) {
    Device& device = state.devices[i];
    device.index = static_cast<unsigned int>(i);
    if (state.driver.get(&device.handle, i) != CUDA_SUCCESS ||
        state.driver.name(device.name, sizeof device.name, device.handle) != CUDA_SUCCESS ||
        state.driver.bus_id(device.bus_id, sizeof device.bus_id, device.handle) != CUDA_SUCCESS ||
        state.driver.uuid(&device.uuid, device.handle) != CUDA_SUCCESS ||
        state.driver.total(&device.total, device.handle) != CUDA_SUCCESS) {
      return kUnknown;
    }
  }
  state.count = static_cast<unsigned int>(count);
  return kSuccess;
}

// Copies `text` with its end into `bytes` bytes.
Result Copy(const char* text, char* to, unsigned int bytes) {
  if (to == nullptr) return kInvalidArgument;
  if (std::strlen(text) >= bytes) return kInsufficientSize;
  std::strcpy(to, text);
  return kSuccess;
}

bool IsDevice(const Device* device) {
  const State& state = Shared();
  return device >= std::begin(state.devices) && device < std::begin(state.devices) + state.count;
}

// Free memory of the device: known when a context of it is current, as cuMemGetInfo knows it.
bool FreeBytes(const Device& device, std::size_t& free_bytes) {
  const Driver& driver = Shared().driver;
  CUcontext context = nullptr;
  CUdevice current = -1;
  std::size_t total = 0;
  return driver.current(&context) == CUDA_SUCCESS && context != nullptr &&
         driver.context_device(&current) == CUDA_SUCCESS && current == device.handle &&
         driver.memory(&free_bytes, &total) == CUDA_SUCCESS;
}

struct ProcessInfo1 {
  unsigned int pid;
  unsigned long long used_bytes;
};

struct ProcessInfo2 {
  unsigned int pid;
  unsigned long long used_bytes;
  unsigned int gpu_instance, compute_instance;
};

// What nvmlGpuFabricInfo_v2_t and _v3_t begin with.
struct FabricInfo {
  unsigned int version;
  unsigned char cluster_uuid[16];
  int status;
  unsigned int clique_id;
  unsigned char state;
};

template <typename ProcessInfo>
Result ListProcesses(const Device* device, unsigned int* count, ProcessInfo* processes) {
  if (!IsDevice(device) || count == nullptr) return kInvalidArgument;
  std::size_t free_bytes = 0;
  const unsigned int found = FreeBytes(*device, free_bytes) ? 1 : 0;
  const unsigned int room = *count;
  *count = found;
  if (found > room) return kInsufficientSize;
  if (found == 0) return kSuccess;
  if (processes == nullptr) return kInvalidArgument;
  *processes = {};
  processes->pid = static_cast<unsigned int>(getpid());
  processes->used_bytes = device->total - free_bytes;
  return kSuccess;
}

// The part of a bus id that both libraries write alike: NVML has eight digits of domain, the driver four.
const char* WithoutDomain(const char* bus_id) {
  const char* colon = std::strchr(bus_id, ':');
  return colon == nullptr ? bus_id : colon + 1;
}

}  // namespace

SIMCUDA_NVML_EXPORT int nvmlInit_v2() {
  State& state = Shared();
  std::lock_guard lock(state.mutex);
  if (state.users == 0) {
    if (Result result = Start(state); result != kSuccess) return result;
  }
  ++state.users;
  return kSuccess;
}

SIMCUDA_NVML_EXPORT int nvmlInitWithFlags(unsigned int) { return nvmlInit_v2(); }

SIMCUDA_NVML_EXPORT int nvmlShutdown() {
  State& state = Shared();
  std::lock_guard lock(state.mutex);
  if (state.users == 0) return kUninitialized;
  --state.users;
  return kSuccess;
}

SIMCUDA_NVML_EXPORT const char* nvmlErrorString(int result) {
  switch (result) {
    case kSuccess:
      return "The operation was successful";
    case kUninitialized:
      return "NVML was not first initialized with nvmlInit()";
    case kInvalidArgument:
      return "A supplied argument is invalid";
    case kNotSupported:
      return "The requested operation is not available on target device";
    case kNotFound:
      return "A query to find an object was unsuccessful";
    case kInsufficientSize:
      return "An input argument is not large enough";
    case kDriverNotLoaded:
      return "NVIDIA driver is not loaded";
    default:
      return "An internal driver error occurred";
  }
}

SIMCUDA_NVML_EXPORT int nvmlDeviceGetCount_v2(unsigned int* count) {
  if (Shared().users == 0) return kUninitialized;
  if (count == nullptr) return kInvalidArgument;
  *count = Shared().count;
  return kSuccess;
}

SIMCUDA_NVML_EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned int index, Device** device) {
  if (Shared().users == 0) return kUninitialized;
  if (device == nullptr || index >= Shared().count) return kInvalidArgument;
  *device = &Shared().devices[index];
  return kSuccess;
}

SIMCUDA_NVML_EXPORT int nvmlDeviceGetHandleByPciBusId_v2(const char* bus_id, Device** device) {
  State& state = Shared();
  if (state.users == 0) return kUninitialized;
  if (bus_id == nullptr || device == nullptr) return kInvalidArgument;
  for (unsigned int i = 0; i < state.count; ++i) {
    if (strcasecmp(WithoutDomain(state.devices[i].bus_id), WithoutDomain(bus_id)) == 0) {
      *device = &state.devices[i];
      return kSuccess;
    }
  }
  return kNotFound;
}

SIMCUDA_NVML_EXPORT int nvmlDeviceGetIndex(const Device* device, unsigned int* index) {
  if (!IsDevice(device) || index == nullptr) return kInvalidArgument;
  *index = device->index;
  return kSuccess;
}

SIMCUDA_NVML_EXPORT int nvmlDeviceGetName(const Device* device, char* name, unsigned int bytes) {
  return IsDevice(device) ? Copy(device->name, name, bytes) : kInvalidArgument;
}

SIMCUDA_NVML_EXPORT int nvmlDeviceGetUUID(const Device* device, char* uuid, unsigned int bytes) {
  if (!IsDevice(device)) return kInvalidArgument;
  char text[48] = "GPU-";
  char* end = text + 4;
  for (int i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) *end++ = '-';
    end += std::snprintf(end, 3, "%02x", static_cast<unsigned char>(device->uuid.bytes[i]));
  }
  return Copy(text, uuid, bytes);
}

// nvmlMemory_t: total, free, used.
SIMCUDA_NVML_EXPORT int nvmlDeviceGetMemoryInfo(const Device* device, unsigned long long* memory) {
  if (!IsDevice(device) || memory == nullptr) return kInvalidArgument;
  std::size_t free_bytes = 0;
  if (!FreeBytes(*device, free_bytes)) return kNotSupported;
  memory[0] = device->total;
  memory[1] = free_bytes;
  memory[2] = device->total - free_bytes;
  return kSuccess;
}

// Processes with a context on the device: the caller, when it has one. nvmlProcessInfo_t grew from version 1 to 2.
SIMCUDA_NVML_EXPORT int nvmlDeviceGetComputeRunningProcesses(const Device* device, unsigned int* count,
                                                             ProcessInfo1* processes) {
  return ListProcesses(device, count, processes);
}

SIMCUDA_NVML_EXPORT int nvmlDeviceGetComputeRunningProcesses_v2(const Device* device, unsigned int* count,
                                                                ProcessInfo2* processes) {
  return ListProcesses(device, count, processes);
}

SIMCUDA_NVML_EXPORT int nvmlDeviceGetComputeRunningProcesses_v3(const Device* device, unsigned int* count,
                                                                ProcessInfo2* processes) {
  return ListProcesses(device, count, processes);
}

// The device is in no fabric: state 0 is NVML_GPU_FABRIC_STATE_NOT_SUPPORTED.
SIMCUDA_NVML_EXPORT int nvmlDeviceGetGpuFabricInfoV(const Device* device, FabricInfo* info) {
  if (!IsDevice(device) || info == nullptr) return kInvalidArgument;
  std::memset(info->cluster_uuid, 0, sizeof info->cluster_uuid);
  info->status = kNotSupported;
  info->clique_id = 0;
  info->state = 0;
  return kSuccess;
}

SIMCUDA_NVML_EXPORT int nvmlSystemGetCudaDriverVersion_v2(int* version) {
  if (Shared().users == 0) return kUninitialized;
  if (version == nullptr) return kInvalidArgument;
  return Shared().driver.version(version) == CUDA_SUCCESS ? kSuccess : kUnknown;
}

#define SIMCUDA_NVML_UNKNOWN(name) \
  SIMCUDA_NVML_EXPORT int name() { return kNotSupported; }
SIMCUDA_NVML_UNKNOWN(nvmlDeviceGetGraphicsRunningProcesses_v3)
SIMCUDA_NVML_UNKNOWN(nvmlDeviceGetMemoryInfo_v2)
SIMCUDA_NVML_UNKNOWN(nvmlDeviceGetNvLinkRemoteDeviceType)
SIMCUDA_NVML_UNKNOWN(nvmlDeviceGetNvLinkRemotePciInfo_v2)
SIMCUDA_NVML_UNKNOWN(nvmlDeviceGetNvLinkState)
SIMCUDA_NVML_UNKNOWN(nvmlDeviceGetP2PStatus)
SIMCUDA_NVML_UNKNOWN(nvmlDeviceGetUtilizationRates)
SIMCUDA_NVML_UNKNOWN(nvmlDeviceGetTemperature)
SIMCUDA_NVML_UNKNOWN(nvmlDeviceGetPowerUsage)
SIMCUDA_NVML_UNKNOWN(nvmlDeviceGetClockInfo)
SIMCUDA_NVML_UNKNOWN(nvmlSystemGetDriverVersion)
