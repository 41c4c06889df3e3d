// Module Management, Library Management (Driver API reference 6.10, 6.12). Images are not read.
#include <memory>

#include "entry_points.h"
#include "tools/simcuda/driver/contexts.h"
#include "tools/simcuda/driver/memory_calls.h"
#include "tools/simcuda/driver/state.h"

namespace simcuda {
namespace {

std::shared_ptr<Module> MakeModule(Context& context, CUlibrary library) {
  auto module = std::make_shared<Module>();
  module->context = &context;
  module->library = library;
  module->handle = State::Get().modules.modules.Add(module);
  return module;
}

std::shared_ptr<Function> FindFunction(Module& module, const std::shared_ptr<Kernel>& kernel) {
  std::shared_ptr<Function>& function = module.functions[kernel->name];
  if (!function) {
    function = std::make_shared<Function>();
    function->kernel = kernel;
    function->module = module.handle;
    function->context = module.context;
    function->handle = State::Get().modules.functions.Add(function);
  }
  return function;
}

std::shared_ptr<Module> LibraryModule(Library& library, Context& context) {
  std::shared_ptr<Module>& module = library.modules[&context];
  if (!module) module = MakeModule(context, library.handle);
  return module;
}

// A variable of the image, allocated in the module's context at first use. Sizes are not read from images, so only
// declared ones are found.
CUresult FindVariable(Module& module, const char* name, CUdeviceptr* dptr, size_t* bytes) {
  State& state = State::Get();
  const auto declared = state.modules.variables.find(name);
  if (declared == state.modules.variables.end() || declared->second.managed) return CUDA_ERROR_NOT_FOUND;
  uint64_t& address = module.variables[name];
  if (address == 0) {
    Block* block = nullptr;
    const CUresult result = AllocateWithRetry(*module.context, declared->second.bytes, Kind::kVariable, &block);
    if (result != CUDA_SUCCESS) return result;
    address = block->base;
    FillBytes(address, 0, block->size, state.memory.FileBacked(address));
  }
  if (dptr != nullptr) *dptr = address;
  if (bytes != nullptr) *bytes = declared->second.bytes;
  return CUDA_SUCCESS;
}

void EndModule(Module& module) {
  State& state = State::Get();
  for (const auto& [name, function] : module.functions) state.modules.functions.Remove(function->handle);
  for (const auto& [name, address] : module.variables) state.memory.Release(address);
  state.modules.modules.Remove(module.handle);
}

CUresult LoadModule(CUmodule* module, const void* image) {
  SIMCUDA_CURRENT(context);
  if (module == nullptr || image == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *module = MakeModule(*context, nullptr)->handle;
  return CUDA_SUCCESS;
}

CUresult LoadLibrary(CUlibrary* library, const void* code) {
  if (library == nullptr || code == nullptr) return CUDA_ERROR_INVALID_VALUE;
  auto made = std::make_shared<Library>();
  *library = made->handle = State::Get().modules.libraries.Add(made);
  return CUDA_SUCCESS;
}

CUresult FindLibrary(CUlibrary handle, std::shared_ptr<Library>* library) {
  *library = State::Get().modules.libraries.Find(handle);
  return *library ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

}  // namespace

void Modules::ReleaseContext(Context& context) {
  State& state = State::Get();
  for (const auto& [handle, library] : libraries.All()) library->modules.erase(&context);
  modules.RemoveIf([&](const Module& module) {
    if (module.context != &context) return false;
    for (const auto& [name, function] : module.functions) state.modules.functions.Remove(function->handle);
    return true;
  });
}

CUresult impl::cuModuleLoad(CUmodule* module, const char* fname) { return LoadModule(module, fname); }
CUresult impl::cuModuleLoadData(CUmodule* module, const void* image) { return LoadModule(module, image); }
CUresult impl::cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned int, CUjit_option*, void**) {
  return LoadModule(module, image);
}
CUresult impl::cuModuleLoadFatBinary(CUmodule* module, const void* fatCubin) { return LoadModule(module, fatCubin); }

CUresult impl::cuModuleUnload(CUmodule hmod) {
  SIMCUDA_CURRENT(context);
  const std::shared_ptr<Module> module = State::Get().modules.modules.Find(hmod);
  if (!module) return CUDA_ERROR_INVALID_HANDLE;
  if (module->library != nullptr) return CUDA_ERROR_NOT_PERMITTED;  // belongs to a library
  EndModule(*module);
  return CUDA_SUCCESS;
}

CUresult impl::cuModuleGetLoadingMode(CUmoduleLoadingMode* mode) {
  if (mode == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *mode = CU_MODULE_LAZY_LOADING;
  return CUDA_SUCCESS;
}

CUresult impl::cuModuleGetFunction(CUfunction* hfunc, CUmodule hmod, const char* name) {
  SIMCUDA_CURRENT(context);
  const std::shared_ptr<Module> module = State::Get().modules.modules.Find(hmod);
  if (hfunc == nullptr || name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!module) return CUDA_ERROR_INVALID_HANDLE;
  const auto known = module->functions.find(name);
  if (known != module->functions.end()) {
    *hfunc = known->second->handle;
    return CUDA_SUCCESS;
  }
  auto kernel = std::make_shared<Kernel>();
  kernel->name = name;
  *hfunc = FindFunction(*module, kernel)->handle;
  return CUDA_SUCCESS;
}

CUresult impl::cuModuleGetGlobal_v2(CUdeviceptr* dptr, size_t* bytes, CUmodule hmod, const char* name) {
  SIMCUDA_CURRENT(context);
  const std::shared_ptr<Module> module = State::Get().modules.modules.Find(hmod);
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return module ? FindVariable(*module, name, dptr, bytes) : CUDA_ERROR_INVALID_HANDLE;
}

CUresult impl::cuLibraryLoadData(CUlibrary* library, const void* code, CUjit_option*, void**, unsigned int,
                                 CUlibraryOption*, void**, unsigned int) {
  return LoadLibrary(library, code);
}

CUresult impl::cuLibraryLoadFromFile(CUlibrary* library, const char* fileName, CUjit_option*, void**, unsigned int,
                                     CUlibraryOption*, void**, unsigned int) {
  return LoadLibrary(library, fileName);
}

CUresult impl::cuLibraryUnload(CUlibrary library) {
  std::shared_ptr<Library> found;
  if (const CUresult result = FindLibrary(library, &found)) return result;
  State& state = State::Get();
  for (const auto& [context, module] : found->modules) EndModule(*module);
  for (const auto& [name, kernel] : found->kernels) state.modules.kernels.Remove(kernel->kernel_handle);
  for (const auto& [name, address] : found->managed) state.memory.Release(address);
  state.modules.libraries.Remove(library);
  return CUDA_SUCCESS;
}

CUresult impl::cuLibraryGetKernel(CUkernel* pKernel, CUlibrary library, const char* name) {
  std::shared_ptr<Library> found;
  if (const CUresult result = FindLibrary(library, &found)) return result;
  if (pKernel == nullptr || name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Kernel>& kernel = found->kernels[name];
  if (!kernel) {
    kernel = std::make_shared<Kernel>();
    kernel->name = name;
    kernel->library = library;
    kernel->kernel_handle = State::Get().modules.kernels.Add(kernel);
  }
  *pKernel = kernel->kernel_handle;
  return CUDA_SUCCESS;
}

CUresult impl::cuLibraryGetKernelCount(unsigned int* count, CUlibrary lib) {
  std::shared_ptr<Library> found;
  if (const CUresult result = FindLibrary(lib, &found)) return result;
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *count = static_cast<unsigned>(found->kernels.size());  // images are not read: those that were asked for
  return CUDA_SUCCESS;
}

CUresult impl::cuLibraryEnumerateKernels(CUkernel* kernels, unsigned int numKernels, CUlibrary lib) {
  std::shared_ptr<Library> found;
  if (const CUresult result = FindLibrary(lib, &found)) return result;
  if (kernels == nullptr) return CUDA_ERROR_INVALID_VALUE;
  for (const auto& [name, kernel] : found->kernels) {
    if (numKernels-- == 0) break;
    *kernels++ = kernel->kernel_handle;
  }
  return CUDA_SUCCESS;
}

CUresult impl::cuLibraryGetModule(CUmodule* pMod, CUlibrary library) {
  SIMCUDA_CURRENT(context);
  std::shared_ptr<Library> found;
  if (const CUresult result = FindLibrary(library, &found)) return result;
  if (pMod == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *pMod = LibraryModule(*found, *context)->handle;
  return CUDA_SUCCESS;
}

CUresult impl::cuKernelGetFunction(CUfunction* pFunc, CUkernel kernel) {
  SIMCUDA_CURRENT(context);
  const std::shared_ptr<Kernel> found = State::Get().modules.kernels.Find(kernel);
  if (!found) return CUDA_ERROR_INVALID_HANDLE;
  std::shared_ptr<Library> library;
  if (const CUresult result = FindLibrary(found->library, &library)) return result;
  if (pFunc == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *pFunc = FindFunction(*LibraryModule(*library, *context), found)->handle;
  return CUDA_SUCCESS;
}

CUresult impl::cuKernelGetLibrary(CUlibrary* pLib, CUkernel kernel) {
  const std::shared_ptr<Kernel> found = State::Get().modules.kernels.Find(kernel);
  if (!found) return CUDA_ERROR_INVALID_HANDLE;
  if (pLib == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *pLib = found->library;
  return CUDA_SUCCESS;
}

CUresult impl::cuLibraryGetGlobal(CUdeviceptr* dptr, size_t* bytes, CUlibrary library, const char* name) {
  SIMCUDA_CURRENT(context);
  std::shared_ptr<Library> found;
  if (const CUresult result = FindLibrary(library, &found)) return result;
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return FindVariable(*LibraryModule(*found, *context), name, dptr, bytes);
}

CUresult impl::cuLibraryGetManaged(CUdeviceptr* dptr, size_t* bytes, CUlibrary library, const char* name) {
  SIMCUDA_CURRENT(context);
  std::shared_ptr<Library> found;
  if (const CUresult result = FindLibrary(library, &found)) return result;
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  State& state = State::Get();
  const auto declared = state.modules.variables.find(name);
  if (declared == state.modules.variables.end() || !declared->second.managed) return CUDA_ERROR_NOT_FOUND;
  uint64_t& address = found->managed[name];
  if (address == 0 || state.memory.Find(address) == nullptr) {
    Block* block = nullptr;
    const CUresult result =
        state.memory.AllocateShared(*context, declared->second.bytes, Kind::kManaged, CU_MEM_ATTACH_GLOBAL, &block);
    if (result != CUDA_SUCCESS) return result;
    address = block->base;
  }
  if (dptr != nullptr) *dptr = address;
  if (bytes != nullptr) *bytes = declared->second.bytes;
  return CUDA_SUCCESS;
}

}  // namespace simcuda
