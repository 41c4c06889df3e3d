// PTX by the "PTX ISA" reference; the names and parameters are those of the simulated driver's test kernels, which does
// not read the text. One thread does all: these are small.
#include <atomic>

#include "tests/interpose/semantics/scene.h"

namespace semantics {
namespace {

constexpr const char* kPtx = R"(
.version 6.0
.target sm_50
.address_size 64

.visible .entry simcuda_fill(.param .u64 to, .param .u64 count, .param .u32 value) {
  .reg .u64 %p, %i, %n;
  .reg .u32 %v;
  .reg .pred %done;
  ld.param.u64 %p, [to];
  ld.param.u64 %n, [count];
  ld.param.u32 %v, [value];
  mov.u64 %i, 0;
LOOP:
  setp.ge.u64 %done, %i, %n;
  @%done bra END;
  st.global.u32 [%p], %v;
  add.u64 %p, %p, 4;
  add.u64 %i, %i, 1;
  bra LOOP;
END:
  ret;
}

.visible .entry simcuda_copy(.param .u64 to, .param .u64 from, .param .u64 bytes) {
  .reg .u64 %p, %q, %i, %n;
  .reg .u16 %v;
  .reg .pred %done;
  ld.param.u64 %p, [to];
  ld.param.u64 %q, [from];
  ld.param.u64 %n, [bytes];
  mov.u64 %i, 0;
LOOP:
  setp.ge.u64 %done, %i, %n;
  @%done bra END;
  ld.global.u8 %v, [%q];
  st.global.u8 [%p], %v;
  add.u64 %p, %p, 1;
  add.u64 %q, %q, 1;
  add.u64 %i, %i, 1;
  bra LOOP;
END:
  ret;
}

.visible .entry simcuda_scale_add(.param .u64 to, .param .u64 count, .param .u32 factor, .param .u32 summand) {
  .reg .u64 %p, %i, %n;
  .reg .u32 %v, %a, %b;
  .reg .pred %done;
  ld.param.u64 %p, [to];
  ld.param.u64 %n, [count];
  ld.param.u32 %a, [factor];
  ld.param.u32 %b, [summand];
  mov.u64 %i, 0;
LOOP:
  setp.ge.u64 %done, %i, %n;
  @%done bra END;
  ld.global.u32 %v, [%p];
  mad.lo.u32 %v, %v, %a, %b;
  st.global.u32 [%p], %v;
  add.u64 %p, %p, 4;
  add.u64 %i, %i, 1;
  bra LOOP;
END:
  ret;
}

.visible .entry simcuda_spin(.param .u64 flag, .param .u32 value) {
  .reg .u64 %p;
  .reg .u32 %v, %seen;
  .reg .pred %again;
  ld.param.u64 %p, [flag];
  ld.param.u32 %v, [value];
LOOP:
  ld.volatile.u32 %seen, [%p];
  setp.ne.u32 %again, %seen, %v;
  @%again bra LOOP;
  ret;
}
)";

CUfunction Find(CUmodule module, const char* name) {
  CUfunction function = nullptr;
  Must(name, cuModuleGetFunction(&function, module, name));
  return function;
}

CUresult Launch(CUfunction function, CUstream stream, void** parameters) {
  return cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, parameters, nullptr);
}

}  // namespace

Kernels::Kernels() {
  CUmodule module = nullptr;
  Must("cuModuleLoadData", cuModuleLoadData(&module, kPtx));
  fill_ = Find(module, "simcuda_fill");
  copy_ = Find(module, "simcuda_copy");
  scale_add_ = Find(module, "simcuda_scale_add");
  spin_ = Find(module, "simcuda_spin");
}

CUresult Kernels::Fill(CUstream stream, CUdeviceptr to, std::uint64_t words, std::uint32_t value) const {
  void* parameters[] = {&to, &words, &value};
  return Launch(fill_, stream, parameters);
}

CUresult Kernels::Copy(CUstream stream, CUdeviceptr to, CUdeviceptr from, std::uint64_t bytes) const {
  void* parameters[] = {&to, &from, &bytes};
  return Launch(copy_, stream, parameters);
}

CUresult Kernels::ScaleAdd(CUstream stream, CUdeviceptr to, std::uint64_t words, std::uint32_t a,
                           std::uint32_t b) const {
  void* parameters[] = {&to, &words, &a, &b};
  return Launch(scale_add_, stream, parameters);
}

CUresult Kernels::Spin(CUstream stream, CUdeviceptr flag, std::uint32_t value) const {
  void* parameters[] = {&flag, &value};
  return Launch(spin_, stream, parameters);
}

Gate::Gate() {
  void* host = nullptr;
  Must("cuMemHostAlloc", cuMemHostAlloc(&host, sizeof(unsigned), CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_PORTABLE));
  word_ = static_cast<volatile unsigned*>(host);
  *word_ = 0;
}

// Not given back: a wait that nobody asked for would be.
Gate::~Gate() { Open(); }

void Gate::Close(const Kernels& kernels, CUstream stream) {
  *word_ = 0;
  CUdeviceptr address = 0;
  Must("cuMemHostGetDevicePointer", cuMemHostGetDevicePointer(&address, const_cast<unsigned*>(word_), 0));
  Must("spin", kernels.Spin(stream, address, 1));
}

void Gate::Open() {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  *word_ = 1;
}

}  // namespace semantics
