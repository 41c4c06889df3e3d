// Stands in for a program with the CUDA runtime linked statically: the runtime's look-ups are inside the executable,
// nothing of it is exported, and the driver is opened when it is first needed. Like the vendor's, it asks for one name
// by dlsym and for all the rest through what it gets, with and without the flag of per-thread streams.
#include <cuda.h>
#include <dlfcn.h>

#include <cstddef>
#include <cstdio>

namespace runtime {
namespace {

using Resolve = CUresult (*)(const char*, void**, int, cuuint64_t, CUdriverProcAddressQueryResult*);

struct Table {
  decltype(&::cuInit) init;
  decltype(&::cuDriverGetVersion) version;
  decltype(&::cuDeviceGet) device;
  decltype(&::cuDevicePrimaryCtxRetain) retain;
  decltype(&::cuCtxSetCurrent) set_current;
  decltype(&::cuMemAlloc_v2) allocate;
  decltype(&::cuMemFree_v2) free;
  decltype(&::cuMemcpyHtoD_v2) to_device, to_device_per_thread;
  decltype(&::cuMemcpyDtoH_v2) to_host, to_host_per_thread;
};

template <class Function>
bool Ask(Resolve resolve, const char* symbol, Function& function, int version, cuuint64_t flags) {
  void* found = nullptr;
  const CUresult result = resolve(symbol, &found, version, flags, nullptr);
  function = reinterpret_cast<Function>(found);
  if (result != CUDA_SUCCESS || found == nullptr) std::printf("%s %d: result %d\n", symbol, version, result);
  return result == CUDA_SUCCESS && found != nullptr;
}

bool Open(Table& table) {
  void* driver = dlopen("libcuda.so.1", RTLD_NOW);
  if (driver == nullptr) return false;
  auto resolve = reinterpret_cast<Resolve>(dlsym(driver, "cuGetProcAddress_v2"));
  if (resolve == nullptr) return false;
  void* probe = nullptr;
  resolve("", &probe, 0, 0, nullptr);  // whatever it answers
  constexpr cuuint64_t kPerThread = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
  return Ask(resolve, "cuGetProcAddress", resolve, 12000, 0) && Ask(resolve, "cuInit", table.init, 2000, 0) &&
         Ask(resolve, "cuDriverGetVersion", table.version, 2020, 0) &&
         Ask(resolve, "cuDeviceGet", table.device, 2000, 0) &&
         Ask(resolve, "cuDevicePrimaryCtxRetain", table.retain, 7000, 0) &&
         Ask(resolve, "cuCtxSetCurrent", table.set_current, 4000, 0) &&
         Ask(resolve, "cuMemAlloc", table.allocate, 3020, 0) && Ask(resolve, "cuMemFree", table.free, 3020, 0) &&
         Ask(resolve, "cuMemcpyHtoD", table.to_device, 3020, 0) &&
         Ask(resolve, "cuMemcpyDtoH", table.to_host, 3020, 0) &&
         Ask(resolve, "cuMemcpyHtoD", table.to_device_per_thread, 7000, kPerThread) &&
         Ask(resolve, "cuMemcpyDtoH", table.to_host_per_thread, 7000, kPerThread);
}

const Table* Ready() {
  static Table table;
  static const bool ready = [] {
    CUdevice device = 0;
    CUcontext context = nullptr;
    return Open(table) && table.init(0) == CUDA_SUCCESS && table.device(&device, 0) == CUDA_SUCCESS &&
           table.retain(&context, device) == CUDA_SUCCESS && table.set_current(context) == CUDA_SUCCESS;
  }();
  return ready ? &table : nullptr;
}

CUresult Malloc(void** block, std::size_t bytes) {
  const Table* table = Ready();
  if (table == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  CUdeviceptr address = 0;
  const CUresult result = table->allocate(&address, bytes);
  *block = reinterpret_cast<void*>(address);
  return result;
}

CUresult Free(void* block) { return Ready()->free(reinterpret_cast<CUdeviceptr>(block)); }

}  // namespace
}  // namespace runtime

int main() {
  constexpr std::size_t kBlock = std::size_t{1} << 20;
  void* block = nullptr;
  for (int i = 0; i < 10; ++i) {
    const CUresult result = runtime::Malloc(&block, kBlock);  // TEN BLOCKS
    std::printf("allocate %d %s\n", result, block != nullptr ? "address" : "none");
  }
  const runtime::Table* table = runtime::Ready();
  if (table == nullptr) return 3;
  const auto address = reinterpret_cast<CUdeviceptr>(block);
  unsigned word = 0xabcd1234, back = 0;
  std::printf("copies %d", table->to_device(address, &word, sizeof(word)));
  std::printf(" %d", table->to_host_per_thread(&back, address, sizeof(back)));
  std::printf(" %x\n", back);
  std::printf("copies %d", table->to_device_per_thread(address, &word, sizeof(word)));
  std::printf(" %d\n", table->to_host(&back, address, sizeof(back)));
  void* freed = nullptr;
  std::printf("one more %d", runtime::Malloc(&freed, kBlock));
  std::printf(", freed %d\n", runtime::Free(freed));
  return 0;
}
