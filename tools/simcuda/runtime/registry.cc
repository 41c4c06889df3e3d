#include "tools/simcuda/runtime/registry.h"

#include <dlfcn.h>

namespace cuheap::simcudart {

Registry& Registry::Get() {
  static Registry* const registry = new Registry();
  return *registry;
}

namespace {

// The simulated driver doesn't read device code, so it is told which variables there are (tools/simcuda/simcuda.h).
// Another driver has no such function and needs none.
void DeclareVariable(const Variable& variable) {
  using Declare = CUresult (*)(const char* name, std::size_t bytes, int managed);
  static const auto declare =
      reinterpret_cast<Declare>(dlsym(Runtime::Get().driver().library, "simcuda_declare_variable"));
  if (declare != nullptr) declare(variable.name, variable.bytes, variable.managed != nullptr ? 1 : 0);
}

}  // namespace

Binary* Registry::AddBinary(const void* image) {
  auto* binary = new Binary();
  binary->image = image;
  return binary;
}

void Registry::RemoveBinary(Binary* binary) {
  {
    std::unique_lock lock(mutex_);
    for (const void* symbol : binary->symbols) {
      if (auto found = kernels_.find(symbol); found != kernels_.end() && found->second->binary == binary) {
        kernels_.erase(found);
      }
      if (auto found = variables_.find(symbol); found != variables_.end() && found->second->binary == binary) {
        variables_.erase(found);
      }
    }
  }
  if (CUlibrary library = binary->library.exchange(nullptr); library != nullptr && Runtime::Started()) {
    Runtime::Get().driver().LibraryUnload(library);
  }
  // Not deleted: another thread may still be in Load.
}

void Registry::AddKernel(Binary* binary, const void* host_function, const char* name) {
  std::unique_lock lock(mutex_);
  Kernel& kernel = kernel_storage_.emplace_back();
  kernel.binary = binary;
  kernel.name = name;
  // The same host function in two binaries is one template instantiated in both: the first is as good as the second.
  kernels_.emplace(host_function, &kernel);
  binary->symbols.push_back(host_function);
}

void Registry::AddVariable(Binary* binary, const void* host_variable, const char* name, std::size_t bytes,
                           void** managed) {
  std::unique_lock lock(mutex_);
  Variable& variable = variable_storage_.emplace_back(Variable{binary, name, bytes, managed});
  variables_.emplace(host_variable, &variable);
  binary->symbols.push_back(host_variable);
}

CUresult Registry::Load(Binary& binary, CUlibrary* library) {
  *library = binary.library.load(std::memory_order_acquire);
  if (*library != nullptr) return CUDA_SUCCESS;
  std::lock_guard lock(binary.mutex);
  *library = binary.library.load(std::memory_order_acquire);
  if (*library != nullptr) return CUDA_SUCCESS;
  // The image outlives the library: it is part of the program.
  CUlibraryOption option = CU_LIBRARY_BINARY_IS_PRESERVED;
  void* value = reinterpret_cast<void*>(1);
  CUresult result =
      Runtime::Get().driver().LibraryLoadData(library, binary.image, nullptr, nullptr, 0, &option, &value, 1);
  if (result != CUDA_SUCCESS) return result;
  {
    std::shared_lock variables(mutex_);
    for (const void* symbol : binary.symbols) {
      if (auto found = variables_.find(symbol); found != variables_.end()) DeclareVariable(*found->second);
    }
  }
  binary.library.store(*library, std::memory_order_release);
  return CUDA_SUCCESS;
}

CUresult Registry::Initialise(Binary* binary) {
  CUlibrary library = nullptr;
  if (CUresult result = Load(*binary, &library); result != CUDA_SUCCESS) return result;
  std::vector<Variable*> managed;
  {
    std::shared_lock lock(mutex_);
    for (const void* symbol : binary->symbols) {
      auto found = variables_.find(symbol);
      if (found != variables_.end() && found->second->managed != nullptr) managed.push_back(found->second);
    }
  }
  for (Variable* variable : managed) {
    CUdeviceptr address = 0;
    CUresult result = Runtime::Get().driver().LibraryGetManaged(&address, nullptr, library, variable->name);
    if (result != CUDA_SUCCESS) return result;
    *variable->managed = ToPointer(address);
  }
  return CUDA_SUCCESS;
}

cudaError_t Registry::FindKernel(const void* function, CUkernel* kernel) {
  Kernel* found = nullptr;
  {
    std::shared_lock lock(mutex_);
    if (auto entry = kernels_.find(function); entry != kernels_.end()) {
      found = entry->second;
    } else if (handles_.contains(function)) {
      *kernel = reinterpret_cast<CUkernel>(const_cast<void*>(function));
      return cudaSuccess;
    }
  }
  if (found == nullptr) return cudaErrorInvalidDeviceFunction;
  *kernel = found->handle.load(std::memory_order_acquire);
  if (*kernel != nullptr) return cudaSuccess;
  CUlibrary library = nullptr;
  CUresult result = Load(*found->binary, &library);
  if (result == CUDA_SUCCESS) result = Runtime::Get().driver().LibraryGetKernel(kernel, library, found->name);
  if (result == CUDA_ERROR_NOT_FOUND) return cudaErrorInvalidDeviceFunction;
  if (result != CUDA_SUCCESS) return ToRuntime(result);
  found->handle.store(*kernel, std::memory_order_release);
  Adopt(*kernel);
  return cudaSuccess;
}

void Registry::Adopt(CUkernel kernel) {
  std::unique_lock lock(mutex_);
  handles_.insert(kernel);
}

cudaError_t Registry::FindVariable(const void* symbol, CUdeviceptr* address, std::size_t* bytes) {
  Variable* found = nullptr;
  {
    std::shared_lock lock(mutex_);
    if (auto entry = variables_.find(symbol); entry != variables_.end()) found = entry->second;
  }
  if (found == nullptr) return cudaErrorInvalidSymbol;
  CUlibrary library = nullptr;
  if (CUresult result = Load(*found->binary, &library); result != CUDA_SUCCESS) return ToRuntime(result);
  const DriverCalls& driver = Runtime::Get().driver();
  std::size_t size = 0;
  CUresult result = found->managed != nullptr ? driver.LibraryGetManaged(address, &size, library, found->name)
                                              : driver.LibraryGetGlobal(address, &size, library, found->name);
  if (result == CUDA_ERROR_NOT_FOUND) return cudaErrorInvalidSymbol;
  if (result == CUDA_SUCCESS && bytes != nullptr) *bytes = size;
  return ToRuntime(result);
}

}  // namespace cuheap::simcudart
