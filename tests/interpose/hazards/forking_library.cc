// In place of the C library's registration of fork handlers: the program is called just before, once. Whoever registers
// handlers is in the middle of its own start. Not when the driver does: its own locks are its own affair.
#include <dlfcn.h>

#include <cstring>

using Registration = int (*)(void (*)(), void (*)(), void (*)(), void*);

extern "C" {

[[gnu::visibility("default")]] void (*cuheap_hazard_before_registration)() = nullptr;

// NOLINTNEXTLINE(bugprone-reserved-identifier): the C library's name, which pthread_atfork calls
[[gnu::visibility("default")]] int __register_atfork(void (*prepare)(), void (*parent)(), void (*child)(),
                                                     void* object) {
  Dl_info caller;
  const bool driver = dladdr(__builtin_return_address(0), &caller) != 0 &&
                      std::strstr(caller.dli_fname, "libcuda.so") != nullptr;
  if (void (*call)() = cuheap_hazard_before_registration; call != nullptr && !driver) {
    cuheap_hazard_before_registration = nullptr;
    call();
  }
  const auto real = reinterpret_cast<Registration>(dlsym(RTLD_NEXT, "__register_atfork"));
  return real(prepare, parent, child, object);
}
}
