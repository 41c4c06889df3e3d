// Is there a GPU that a program can use? Prints the driver's facts as JSON; ends with 77 and the reason if there is
// none. Opens the driver by itself and needs no header of CUDA's, so that it starts on any machine.
#include <dlfcn.h>

#include <cstddef>
#include <cstdio>
#include <string>

namespace {

constexpr int kNone = 77;
constexpr int kMajor = 75, kMinor = 76;  // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, _MINOR

template <class Function>
Function Find(void* driver, const char* name) {
  return reinterpret_cast<Function>(dlsym(driver, name));
}

int None(const char* reason) {
  std::printf("%s\n", reason);
  return kNone;
}

std::string Quoted(const char* text) {
  std::string out = "\"";
  for (; *text != '\0'; ++text) {
    if (*text == '"' || *text == '\\') out += '\\';
    if (static_cast<unsigned char>(*text) >= 0x20) out += *text;
  }
  return out + '"';
}

}  // namespace

int main() {
  void* driver = dlopen("libcuda.so.1", RTLD_NOW);
  if (driver == nullptr) return None(dlerror());
  const auto init = Find<int (*)(unsigned)>(driver, "cuInit");
  const auto version = Find<int (*)(int*)>(driver, "cuDriverGetVersion");
  const auto count = Find<int (*)(int*)>(driver, "cuDeviceGetCount");
  const auto get = Find<int (*)(int*, int)>(driver, "cuDeviceGet");
  const auto name = Find<int (*)(char*, int, int)>(driver, "cuDeviceGetName");
  const auto total = Find<int (*)(std::size_t*, int)>(driver, "cuDeviceTotalMem_v2");
  const auto attribute = Find<int (*)(int*, int, int)>(driver, "cuDeviceGetAttribute");
  if (init == nullptr || version == nullptr || count == nullptr || get == nullptr || name == nullptr ||
      total == nullptr || attribute == nullptr)
    return None("libcuda.so.1 lacks functions of CUDA's");
  int number = 0, driver_version = 0;
  if (const int result = init(0); result != 0) return None(("cuInit: error " + std::to_string(result)).c_str());
  if (count(&number) != 0 || number == 0) return None("the driver has no device");
  version(&driver_version);
  std::string devices;
  for (int i = 0; i < number; ++i) {
    int device = 0, major = 0, minor = 0;
    char text[256] = "";
    std::size_t bytes = 0;
    get(&device, i);
    name(text, sizeof(text), device);
    total(&bytes, device);
    attribute(&major, kMajor, device);
    attribute(&minor, kMinor, device);
    devices += (i == 0 ? "" : ", ") + ("{\"name\": " + Quoted(text)) + ", \"capability\": \"" + std::to_string(major) +
               '.' + std::to_string(minor) + "\", \"memory_bytes\": " + std::to_string(bytes) + '}';
  }
  Dl_info file{};
  const bool found = dladdr(reinterpret_cast<void*>(init), &file) != 0 && file.dli_fname != nullptr;
  std::printf("{\"simulated\": %s, \"driver_version\": \"%d.%d\", \"driver_file\": %s, \"devices\": [%s]}\n",
              dlsym(driver, "simcuda_get_table") != nullptr ? "true" : "false", driver_version / 1000,
              driver_version % 1000 / 10, Quoted(found ? file.dli_fname : "").c_str(), devices.c_str());
  return 0;
}
