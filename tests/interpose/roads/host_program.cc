// Opens libraries that use the driver, in the ways that there are: host_program WAY LIBRARY [WAY LIBRARY ...]
#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <string>

int main(int argc, char** argv) {
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string way = argv[i];
    void* library = nullptr;
    if (way == "plain") library = dlopen(argv[i + 1], RTLD_NOW | RTLD_LOCAL);
    if (way == "deepbind" || way == "deepbind-closed")
      library = dlopen(argv[i + 1], RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
    if (way == "lazy-deepbind") library = dlopen(argv[i + 1], RTLD_LAZY | RTLD_LOCAL | RTLD_DEEPBIND);
    if (way == "namespace") library = dlmopen(LM_ID_NEWLM, argv[i + 1], RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return std::printf("%s: %s\n", way.c_str(), dlerror()), 3;
    const auto use = reinterpret_cast<int (*)()>(dlsym(library, "cuheap_test_use_driver"));
    if (use == nullptr) return 3;
    std::fflush(stdout);
    std::printf("%s %d\n", way.c_str(), use());
    if (way == "deepbind-closed") std::printf("closed %d\n", dlclose(library));
  }
  std::fflush(stdout);
  return 0;
}
