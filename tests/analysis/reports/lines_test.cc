#include "analysis/reports/lines.h"

#include <gtest/gtest.h>

#include "tests/analysis/reports/synthetic.h"

namespace cuheap::analysis {
namespace {

TEST(ClassifyModuleTest, KnowsWhoseCodeAModuleIs) {
  const std::pair<const char*, ModuleClass> cases[] = {
      {"", ModuleClass::kNone},
      {"/opt/me/train", ModuleClass::kUser},
      {"/usr/bin/train", ModuleClass::kUser},
      {"/opt/me/libmodel.so", ModuleClass::kUser},
      {"/usr/bin/python3.11", ModuleClass::kInterpreter},
      {"/usr/lib/x86_64-linux-gnu/libpython3.11.so.1.0", ModuleClass::kInterpreter},
      {"/opt/python/lib/python3.13/lib-dynload/_ctypes.cpython-313-x86_64-linux-gnu.so", ModuleClass::kInterpreter},
      {"/opt/conda/lib/libffi.so.8", ModuleClass::kInterpreter},
      {"/venv/lib/python3.11/site-packages/torch/lib/libtorch_cuda.so", ModuleClass::kPackage},
      {"/venv/lib/python3.11/site-packages/nvidia/cublas/lib/libcublasLt.so.13", ModuleClass::kCudaLibrary},
      {"/venv/lib/python3.11/site-packages/nvidia/cu13/lib/libcudart.so.13", ModuleClass::kCudaRuntime},
      {"/usr/lib/x86_64-linux-gnu/libcuda.so.1", ModuleClass::kCudaRuntime},
      {"/usr/lib/x86_64-linux-gnu/libc.so.6", ModuleClass::kSystem},
      {"/lib64/ld-linux-x86-64.so.2", ModuleClass::kSystem},
      {"[vdso]", ModuleClass::kSystem},
      {"/opt/cuheap/lib/libcuheap_preload.so", ModuleClass::kCuheap},
  };
  for (const auto& [path, expected] : cases) EXPECT_EQ(ClassifyModule(path), expected) << path;
}

class LineTableTest : public testing::Test {
 protected:
  // The description of the line of a stack given innermost first as (module, file, line, function).
  struct Sketch {
    const char *module, *file;
    std::uint32_t line;
    const char* function;
  };
  std::uint32_t Stack(const std::vector<Sketch>& sketches) {
    std::vector<std::uint32_t> frames;
    for (const Sketch& sketch : sketches) {
      const std::uint32_t module = sketch.module[0] == '\0' ? 0 : program_.AddModule(sketch.module);
      frames.push_back(program_.AddFrame(sketch.file, sketch.line, sketch.function, module));
    }
    return program_.AddStack(frames);
  }
  std::string LineOf(std::uint32_t stack, const LineRule& rule = {}) {
    const Snapshot snapshot = program_.Snapshot();
    const LineTable table(snapshot, rule);
    return Describe(table.line(table.OfStack(stack)));
  }
  static constexpr Sketch kRuntime{"/usr/local/cuda/lib64/libcudart.so.13", "", 0, "cudaMalloc"};
  static constexpr Sketch kMain{"/opt/me/train", "/opt/me/main.cc", 9, "main"};

  SyntheticProgram program_;
};

TEST_F(LineTableTest, InnermostUserLineWins) {
  EXPECT_EQ(LineOf(Stack({kRuntime, {"/opt/me/train", "/opt/me/a.cc", 3, "A"}, kMain})), "/opt/me/a.cc:3");
}

TEST_F(LineTableTest, SystemSourcesInTheUsersModuleAreSteppedOver) {
  EXPECT_EQ(
      LineOf(Stack({kRuntime,
                    {"/opt/me/train", "/usr/include/c++/12/bits/stl_construct.h", 119, "std::construct_at"},
                    {"/opt/me/train", "/usr/local/cuda/targets/x86_64-linux/include/thrust/detail/x.h", 7, "thrust::x"},
                    {"/opt/me/train", "/opt/me/a.cc", 3, "A"},
                    kMain})),
      "/opt/me/a.cc:3");
}

TEST_F(LineTableTest, AStaticRuntimeIsNotTheUser) {
  EXPECT_EQ(LineOf(Stack({{"/opt/me/train", "", 0, "cudart::cudaApiMalloc"},
                          {"/opt/me/train", "", 0, "cudaMalloc"},
                          {"/opt/me/train", "", 0, "Allocate(int)"},
                          kRuntime})),
            "Allocate(int) in train");
}

TEST_F(LineTableTest, ALineFartherOutIsBetterThanANameWithoutLine) {
  EXPECT_EQ(LineOf(Stack({kRuntime, {"/opt/me/libx.so", "", 0, "NoDebugInfo"}, kMain})), "/opt/me/main.cc:9");
}

TEST_F(LineTableTest, WithoutNamesThereIsModuleAndOffset) {
  const std::string line = LineOf(Stack({kRuntime, {"/opt/me/stripped", "", 0, ""}}));
  EXPECT_TRUE(line.starts_with("stripped+0x")) << line;
}

TEST_F(LineTableTest, PackagesAndCudaLibrariesOnlyIfThereIsNoUser) {
  const Sketch torch{"/v/site-packages/torch/lib/libc10_cuda.so", "", 0, "c10::cuda::alloc"};
  const Sketch cublas{"/usr/local/cuda/lib64/libcublas.so.13", "", 0, "cublasCreate_v2"};
  EXPECT_EQ(LineOf(Stack({kRuntime, cublas, torch, kMain})), "/opt/me/main.cc:9");
  EXPECT_EQ(LineOf(Stack({kRuntime, cublas, torch})), "c10::cuda::alloc in libc10_cuda.so");
  EXPECT_EQ(LineOf(Stack({kRuntime, cublas})), "cublasCreate_v2 in libcublas.so.13");
  EXPECT_EQ(LineOf(Stack({kRuntime})), "(no stack)");
  EXPECT_EQ(LineOf(0), "(no stack)");
  EXPECT_EQ(LineOf(4711), "(no stack)");
}

TEST_F(LineTableTest, WorkspacesThatPyTorchGetsAreTheLibrarys) {
  const char* const torch = "/v/site-packages/torch/lib/libtorch_cuda.so";
  const Sketch allocator{torch, "", 0, "c10::cuda::CUDACachingAllocator::malloc(unsigned long)"};
  const Sketch lt{torch, "", 0, "at::cuda::blas::detail::CublasLtWorkspace::CublasLtWorkspace()"};
  const Sketch allocate{torch, "", 0, "at::cuda::allocateCUDABlasWorkspace(unsigned long)"};
  const Sketch handle{torch, "", 0, "at::cuda::getCurrentCUDABlasHandleWithWorkspace()"};
  const Sketch gemm{torch, "", 0, "at::_ops::linear::call(at::Tensor const&)"};
  const std::uint32_t blas = Stack({kRuntime, allocator, allocate, handle, gemm, kMain});
  EXPECT_EQ(LineOf(Stack({kRuntime, allocator, lt, gemm, kMain})), "cuBLASLt workspace in libtorch_cuda.so");
  EXPECT_EQ(LineOf(blas), "cuBLAS workspace in libtorch_cuda.so");
  EXPECT_EQ(LineOf(Stack({kRuntime, allocator, gemm, kMain})), "/opt/me/main.cc:9");
  const Snapshot snapshot = program_.Snapshot();
  const LineTable table(snapshot, {});
  EXPECT_EQ(table.LibraryOfStack(blas), "cuBLAS");
  EXPECT_EQ(Describe(table.line(table.CallerOfStack(blas))), "/opt/me/main.cc:9");
  // A function of the user's that is named alike is the user's.
  const Sketch user{"/opt/me/train", "/opt/me/w.cc", 5, "at::cuda::getNewWorkspace()"};
  EXPECT_EQ(LineOf(Stack({kRuntime, user, kMain})), "/opt/me/w.cc:5");
}

TEST_F(LineTableTest, PyTorchIsToldByWhatItWasAskedToDo) {
  const char* const torch = "/v/site-packages/torch/lib/libtorch_cpu.so";
  const Sketch allocator{torch, "", 0, "c10::cuda::CUDACachingAllocator::malloc(unsigned long)"};
  const Sketch inner{torch, "", 0, "at::_ops::addmm::call(at::Tensor const&)"};
  const Sketch outer{torch, "", 0, "at::_ops::linear::call(at::Tensor const&)"};
  const Sketch backward{torch, "", 0, "torch::autograd::generated::AddmmBackward0::apply(std::vector<at::Tensor>&&)"};
  const Sketch python{"/usr/bin/python3.11", "", 0, "_PyEval_EvalFrameDefault"};
  EXPECT_EQ(LineOf(Stack({kRuntime, allocator, inner, outer, python, backward})),
            "at::_ops::linear::call(at::Tensor const&) in libtorch_cpu.so");
  EXPECT_EQ(LineOf(Stack({kRuntime, allocator, inner, backward, outer})),
            "torch::autograd::generated::AddmmBackward0::apply(std::vector<at::Tensor>&&) in libtorch_cpu.so");
  EXPECT_EQ(LineOf(Stack({kRuntime, allocator, inner, outer, kMain})), "/opt/me/main.cc:9");
}

TEST_F(LineTableTest, WhatCallsCForPythonIsNotTheUserEvenWithLines) {
  const Sketch ctypes{"/opt/python/lib/python3.13/lib-dynload/_ctypes.cpython-313-x86_64-linux-gnu.so",
                      "/build/Modules/_ctypes/callproc.c", 923, "_call_function_pointer"};
  const Sketch ffi{"/opt/python/lib/libffi.so.8", "/build/src/x86/ffi64.c", 673, "ffi_call"};
  const Sketch loop{"/opt/python/bin/python3.13", "/build/Python/ceval.c", 813, "_PyEval_EvalFrameDefault"};
  EXPECT_EQ(LineOf(Stack({kRuntime, ffi, ctypes, loop, kMain})), "/opt/me/main.cc:9");
}

TEST_F(LineTableTest, IgnoredFramesGiveWayToTheirCallers) {
  const std::uint32_t stack = Stack({kRuntime, {"/opt/me/train", "/opt/me/buffer.h", 3, "my::Buffer::Buffer"}, kMain});
  EXPECT_EQ(LineOf(stack), "/opt/me/buffer.h:3");
  EXPECT_EQ(LineOf(stack, {{"my::Buffer"}}), "/opt/me/main.cc:9");
  EXPECT_EQ(LineOf(stack, {{"buffer.h"}}), "/opt/me/main.cc:9");
  EXPECT_EQ(LineOf(stack, {{"/opt/me"}}), "(no stack)");
}

TEST_F(LineTableTest, InstancesOfATemplateOnOneLineAreOneLine) {
  const std::uint32_t first = Stack({kRuntime, {"/opt/me/train", "/opt/me/t.h", 3, "F<int>"}, kMain});
  const std::uint32_t second = Stack({kRuntime, {"/opt/me/train", "/opt/me/t.h", 3, "F<char>"}, kMain});
  const Snapshot snapshot = program_.Snapshot();
  const LineTable table(snapshot, {});
  EXPECT_EQ(table.OfStack(first), table.OfStack(second));
}

TEST_F(LineTableTest, CallerIsTheNextLineOutwardAndNotTheSameLine) {
  const std::uint32_t stack =
      Stack({kRuntime,
             {"/opt/me/train", "/opt/me/b.h", 3, "Buffer::Buffer"},
             {"/opt/me/train", "/opt/me/b.h", 3, "Buffer::Buffer inlined"},
             {"/opt/me/train", "/usr/include/c++/12/bits/vector.tcc", 1, "std::vector::emplace_back"},
             {"/opt/me/train", "/opt/me/c.cc", 5, "C"},
             kMain});
  const Snapshot snapshot = program_.Snapshot();
  const LineTable table(snapshot, {});
  EXPECT_EQ(Describe(table.line(table.CallerOfStack(stack))), "/opt/me/c.cc:5");
  EXPECT_EQ(table.PositionInStack(stack), 1u);
  EXPECT_EQ(table.common_folder(), "/opt/me");
}

TEST_F(LineTableTest, TheLibraryIsWhoAskedFirst) {
  const Sketch cublas{"/usr/local/cuda/lib64/libcublas.so.13", "", 0, "cublasCreate_v2"};
  const std::uint32_t own = Stack({kRuntime, cublas, kMain}), user = Stack({kRuntime, kMain, cublas});
  const Snapshot snapshot = program_.Snapshot();
  const LineTable table(snapshot, {});
  EXPECT_EQ(table.LibraryOfStack(own), "libcublas.so.13");
  EXPECT_EQ(table.LibraryOfStack(user), "");
}

TEST_F(LineTableTest, PythonLinesOfTheUserWin) {
  Snapshot& raw = program_.raw();
  const std::uint32_t library = program_.AddFrame("/usr/lib/python3.11/contextlib.py", 5, "inner", 0);
  const std::uint32_t torch =
      program_.AddFrame("/v/lib/python3.11/site-packages/torch/nn/modules/linear.py", 6, "forward", 0);
  const std::uint32_t script = program_.AddFrame("/opt/me/train.py", 7, "step", 0);
  for (const std::uint32_t frame : {library, torch, script}) raw.frames[frame].kind = FrameKind::kPython;
  EXPECT_EQ(LineOf(program_.AddStack({library, torch, script})), "/opt/me/train.py:7");
  EXPECT_EQ(LineOf(program_.AddStack({library, torch})),
            "/v/lib/python3.11/site-packages/torch/nn/modules/linear.py:6");
}

}  // namespace
}  // namespace cuheap::analysis
