// hazard_program SCENE [ARGUMENT...]: one way to make life hard for a guest in the process. See hazards_test.py.
#include <pthread.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/interpose/hazards/scenes.h"

namespace hazards {

int Say(const char* what, long long result) {
  char line[160];
  const int size = std::snprintf(line, sizeof(line), "%s %lld\n", what, result);
  [[maybe_unused]] const auto written = write(STDOUT_FILENO, line, static_cast<std::size_t>(size));
  return static_cast<int>(result);
}

void Require(bool condition, const char* what) {
  if (condition) return;
  Say(what, -1);
  _exit(99);
}

CUcontext StartQuietly() {
  CUcontext context = nullptr;
  CUdevice device = 0;
  Require(cuInit(0) == CUDA_SUCCESS, "cuInit");
  Require(cuDeviceGet(&device, 0) == CUDA_SUCCESS, "cuDeviceGet");
  Require(cuDevicePrimaryCtxRetain(&context, device) == CUDA_SUCCESS, "cuDevicePrimaryCtxRetain");
  Require(cuCtxSetCurrent(context) == CUDA_SUCCESS, "cuCtxSetCurrent");
  return context;
}

CUcontext StartDevice() {
  CUcontext context = nullptr;
  CUdevice device = 0;
  Say("init", cuInit(0));
  Say("device", cuDeviceGet(&device, 0));
  Say("retain", cuDevicePrimaryCtxRetain(&context, device));
  Say("current", cuCtxSetCurrent(context));
  return context;
}

CUdeviceptr Allocate(std::size_t bytes) {
  CUdeviceptr address = 0;
  Require(cuMemAlloc(&address, bytes) == CUDA_SUCCESS, "cuMemAlloc");
  Require(cuMemsetD8(address, static_cast<unsigned char>(bytes), bytes) == CUDA_SUCCESS, "cuMemsetD8");
  return address;
}

void Free(CUdeviceptr address) { Require(cuMemFree(address) == CUDA_SUCCESS, "cuMemFree"); }

bool RoundTrip(std::size_t bytes) {
  const CUdeviceptr block = Allocate(bytes);
  std::vector<unsigned char> back(bytes);
  Require(cuMemcpyDtoH(back.data(), block, bytes) == CUDA_SUCCESS, "cuMemcpyDtoH");
  Free(block);
  for (const unsigned char byte : back) {
    if (byte != static_cast<unsigned char>(bytes)) return false;
  }
  return true;
}

Gate::Gate() {
  void* host = nullptr;
  Require(cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS, "cuStreamCreate");
  Require(cuMemHostAlloc(&host, sizeof(unsigned int), CU_MEMHOSTALLOC_DEVICEMAP) == CUDA_SUCCESS, "cuMemHostAlloc");
  Require(cuMemHostGetDevicePointer(&on_device_, host, 0) == CUDA_SUCCESS, "cuMemHostGetDevicePointer");
  flag_ = static_cast<volatile unsigned int*>(host);
  *flag_ = 0;
}

void Gate::Block() {
  Require(cuStreamWaitValue32(stream_, on_device_, 1, CU_STREAM_WAIT_VALUE_EQ) == CUDA_SUCCESS, "cuStreamWaitValue32");
}

void RunInThread(std::size_t stack_bytes, const std::function<void()>& body) {
  pthread_attr_t attributes;
  Require(pthread_attr_init(&attributes) == 0, "pthread_attr_init");
  Require(pthread_attr_setstacksize(&attributes, stack_bytes) == 0, "pthread_attr_setstacksize");
  pthread_t thread;
  const auto main = [](void* argument) -> void* {
    (*static_cast<const std::function<void()>*>(argument))();
    return nullptr;
  };
  Require(pthread_create(&thread, &attributes, main, const_cast<std::function<void()>*>(&body)) == 0, "pthread_create");
  Require(pthread_join(thread, nullptr) == 0, "pthread_join");
  pthread_attr_destroy(&attributes);
}

std::string OwnPath() {
  char path[4096] = "";
  const auto size = readlink("/proc/self/exe", path, sizeof(path) - 1);
  Require(size > 0, "readlink");
  return path;
}

}  // namespace hazards

int main(int argc, char** argv) {
  using hazards::Scenes;
  const std::string name = argc > 1 ? argv[1] : "";
  const hazards::Arguments arguments(argv + (argc > 2 ? 2 : argc), argv + argc);
  for (Scenes (*scenes)() : {hazards::ProcessScenes, hazards::SignalScenes, hazards::ThreadScenes,
                             hazards::StackScenes, hazards::LimitScenes}) {
    const Scenes known = scenes();
    if (const auto found = known.find(name); found != known.end()) return found->second(arguments);
  }
  std::fprintf(stderr, "no scene is called \"%s\"\n", name.c_str());
  return 98;
}
