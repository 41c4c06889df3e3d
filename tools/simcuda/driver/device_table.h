// The GPUs that can be simulated, with the figures that decide what frameworks allocate.
#pragma once

#include <cstddef>
#include <string>

namespace simcuda {

inline constexpr int kMaxPitch = 2147483647;  // CU_DEVICE_ATTRIBUTE_MAX_PITCH, of every model

// Figures of one GPU model, from the vendor's data sheets and the programming guide's table of compute capabilities.
// Memory is the total that the driver reports (less than the marketing figure), which differs a little between driver
// versions; docs/simcuda.md says which totals were seen where.
struct DeviceModel {
  const char* key;   // SIMCUDA_MODEL
  const char* name;  // cuDeviceGetName
  int major, minor;  // compute capability
  int sm_count;
  size_t memory_bytes;
  int clock_khz, memory_clock_khz, memory_bus_bits;
  int l2_bytes;
  bool data_center;  // peers over NVLink, TCC-like driver, ECC
};

// What the compute capability alone decides (CUDA C++ Programming Guide, "Compute Capabilities").
struct CapabilityLimits {
  int threads_per_sm, blocks_per_sm;
  int shared_per_sm, shared_per_block_optin;  // bytes
  bool clusters, tensor_maps;
};

// By its key or by the name that the driver tells; case, separators and the vendor's name do not matter: "A100 80GB",
// "NVIDIA GeForce RTX 4090".
// Returns: the model, or null for an unknown name.
const DeviceModel* FindDeviceModel(const std::string& name);
// The keys, separated by ", ".
std::string DeviceModelNames();
CapabilityLimits LimitsOf(int major, int minor);

// The value of one CUdevice_attribute. `ordinal` decides the PCI place.
// Returns: false for an attribute that the header does not define.
bool DeviceAttribute(const DeviceModel& model, int ordinal, int attribute, int* value);

}  // namespace simcuda
