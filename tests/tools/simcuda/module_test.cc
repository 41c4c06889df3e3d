// Modules, libraries, kernels, launches, test kernels.
#include <dlfcn.h>

#include <cstring>
#include <set>
#include <string>

#include "tests/tools/simcuda/simulated.h"

namespace cuheap::testing {
namespace {

TEST(ModuleTest, AnyImageLoadsAnyNameIsFoundAndHandlesAreTheirOwn) {
  Simulate({}, [] {
    UseDevice();
    std::set<void*> handles;
    for (int i = 0; i < 3; ++i) {
      CUmodule module = nullptr;
      CUfunction one = nullptr, two = nullptr, again = nullptr;
      EXPECT_CUDA(cuModuleLoadData(&module, "anything"));
      EXPECT_CUDA(cuModuleGetFunction(&one, module, "one"));
      EXPECT_CUDA(cuModuleGetFunction(&two, module, "two"));
      EXPECT_CUDA(cuModuleGetFunction(&again, module, "one"));
      EXPECT_EQ(one, again);
      EXPECT_TRUE(handles.insert(module).second);
      EXPECT_TRUE(handles.insert(one).second);
      EXPECT_TRUE(handles.insert(two).second);
      EXPECT_CUDA(cuModuleUnload(module));
      EXPECT_EQ(cuModuleGetFunction(&one, module, "one"), CUDA_ERROR_INVALID_HANDLE);
      EXPECT_EQ(cuLaunchKernel(one, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr), CUDA_ERROR_INVALID_HANDLE);
    }
  });
}

TEST(ModuleTest, LibrariesGiveOneKernelAndAFunctionForEachContext) {
  Simulate({}, [] {
    UseDevice();
    CUlibrary library = nullptr, owner = nullptr;
    CUkernel kernel = nullptr, again = nullptr;
    CUfunction first = nullptr, second = nullptr;
    const char* name = nullptr;
    EXPECT_CUDA(cuLibraryLoadData(&library, "code", nullptr, nullptr, 0, nullptr, nullptr, 0));
    EXPECT_CUDA(cuLibraryGetKernel(&kernel, library, "simcuda_fill"));
    EXPECT_CUDA(cuLibraryGetKernel(&again, library, "simcuda_fill"));
    EXPECT_EQ(kernel, again);
    EXPECT_CUDA(cuKernelGetLibrary(&owner, kernel));
    EXPECT_EQ(owner, library);
    EXPECT_CUDA(cuKernelGetFunction(&first, kernel));
    EXPECT_CUDA(cuFuncGetName(&name, first));
    EXPECT_STREQ(name, "simcuda_fill");
    // The runtime launches the kernel handle itself.
    CUdeviceptr block = Allocate(16);
    uint64_t count = 4;
    uint32_t value = 77, read = 0;
    void* parameters[] = {&block, &count, &value};
    EXPECT_CUDA(
        cuLaunchKernel(reinterpret_cast<CUfunction>(kernel), 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr));
    value = 78;  // copied at the launch
    EXPECT_CUDA(cuMemcpyDtoH(&read, block, 4));
    EXPECT_EQ(read, 77u);
    CUcontext other = nullptr;
    EXPECT_CUDA(cuCtxCreate(&other, nullptr, 0, 0));
    EXPECT_CUDA(cuKernelGetFunction(&second, kernel));
    EXPECT_NE(first, second);
    EXPECT_CUDA(cuCtxDestroy(other));
    EXPECT_CUDA(cuLibraryUnload(library));
    EXPECT_EQ(cuKernelGetFunction(&second, kernel), CUDA_ERROR_INVALID_HANDLE);
  });
}

TEST(ModuleTest, ParametersFromAPackedBuffer) {
  Simulate({}, [] {
    UseDevice();
    struct Packed {
      CUdeviceptr to;
      uint64_t count;
      uint32_t value;
    } packed{Allocate(16), 4, 5};
    size_t size = sizeof packed;
    void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};
    EXPECT_CUDA(cuLaunchKernel(FindFunction("simcuda_fill"), 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, extra));
    uint32_t read = 0;
    EXPECT_CUDA(cuMemcpyDtoH(&read, packed.to + 12, 4));
    EXPECT_EQ(read, 5u);
    EXPECT_EQ(cuLaunchKernel(FindFunction("simcuda_fill"), 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr),
              CUDA_ERROR_INVALID_VALUE);
  });
}

TEST(ModuleTest, ImpossibleLaunchesAreRefused) {
  Simulate({}, [] {
    UseDevice();
    const CUfunction function = FindFunction("nothing");
    const auto launch = [&](unsigned grid_x, unsigned grid_y, unsigned block_x, unsigned block_y, unsigned shared) {
      return cuLaunchKernel(function, grid_x, grid_y, 1, block_x, block_y, 1, shared, nullptr, nullptr, nullptr);
    };
    EXPECT_CUDA(launch(1 << 30, 1, 1024, 1, 0));
    EXPECT_EQ(launch(0, 1, 1, 1, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(launch(1, 65536, 1, 1, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(launch(1, 1, 1024, 2, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(launch(1, 1, 1, 1, 50000), CUDA_ERROR_INVALID_VALUE);
    EXPECT_CUDA(cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 100000));
    EXPECT_CUDA(launch(1, 1, 1, 1, 50000));
    EXPECT_EQ(cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 300000),
              CUDA_ERROR_INVALID_VALUE);
  });
}

TEST(ModuleTest, PtxVersionIsTheNewestThatTheDeviceRuns) {
  const auto version_on = [](const char* model, const char* architectures, int expected) {
    Environment environment{{"SIMCUDA_MODEL", model}};
    if (architectures != nullptr) environment["SIMCUDA_ARCHITECTURES"] = architectures;
    Simulate(environment, [expected] {
      UseDevice();
      int version = 0;
      EXPECT_CUDA(cuFuncGetAttribute(&version, CU_FUNC_ATTRIBUTE_PTX_VERSION, FindFunction("any")));
      EXPECT_EQ(version, expected);
    });
  };
  version_on("rtx4090", nullptr, 86);
  version_on("h100", nullptr, 90);
  version_on("t4", nullptr, 75);
  version_on("h100", "70,80", 80);
}

TEST(ModuleTest, VariablesAreThoseThatWereDeclared) {
  Simulate({}, [] {
    UseDevice();
    const size_t before = FreeBytes();
    CUlibrary library = nullptr;
    CUdeviceptr address = 0, again = 0;
    size_t bytes = 0;
    EXPECT_CUDA(cuLibraryLoadData(&library, "code", nullptr, nullptr, 0, nullptr, nullptr, 0));
    EXPECT_EQ(cuLibraryGetGlobal(&address, &bytes, library, "table"), CUDA_ERROR_NOT_FOUND);
    EXPECT_CUDA(simcuda_declare_variable("table", 3 << 20, 0));
    EXPECT_CUDA(simcuda_declare_variable("shared", 64, 1));
    EXPECT_CUDA(cuLibraryGetGlobal(&address, &bytes, library, "table"));
    EXPECT_CUDA(cuLibraryGetGlobal(&again, nullptr, library, "table"));
    EXPECT_EQ(address, again);
    EXPECT_EQ(bytes, size_t{3} << 20);
    EXPECT_EQ(before - FreeBytes(), size_t{4} << 20);
    EXPECT_EQ(cuMemFree(address), CUDA_ERROR_INVALID_VALUE);
    EXPECT_CUDA(cuLibraryGetManaged(&address, nullptr, library, "shared"));
    int managed = 0;
    EXPECT_CUDA(cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, address));
    EXPECT_EQ(managed, 1);
    EXPECT_CUDA(cuLibraryUnload(library));
    EXPECT_EQ(FreeBytes(), before);
  });
}

TEST(ModuleTest, OwnKernelsReplaceNothing) {
  Simulate({}, [] {
    UseDevice();
    const size_t bytes[] = {sizeof(CUdeviceptr), sizeof(char)};
    EXPECT_CUDA(simcuda_register_kernel(
        "own",
        [](const SimcudaLaunch* launch) {
          CUdeviceptr address = 0;
          std::memcpy(&address, launch->parameters[0], sizeof address);
          auto* text = static_cast<char*>(simcuda_host_view(address, 4));
          text[0] = static_cast<char>('0' + launch->grid[0]);
          text[1] = *static_cast<const char*>(launch->parameters[1]);
          return 0;
        },
        2, bytes));
    const CUdeviceptr block = Allocate(4);
    char read[4] = {};
    EXPECT_CUDA(Launch(nullptr, "own", block, 'x'));
    EXPECT_CUDA(cuMemcpyDtoH(read, block, 2));
    EXPECT_STREQ(read, "1x");
    EXPECT_EQ(simcuda_host_view(block, 5), nullptr);
    EXPECT_EQ(simcuda_register_kernel(nullptr, nullptr, 0, nullptr), CUDA_ERROR_INVALID_VALUE);
  });
}

TEST(ModuleTest, TheTableHasEverything) {
  auto* get = reinterpret_cast<const SimcudaTable* (*)(unsigned)>(dlsym(RTLD_DEFAULT, "simcuda_get_table"));
  ASSERT_NE(get, nullptr);
  const SimcudaTable* table = get(SIMCUDA_TABLE_VERSION);
  ASSERT_NE(table, nullptr);
  EXPECT_EQ(table->size, sizeof(SimcudaTable));
  EXPECT_EQ(table->launch_hidden, &simcuda_launch_hidden);
  EXPECT_EQ(table->pending_work, &simcuda_pending_work);
  EXPECT_EQ(get(99), nullptr);
}

TEST(ModuleTest, OccupancyFollowsTheDevice) {
  Simulate({{"SIMCUDA_MODEL", "h100"}}, [] {
    UseDevice();
    int blocks = 0, grid = 0, size = 0;
    const CUfunction function = FindFunction("any");
    EXPECT_CUDA(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, function, 256, 0));
    EXPECT_EQ(blocks, 8);
    EXPECT_CUDA(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, function, 256, 100000));
    EXPECT_EQ(blocks, 2);
    EXPECT_CUDA(cuOccupancyMaxPotentialBlockSize(&grid, &size, function, nullptr, 0, 0));
    EXPECT_EQ(size, 1024);
    EXPECT_EQ(grid, 2 * 132);
  });
}

}  // namespace
}  // namespace cuheap::testing
