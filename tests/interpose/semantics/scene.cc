#include "tests/interpose/semantics/scene.h"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace semantics {
namespace {

std::vector<const Scene*>& Scenes() {
  static std::vector<const Scene*> scenes;
  return scenes;
}

}  // namespace

Scene::Scene(const char* name, const char* settings, Function run) : name_(name), settings_(settings), run_(run) {
  Scenes().push_back(this);
}

int Say(const char* what, int result) {
  std::printf("%s %d\n", what, result);
  return result;
}

int Say(const char* what, unsigned long long number, int result) {
  std::printf("%s %llu %d\n", what, number, result);
  return result;
}

void Print(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::vprintf(format, arguments);
  va_end(arguments);
  std::putchar('\n');
}

void Expect(bool holds, const char* what) {
  if (!holds) std::printf("UNEXPECTED: not %s\n", what);
}

void Must(const char* what, int result) {
  if (result == 0) return;
  std::printf("UNEXPECTED: %s %d\n", what, result);
  std::exit(0);
}

CUcontext StartDevice(int ordinal) {
  CUcontext context = nullptr;
  CUdevice device = 0;
  Must("cuInit", cuInit(0));
  Must("cuDeviceGet", cuDeviceGet(&device, ordinal));
  Must("cuDevicePrimaryCtxRetain", cuDevicePrimaryCtxRetain(&context, device));
  Must("cuCtxSetCurrent", cuCtxSetCurrent(context));
  return context;
}

bool HasDevices(int count) {
  int found = 0;
  Must("cuInit", cuInit(0));
  Must("cuDeviceGetCount", cuDeviceGetCount(&found));
  if (found >= count) return true;
  Print("needs %d devices, has %d", count, found);
  return false;
}

CUdeviceptr Allocate(std::size_t bytes) {
  CUdeviceptr address = 0;
  Must("cuMemAlloc", cuMemAlloc(&address, bytes));
  return address;
}

CUstream NewStream() {
  CUstream stream = nullptr;
  Must("cuStreamCreate", cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  return stream;
}

unsigned ReadWord(CUdeviceptr address) {
  unsigned word = 0;
  const CUresult result = cuMemcpyDtoH(&word, address, sizeof(word));
  if (result != CUDA_SUCCESS) Say("read", result);
  return word;
}

void Fill(CUdeviceptr address, unsigned value, std::size_t bytes) {
  Must("cuMemsetD32", cuMemsetD32(address, value, bytes / sizeof(unsigned)));
}

bool Holds(CUdeviceptr address, unsigned value, std::size_t bytes) {
  std::vector<unsigned> words(bytes / sizeof(unsigned));
  if (Say("read back", cuMemcpyDtoH(words.data(), address, words.size() * sizeof(unsigned))) != 0) return false;
  for (const unsigned word : words) {
    if (word != value) return false;
  }
  return true;
}

}  // namespace semantics

// usage: PROGRAM SCENE | --list (one line a scene: its name and settings)
int main(int argc, char** argv) {
  if (argc != 2) return 2;
  if (std::string_view(argv[1]) == "--list") {
    for (const semantics::Scene* scene : semantics::Scenes()) std::printf("%s %s\n", scene->name(), scene->settings());
    return 0;
  }
  for (const semantics::Scene* scene : semantics::Scenes()) {
    if (std::strcmp(scene->name(), argv[1]) != 0) continue;
    scene->Run();
    std::fflush(stdout);
    return 0;
  }
  std::fprintf(stderr, "no scene is called %s\n", argv[1]);
  return 2;
}
