// Modules, libraries, kernels and functions. Any image is accepted and any kernel name is found; kernels do nothing
// unless one was registered under their name (simcuda.h).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tools/simcuda/driver/cuda_api.h"
#include "tools/simcuda/driver/handle_table.h"
#include "tools/simcuda/simcuda.h"

namespace simcuda {

struct Context;

struct Kernel {
  std::string name;
  CUkernel kernel_handle = nullptr;  // null: a function of a plain module
  CUlibrary library = nullptr;
  std::map<int, int> attributes;  // set by the program: CUfunction_attribute -> value
  CUfunc_cache cache_config = CU_FUNC_CACHE_PREFER_NONE;
};

struct Function {
  std::shared_ptr<Kernel> kernel;
  CUfunction handle = nullptr;
  CUmodule module = nullptr;
  Context* context = nullptr;
};

struct Module {
  CUmodule handle = nullptr;
  Context* context = nullptr;
  CUlibrary library = nullptr;  // null: loaded by itself
  std::map<std::string, std::shared_ptr<Function>> functions;
  std::map<std::string, uint64_t> variables;  // addresses of what cuModuleGetGlobal gave out
};

struct Library {
  CUlibrary handle = nullptr;
  std::map<std::string, std::shared_ptr<Kernel>> kernels;
  std::map<Context*, std::shared_ptr<Module>> modules;  // one for each context that used it
  std::map<std::string, uint64_t> managed;              // addresses of what cuLibraryGetManaged gave out
};

// A test kernel: a function that runs when a kernel of its name is launched.
struct RegisteredKernel {
  SimcudaKernelFunction function = nullptr;
  std::vector<size_t> parameter_bytes;
};

// Where each parameter lies in the packed form, and one element more: the size of the whole.
std::vector<size_t> ParameterOffsets(const RegisteredKernel& kernel);

// A variable in device code whose size somebody declared (simcuda_declare_variable).
struct DeclaredVariable {
  size_t bytes = 0;
  bool managed = false;
};

struct Modules {
  HandleTable<CUmodule, Module> modules{0x55000040, HandleReuse::kUnique};
  HandleTable<CUfunction, Function> functions{0x5600000040, HandleReuse::kUnique};
  HandleTable<CUlibrary, Library> libraries{0x57000040, HandleReuse::kUnique};
  HandleTable<CUkernel, Kernel> kernels{0x5800000040, HandleReuse::kUnique};
  std::map<std::string, RegisteredKernel> registered;
  std::map<std::string, DeclaredVariable> variables;

  // Ends the modules of a context that goes away.
  void ReleaseContext(Context& context);
};

// What a function handle stands for; launches and attributes also take kernel handles, as the documentation allows.
// Errors: INVALID_HANDLE.
CUresult FindKernel(CUfunction handle, std::shared_ptr<Kernel>* kernel);

}  // namespace simcuda
