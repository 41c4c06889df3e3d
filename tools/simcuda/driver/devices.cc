// Initialization, Version Management, Device Management (Driver API reference 6.3 to 6.6).
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "entry_points.h"
#include "tools/simcuda/driver/contexts.h"
#include "tools/simcuda/driver/pool.h"
#include "tools/simcuda/driver/state.h"

namespace simcuda {
namespace {

// Repeatable and different for each device of each model.
CUuuid DeviceUuid(const DeviceModel& model, int ordinal) {
  CUuuid uuid;
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char* c = model.key; *c != '\0'; ++c) hash = (hash ^ static_cast<unsigned char>(*c)) * 0x100000001b3u;
  for (int i = 0; i < 16; ++i) {
    hash = (hash ^ static_cast<uint64_t>(ordinal * 16 + i)) * 0x100000001b3u;
    uuid.bytes[i] = static_cast<char>(hash >> 56);
  }
  return uuid;
}

std::string UuidText(const CUuuid& uuid) {
  std::string text = "GPU-";
  for (int i = 0; i < 16; ++i) {
    char byte[4];
    std::snprintf(byte, sizeof byte, "%02x", static_cast<unsigned char>(uuid.bytes[i]));
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += byte;
  }
  return text;
}

// CUDA_VISIBLE_DEVICES (CUDA C++ Programming Guide, "CUDA Environment Variables"): ordinals or UUID prefixes; only the
// devices before the first invalid entry are visible.
std::vector<int> VisibleDevices(const Config& config, const DeviceModel& model) {
  std::vector<int> visible;
  const char* list = std::getenv("CUDA_VISIBLE_DEVICES");
  if (list == nullptr) {
    for (int i = 0; i < config.device_count; ++i) visible.push_back(i);
    return visible;
  }
  const std::string text(list);
  for (size_t start = 0; start <= text.size() && !text.empty();) {
    const size_t comma = std::min(text.find(',', start), text.size());
    const std::string entry = text.substr(start, comma - start);
    start = comma + 1;
    int found = -1;
    for (int i = 0; i < config.device_count; ++i) {
      const bool by_uuid = entry.starts_with("GPU-") && UuidText(DeviceUuid(model, i)).starts_with(entry);
      if (entry == std::to_string(i) || by_uuid) found = i;
    }
    if (found < 0) break;
    visible.push_back(found);
  }
  return visible;
}

CUresult BadEnvironment(const std::string& error) {
  std::fprintf(stderr, "simcuda: %s; cuInit fails with CUDA_ERROR_INVALID_VALUE\n", error.c_str());
  return CUDA_ERROR_INVALID_VALUE;
}

}  // namespace

CUresult impl::cuInit(unsigned int Flags) {
  State& state = State::Get();
  if (Flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (state.initialized) return CUDA_SUCCESS;
  if (!state.config.error.empty()) return BadEnvironment(state.config.error);
  const DeviceModel& model = *FindDeviceModel(state.config.model);
  const std::vector<int> visible = VisibleDevices(state.config, model);
  if (visible.empty()) return CUDA_ERROR_NO_DEVICE;
  for (int physical : visible) {
    auto device = std::make_unique<Device>();
    device->ordinal = static_cast<int>(state.devices.size());
    device->physical = physical;
    device->model = &model;
    device->total_bytes = state.config.memory_bytes != 0 ? state.config.memory_bytes : model.memory_bytes;
    state.devices.push_back(std::move(device));
  }
  for (const auto& device : state.devices) MakeDefaultPool(*device);
  state.initialized = true;
  return CUDA_SUCCESS;
}

CUresult impl::cuDriverGetVersion(int* driverVersion) {
  if (driverVersion == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *driverVersion = State::Get().config.driver_version;
  return CUDA_SUCCESS;
}

CUresult impl::cuDeviceGetCount(int* count) {
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *count = static_cast<int>(State::Get().devices.size());
  return CUDA_SUCCESS;
}

CUresult impl::cuDeviceGet(CUdevice* device, int ordinal) {
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Device* found = nullptr;
  if (const CUresult result = FindDevice(ordinal, &found)) return result;
  *device = ordinal;
  return CUDA_SUCCESS;
}

CUresult impl::cuDeviceGetName(char* name, int len, CUdevice dev) {
  Device* device = nullptr;
  if (const CUresult result = FindDevice(dev, &device)) return result;
  if (name == nullptr || len <= 0) return CUDA_ERROR_INVALID_VALUE;
  std::snprintf(name, static_cast<size_t>(len), "%s", device->model->name);
  return CUDA_SUCCESS;
}

CUresult impl::cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice dev) {
  Device* device = nullptr;
  if (const CUresult result = FindDevice(dev, &device)) return result;
  if (uuid == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *uuid = DeviceUuid(*device->model, device->physical);
  return CUDA_SUCCESS;
}

CUresult impl::cuDeviceTotalMem_v2(size_t* bytes, CUdevice dev) {
  Device* device = nullptr;
  if (const CUresult result = FindDevice(dev, &device)) return result;
  if (bytes == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *bytes = device->total_bytes;
  return CUDA_SUCCESS;
}

CUresult impl::cuDeviceGetAttribute(int* pi, CUdevice_attribute attrib, CUdevice dev) {
  Device* device = nullptr;
  if (const CUresult result = FindDevice(dev, &device)) return result;
  if (pi == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return DeviceAttribute(*device->model, device->physical, attrib, pi) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult impl::cuDeviceComputeCapability(int* major, int* minor, CUdevice dev) {
  Device* device = nullptr;
  if (const CUresult result = FindDevice(dev, &device)) return result;
  if (major == nullptr || minor == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *major = device->model->major;
  *minor = device->model->minor;
  return CUDA_SUCCESS;
}

CUresult impl::cuDeviceGetProperties(CUdevprop* prop, CUdevice dev) {
  Device* device = nullptr;
  if (const CUresult result = FindDevice(dev, &device)) return result;
  if (prop == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto get = [&](int attribute) {
    int value = 0;
    DeviceAttribute(*device->model, device->physical, attribute, &value);
    return value;
  };
  prop->maxThreadsPerBlock = get(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  for (int i = 0; i < 3; ++i) {
    prop->maxThreadsDim[i] = get(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X + i);
    prop->maxGridSize[i] = get(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X + i);
  }
  prop->sharedMemPerBlock = get(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
  prop->totalConstantMemory = get(CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY);
  prop->SIMDWidth = get(CU_DEVICE_ATTRIBUTE_WARP_SIZE);
  prop->memPitch = get(CU_DEVICE_ATTRIBUTE_MAX_PITCH);
  prop->regsPerBlock = get(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK);
  prop->clockRate = get(CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
  prop->textureAlign = get(CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT);
  return CUDA_SUCCESS;
}

CUresult impl::cuDeviceGetPCIBusId(char* pciBusId, int len, CUdevice dev) {
  Device* device = nullptr;
  if (const CUresult result = FindDevice(dev, &device)) return result;
  if (pciBusId == nullptr || len < 13) return CUDA_ERROR_INVALID_VALUE;
  std::snprintf(pciBusId, static_cast<size_t>(len), "0000:%02X:00.0", device->physical + 1);
  return CUDA_SUCCESS;
}

CUresult impl::cuDeviceGetByPCIBusId(CUdevice* dev, const char* pciBusId) {
  if (dev == nullptr || pciBusId == nullptr) return CUDA_ERROR_INVALID_VALUE;
  unsigned parts[4] = {0, 0, 0, 0};
  const bool full = std::sscanf(pciBusId, "%x:%x:%x.%x", &parts[0], &parts[1], &parts[2], &parts[3]) == 4;
  if (!full && std::sscanf(pciBusId, "%x:%x", &parts[1], &parts[2]) != 2) return CUDA_ERROR_INVALID_VALUE;
  for (const auto& device : State::Get().devices) {
    if (parts[0] == 0 && parts[1] == static_cast<unsigned>(device->physical + 1) && parts[2] == 0) {
      *dev = device->ordinal;
      return CUDA_SUCCESS;
    }
  }
  return CUDA_ERROR_INVALID_DEVICE;
}

CUresult impl::cuDeviceCanAccessPeer(int* canAccessPeer, CUdevice dev, CUdevice peerDev) {
  Device *device = nullptr, *peer = nullptr;
  if (const CUresult result = FindDevice(dev, &device)) return result;
  if (const CUresult result = FindDevice(peerDev, &peer)) return result;
  if (canAccessPeer == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *canAccessPeer = PeersPossible(*device, *peer) ? 1 : 0;
  return CUDA_SUCCESS;
}

CUresult impl::cuDeviceGetP2PAttribute(int* value, CUdevice_P2PAttribute attrib, CUdevice srcDevice,
                                       CUdevice dstDevice) {
  Device *source = nullptr, *target = nullptr;
  if (const CUresult result = FindDevice(srcDevice, &source)) return result;
  if (const CUresult result = FindDevice(dstDevice, &target)) return result;
  if (value == nullptr || source == target)
    return source == target ? CUDA_ERROR_INVALID_DEVICE : CUDA_ERROR_INVALID_VALUE;
  const bool peers = PeersPossible(*source, *target);
  switch (attrib) {
    case CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK:
      *value = 0;
      return CUDA_SUCCESS;
    case CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED:
    case CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED:
      *value = peers;
      return CUDA_SUCCESS;
    case CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED:
      *value = 0;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult impl::cuDeviceGetExecAffinitySupport(int* pi, CUexecAffinityType type, CUdevice dev) {
  Device* device = nullptr;
  if (const CUresult result = FindDevice(dev, &device)) return result;
  if (pi == nullptr || type != CU_EXEC_AFFINITY_TYPE_SM_COUNT) return CUDA_ERROR_INVALID_VALUE;
  *pi = 0;
  return CUDA_SUCCESS;
}

}  // namespace simcuda
