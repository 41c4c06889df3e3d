// A program that uses CUDA before it loads Python, and whose Python is in nobody's global scope.
//
// usage: embedding_program DRIVER LIBPYTHON SCRIPT [unload]
//   allocates 1000 bytes; then loads LIBPYTHON with RTLD_LOCAL and runs SCRIPT in it, which may call
//   cuda_allocate(bytes); allocates 3000 bytes on a thread of its own; with "unload" ends and unloads Python; allocates
//   4000 bytes.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>

namespace {

template <typename Function>
Function Find(void* library, const char* name) {
  auto function = reinterpret_cast<Function>(dlsym(library, name));
  if (function == nullptr) {
    std::fprintf(stderr, "embedding_program: no %s\n", name);
    std::exit(2);
  }
  return function;
}

void* Open(const char* path) {
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    std::fprintf(stderr, "embedding_program: %s\n", dlerror());
    std::exit(2);
  }
  return library;
}

// PyMethodDef of CPython's stable ABI; its headers are those of one version, and this runs with several.
struct Method {
  const char* name;
  void* (*function)(void* self, void* argument);
  int flags;
  const char* documentation;
};
constexpr int kOneArgument = 0x0008;  // METH_O

int (*g_allocate)(unsigned long long*, std::size_t);
std::size_t (*g_size_of)(void*);
void* (*g_integer)(long);

void* AllocateForPython(void*, void* argument) {
  unsigned long long address = 0;
  if (g_allocate(&address, g_size_of(argument)) != 0) std::exit(3);
  return g_integer(0);
}

void OfferAllocate(void* python) {
  static Method method{"cuda_allocate", AllocateForPython, kOneArgument, nullptr};
  g_size_of = Find<std::size_t (*)(void*)>(python, "PyLong_AsSize_t");
  g_integer = Find<void* (*)(long)>(python, "PyLong_FromLong");
  void* function = Find<void* (*)(Method*, void*, void*)>(python, "PyCFunction_NewEx")(&method, nullptr, nullptr);
  void* main_module = Find<void* (*)(const char*)>(python, "PyImport_AddModule")("__main__");
  Find<int (*)(void*, const char*, void*)>(python, "PyObject_SetAttrString")(main_module, method.name, function);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  void* driver = Open(argv[1]);
  const auto init = Find<int (*)(unsigned)>(driver, "cuInit");
  const auto retain = Find<int (*)(void**, int)>(driver, "cuDevicePrimaryCtxRetain");
  const auto use = Find<int (*)(void*)>(driver, "cuCtxSetCurrent");
  g_allocate = Find<int (*)(unsigned long long*, std::size_t)>(driver, "cuMemAlloc_v2");
  void* context = nullptr;
  if (init(0) != 0 || retain(&context, 0) != 0 || use(context) != 0) return 3;
  const auto allocate = [](std::size_t bytes) {
    unsigned long long address = 0;
    if (g_allocate(&address, bytes) != 0) std::exit(3);
  };
  allocate(1000);

  void* python = Open(argv[2]);
  std::ifstream file(argv[3]);
  std::stringstream script;
  script << file.rdbuf();
  Find<void (*)(int)>(python, "Py_InitializeEx")(0);
  OfferAllocate(python);
  if (Find<int (*)(const char*)>(python, "PyRun_SimpleString")(script.str().c_str()) != 0) return 4;
  std::thread([&] {
    if (use(context) != 0) std::exit(3);
    allocate(3000);
  }).join();
  if (argc > 4 && std::strcmp(argv[4], "unload") == 0) {
    Find<int (*)()>(python, "Py_FinalizeEx")();
    dlclose(python);
  }
  allocate(4000);
  return 0;
}
