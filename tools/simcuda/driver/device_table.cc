#include "tools/simcuda/driver/device_table.h"

#include <array>
#include <cctype>
#include <cstring>

#include "tools/simcuda/driver/cuda_api.h"

namespace simcuda {
namespace {

constexpr size_t MiB(size_t n) { return n << 20; }

constexpr std::array<DeviceModel, 17> kModels = {{
    // key, name, capability, SMs, memory, clock kHz, memory clock kHz, bus bits, L2, data center
    {"h100", "NVIDIA H100 80GB HBM3", 9, 0, 132, MiB(81090), 1980000, 2619000, 5120, 50 << 20, true},
    {"h100-pcie", "NVIDIA H100 PCIe", 9, 0, 114, MiB(81004), 1755000, 1593000, 5120, 50 << 20, true},
    {"h200", "NVIDIA H200", 9, 0, 132, MiB(143167), 1980000, 3201000, 6144, 60 << 20, true},
    {"b200", "NVIDIA B200", 10, 0, 148, MiB(182642), 1965000, 3996000, 8192, 126 << 20, true},
    {"a100-80g", "NVIDIA A100-SXM4-80GB", 8, 0, 108, MiB(81154), 1410000, 1593000, 5120, 40 << 20, true},
    {"a100-40g", "NVIDIA A100-SXM4-40GB", 8, 0, 108, MiB(40337), 1410000, 1215000, 5120, 40 << 20, true},
    {"a10g", "NVIDIA A10G", 8, 6, 80, MiB(22516), 1710000, 6251000, 384, 6 << 20, false},
    {"a6000", "NVIDIA RTX A6000", 8, 6, 84, MiB(48541), 1800000, 8001000, 384, 6 << 20, false},
    {"rtx3090", "NVIDIA GeForce RTX 3090", 8, 6, 82, MiB(24260), 1695000, 9751000, 384, 6 << 20, false},
    {"l4", "NVIDIA L4", 8, 9, 58, MiB(22574), 2040000, 6251000, 192, 48 << 20, false},
    {"l40s", "NVIDIA L40S", 8, 9, 142, MiB(45458), 2520000, 9001000, 384, 96 << 20, false},
    {"rtx4090", "NVIDIA GeForce RTX 4090", 8, 9, 128, MiB(24209), 2520000, 10501000, 384, 72 << 20, false},
    {"rtx5090", "NVIDIA GeForce RTX 5090", 12, 0, 170, MiB(32109), 2407000, 14001000, 512, 96 << 20, false},
    {"t4", "Tesla T4", 7, 5, 40, MiB(14913), 1590000, 5001000, 256, 4 << 20, false},
    {"v100", "Tesla V100-SXM2-16GB", 7, 0, 80, MiB(16151), 1530000, 877000, 4096, 6 << 20, true},
    {"v100-32g", "Tesla V100-SXM2-32GB", 7, 0, 80, MiB(32501), 1530000, 877000, 4096, 6 << 20, true},
    {"p100", "Tesla P100-SXM2-16GB", 6, 0, 56, MiB(16276), 1480000, 715000, 4096, 4 << 20, true},
}};

// The name without what people write differently: case, separators, the vendor's name, "80g" for "80gb".
std::string Bare(const std::string& name) {
  std::string bare;
  for (const unsigned char c : name) {
    if (std::isalnum(c) != 0) bare += static_cast<char>(std::tolower(c));
  }
  for (const char* word : {"nvidia", "geforce", "tesla"}) {
    if (const size_t at = bare.find(word); at != std::string::npos) bare.erase(at, std::strlen(word));
  }
  if (bare.size() > 2 && bare.ends_with("gb")) bare.pop_back();
  return bare;
}

}  // namespace

const DeviceModel* FindDeviceModel(const std::string& name) {
  const std::string wanted = Bare(name);
  for (const DeviceModel& model : kModels) {
    if (wanted == Bare(model.key) || wanted == Bare(model.name)) return &model;
  }
  return nullptr;
}

std::string DeviceModelNames() {
  std::string names;
  for (const DeviceModel& model : kModels) names += (names.empty() ? "" : ", ") + std::string(model.key);
  return names;
}

CapabilityLimits LimitsOf(int major, int minor) {
  constexpr int kKiB = 1024;
  if (major == 6) return {2048, 32, minor == 1 ? 96 * kKiB : 64 * kKiB, 48 * kKiB, false, false};
  if (major == 7 && minor == 5) return {1024, 16, 64 * kKiB, 64 * kKiB, false, false};
  if (major == 7) return {2048, 32, 96 * kKiB, 96 * kKiB, false, false};
  if (major == 8 && minor == 0) return {2048, 32, 164 * kKiB, 163 * kKiB, false, false};
  if (major == 8 && minor == 9) return {1536, 24, 100 * kKiB, 99 * kKiB, false, false};
  if (major == 8) return {1536, 16, 100 * kKiB, 99 * kKiB, false, false};
  if (major == 12) return {1536, 24, 100 * kKiB, 99 * kKiB, true, true};
  return {2048, 32, 228 * kKiB, 227 * kKiB, true, true};  // 9.0, 10.x
}

}  // namespace simcuda
