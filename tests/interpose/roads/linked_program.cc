// The road of a direct link: names bound by the loader. Prints "name result owner" lines, as road_program does.
#include <cstdio>

#include "interpose/cuda_api.h"
#include "tests/interpose/roads/owner.h"

int main() {
  CUdeviceptr address = 0;
  void* function = nullptr;
  std::printf("cuInit %d\n", cuInit(0));
  std::printf("cuMemAlloc_v2 %d %s\n", cuMemAlloc_v2(&address, 1), Owner(reinterpret_cast<void*>(&cuMemAlloc_v2)));
  std::printf("cuMemAllocAsync_ptsz %d\n", cuMemAllocAsync_ptsz(&address, 1, nullptr));
  std::printf("cuCtxSynchronize_v2 %d\n", cuCtxSynchronize_v2(nullptr));
  std::printf("cuMemAlloc %d\n", cuMemAlloc(nullptr, 1));
  std::printf("cuModuleUnload %d\n", cuModuleUnload(nullptr));
  const CUresult found = cuGetProcAddress_v2("cuMemAlloc", &function, 3020, 0, nullptr);
  std::printf("cuGetProcAddress_v2 %d %s\n", found, Owner(function));
  return 0;
}
