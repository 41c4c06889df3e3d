#include "tests/gpu/claims.h"

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>

#include "tools/simcuda/simcuda.h"

namespace claims {
namespace {

constexpr int kSkipped = 77;

std::map<std::string, Claim::Function>& Registered() {
  static auto& claims = *new std::map<std::string, Claim::Function>();
  return claims;
}

// By the "PTX ISA" reference, old enough for every current driver. %globaltimer counts nanoseconds.
constexpr const char* kPtx = R"(
.version 6.0
.target sm_50
.address_size 64

.visible .entry cuheap_delay(.param .u64 nanoseconds) {
  .reg .u64 %start, %now, %wanted;
  .reg .pred %again;
  ld.param.u64 %wanted, [nanoseconds];
  mov.u64 %start, %globaltimer;
LOOP:
  mov.u64 %now, %globaltimer;
  sub.u64 %now, %now, %start;
  setp.lt.u64 %again, %now, %wanted;
  @%again bra LOOP;
  ret;
}

.visible .entry simcuda_fill(.param .u64 to, .param .u64 count, .param .u32 value) {
  .reg .u64 %p, %i, %n;
  .reg .u32 %v;
  .reg .pred %done;
  ld.param.u64 %p, [to];
  ld.param.u64 %n, [count];
  ld.param.u32 %v, [value];
  mov.u64 %i, 0;
LOOP:
  setp.ge.u64 %done, %i, %n;
  @%done bra END;
  st.global.u32 [%p], %v;
  add.u64 %p, %p, 4;
  add.u64 %i, %i, 1;
  bra LOOP;
END:
  ret;
}
)";

// The simulated driver runs no code of a GPU: there the kernel is this function, called until it says that it is done.
int SimulatedDelay(const SimcudaLaunch* launch) {
  static std::map<const SimcudaLaunch*, std::chrono::steady_clock::time_point> begun;
  std::uint64_t nanoseconds = 0;
  std::memcpy(&nanoseconds, launch->parameters[0], sizeof(nanoseconds));
  const auto now = std::chrono::steady_clock::now();
  const auto start = begun.emplace(launch, now).first->second;
  if (now - start < std::chrono::nanoseconds(nanoseconds)) return 1;
  begun.erase(launch);
  return 0;
}

void RegisterDelay() {
  using GetTable = const SimcudaTable* (*)(unsigned);
  const auto get = reinterpret_cast<GetTable>(dlsym(RTLD_DEFAULT, "simcuda_get_table"));
  const SimcudaTable* table = get == nullptr ? nullptr : get(SIMCUDA_TABLE_VERSION);
  const std::size_t size = sizeof(std::uint64_t);
  if (table != nullptr) table->register_kernel("cuheap_delay", SimulatedDelay, 1, &size);
}

[[noreturn]] void End(int status) {
  std::fflush(stdout);
  std::_Exit(status);  // threads of a claim may still wait for the device
}

}  // namespace

Claim::Claim(const char* name, Function run) { Registered()[name] = run; }

int Claim::Run(const char* name) {
  const auto found = Registered().find(name);
  if (found == Registered().end()) {
    for (const auto& [known, function] : Registered()) std::printf("%s\n", known.c_str());
    return std::strcmp(name, "--list") == 0 ? 0 : 2;
  }
  found->second();
  std::printf("holds\n");
  End(0);
}

void Fails(const std::string& why) {
  std::printf("fails: %s\n", why.c_str());
  End(1);
}

void Skipped(const std::string& why) {
  std::printf("skipped: %s\n", why.c_str());
  End(kSkipped);
}

void Figure(const char* name, double value, const char* unit) {
  std::printf("figure: %s = %.6g %s\n", name, value, unit);
}

void Must(const char* what, CUresult result) {
  if (result == CUDA_SUCCESS) return;
  const std::string text = std::string(what) + ": error " + std::to_string(static_cast<int>(result));
  if (result == CUDA_ERROR_NOT_SUPPORTED) Skipped(text);
  Fails(text);
}

CUcontext StartDevice() {
  CUcontext context = nullptr;
  CUdevice device = 0;
  Must("cuInit", cuInit(0));
  Must("cuDeviceGet", cuDeviceGet(&device, 0));
  Must("cuDevicePrimaryCtxRetain", cuDevicePrimaryCtxRetain(&context, device));
  Must("cuCtxSetCurrent", cuCtxSetCurrent(context));
  return context;
}

CUstream NewStream(unsigned flags) {
  CUstream stream = nullptr;
  Must("cuStreamCreate", cuStreamCreate(&stream, flags));
  return stream;
}

CUevent NewEvent() {
  CUevent event = nullptr;
  Must("cuEventCreate", cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  return event;
}

Kernels::Kernels() {
  RegisterDelay();
  CUmodule module = nullptr;
  Must("cuModuleLoadData", cuModuleLoadData(&module, kPtx));
  Must("cuheap_delay", cuModuleGetFunction(&delay_, module, "cuheap_delay"));
  Must("simcuda_fill", cuModuleGetFunction(&fill_, module, "simcuda_fill"));
}

void Kernels::Delay(CUstream stream, std::chrono::milliseconds duration) const {
  auto nanoseconds = static_cast<std::uint64_t>(std::chrono::nanoseconds(duration).count());
  void* parameters[] = {&nanoseconds};
  Must("delay", cuLaunchKernel(delay_, 1, 1, 1, 1, 1, 1, 0, stream, parameters, nullptr));
}

void Kernels::Fill(CUstream stream, CUdeviceptr to, std::uint64_t words, std::uint32_t value) const {
  void* parameters[] = {&to, &words, &value};
  Must("fill", cuLaunchKernel(fill_, 1, 1, 1, 1, 1, 1, 0, stream, parameters, nullptr));
}

}  // namespace claims

int main(int argc, char** argv) { return claims::Claim::Run(argc == 2 ? argv[1] : ""); }
