// c = a + b by the driver API: a module from PTX text, device memory, one launch a size, results checked on the host.
#include "tests/interpose/samples/check.h"

namespace {

// PTX by the "PTX ISA" reference, old enough for every current driver; the simulated one only looks at the names.
constexpr const char* kPtx = R"(
.version 6.0
.target sm_50
.address_size 64

.visible .entry simcuda_add(.param .u64 to, .param .u64 a, .param .u64 b, .param .u64 count) {
  .reg .u64 %to, %a, %b, %n, %i, %step, %offset, %p, %q, %r;
  .reg .u32 %block, %size, %thread, %grid, %first, %stride, %x, %y;
  .reg .pred %done;
  ld.param.u64 %to, [to];
  ld.param.u64 %a, [a];
  ld.param.u64 %b, [b];
  ld.param.u64 %n, [count];
  mov.u32 %block, %ctaid.x;
  mov.u32 %size, %ntid.x;
  mov.u32 %thread, %tid.x;
  mov.u32 %grid, %nctaid.x;
  mad.lo.u32 %first, %block, %size, %thread;
  mul.lo.u32 %stride, %grid, %size;
  cvt.u64.u32 %i, %first;
  cvt.u64.u32 %step, %stride;
LOOP:
  setp.ge.u64 %done, %i, %n;
  @%done bra END;
  shl.b64 %offset, %i, 2;
  add.u64 %p, %a, %offset;
  add.u64 %q, %b, %offset;
  add.u64 %r, %to, %offset;
  ld.global.u32 %x, [%p];
  ld.global.u32 %y, [%q];
  add.u32 %x, %x, %y;
  st.global.u32 [%r], %x;
  add.u64 %i, %i, %step;
  bra LOOP;
END:
  ret;
}
)";

void Add(CUfunction add, std::size_t count) {
  const std::vector<unsigned> a = samples::Sequence(count, 7, 3), b = samples::Sequence(count, 1000, 5);
  std::vector<unsigned> c(count);
  const std::size_t bytes = count * sizeof(unsigned);
  CUdeviceptr on_device[3] = {};
  for (CUdeviceptr& block : on_device) CHECK_DRIVER(cuMemAlloc(&block, bytes));
  CHECK_DRIVER(cuMemcpyHtoD(on_device[0], a.data(), bytes));
  CHECK_DRIVER(cuMemcpyHtoD(on_device[1], b.data(), bytes));
  unsigned long long words = count;
  void* parameters[] = {&on_device[2], &on_device[0], &on_device[1], &words};
  const unsigned blocks = static_cast<unsigned>((count + 255) / 256);
  CHECK_DRIVER(cuLaunchKernel(add, blocks, 1, 1, 256, 1, 1, 0, nullptr, parameters, nullptr));
  CHECK_DRIVER(cuMemcpyDtoH(c.data(), on_device[2], bytes));
  for (const CUdeviceptr block : on_device) CHECK_DRIVER(cuMemFree(block));
  std::printf("%zu words, checksum %llx\n", count, samples::Checksum(c));
  samples::Expect(c[0] == 1007 && c[count - 1] == 1007 + 8 * static_cast<unsigned>(count - 1), "sums");
}

}  // namespace

int main() {
  CUdevice device = 0;
  CUcontext context = nullptr;
  CUmodule module = nullptr;
  CUfunction add = nullptr;
  CHECK_DRIVER(cuInit(0));
  CHECK_DRIVER(cuDeviceGet(&device, 0));
  CHECK_DRIVER(cuDevicePrimaryCtxRetain(&context, device));
  CHECK_DRIVER(cuCtxSetCurrent(context));
  CHECK_DRIVER(cuModuleLoadData(&module, kPtx));
  CHECK_DRIVER(cuModuleGetFunction(&add, module, "simcuda_add"));
  for (int round = 0; round < 3; ++round) {
    for (const std::size_t count : {1U, 50'000U, 3U, 1'000'000U}) Add(add, count);
  }
  CHECK_DRIVER(cuCtxSynchronize());
  CHECK_DRIVER(cuModuleUnload(module));
  CHECK_DRIVER(cuDevicePrimaryCtxRelease(device));
  return 0;
}
