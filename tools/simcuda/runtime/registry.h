// Device code as programs bring it: the binaries, kernels and variables the compiler's start-up code registers. A
// binary is given to the driver when something of it is first used.
#ifndef CUHEAP_TOOLS_SIMCUDA_RUNTIME_REGISTRY_H_
#define CUHEAP_TOOLS_SIMCUDA_RUNTIME_REGISTRY_H_

#include <atomic>
#include <deque>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "tools/simcuda/runtime/runtime.h"

namespace cuheap::simcudart {

// What one __cudaRegisterFatBinary brought. The compiler's code holds a pointer to it as `void**`.
struct Binary {
  const void* image = nullptr;
  std::mutex mutex;  // held while the driver loads it
  std::atomic<CUlibrary> library{nullptr};
  std::vector<const void*> symbols;  // host addresses of its kernels and variables
};

struct Kernel {
  Binary* binary = nullptr;
  const char* name = nullptr;  // mangled, in the program's read-only data
  std::atomic<CUkernel> handle{nullptr};
};

struct Variable {
  Binary* binary = nullptr;
  const char* name = nullptr;
  std::size_t bytes = 0;
  void** managed = nullptr;  // where the program keeps the address of a __managed__ variable
};

// Thread-safe. Programs with a hundred thousand kernels register them all before main, so registering does little.
class Registry {
 public:
  static Registry& Get();

  Binary* AddBinary(const void* image);
  // Unloads it and forgets its symbols.
  void RemoveBinary(Binary* binary);
  void AddKernel(Binary* binary, const void* host_function, const char* name);
  void AddVariable(Binary* binary, const void* host_variable, const char* name, std::size_t bytes, void** managed);
  // Loads the binary and stores the addresses of its managed variables. Needs a current context.
  CUresult Initialise(Binary* binary);

  // The driver's kernel of a host function, or of a kernel handle that FindKernel or Adopt gave out.
  // cudaErrorInvalidDeviceFunction: neither.
  cudaError_t FindKernel(const void* function, CUkernel* kernel);
  // Makes handles from cudaLibraryGetKernel usable as functions.
  void Adopt(CUkernel kernel);

  // Address and size of a variable; cudaErrorInvalidSymbol if it isn't one.
  cudaError_t FindVariable(const void* symbol, CUdeviceptr* address, std::size_t* bytes);

 private:
  CUresult Load(Binary& binary, CUlibrary* library);

  std::shared_mutex mutex_;
  std::unordered_map<const void*, Kernel*> kernels_;
  std::unordered_map<const void*, Variable*> variables_;
  std::unordered_set<const void*> handles_;
  // Never shrink: pointers into them stay good.
  std::deque<Kernel> kernel_storage_;
  std::deque<Variable> variable_storage_;
};

}  // namespace cuheap::simcudart

#endif  // CUHEAP_TOOLS_SIMCUDA_RUNTIME_REGISTRY_H_
