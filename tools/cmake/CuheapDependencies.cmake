# Third-party code comes from packages; tools/deps installs them. Nothing is downloaded by CMake.
include_guard(GLOBAL)
include(CuheapCache)

find_package(absl REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
find_package(simdjson REQUIRED)
if(CUHEAP_BUILD_TESTS)
  find_package(GTest REQUIRED)
endif()
if(CUHEAP_BUILD_BENCH)
  find_package(benchmark REQUIRED)
endif()

# cuda.h and its companions: a toolkit, or the headers of a PyPI package (tools/deps tells where it put them).
find_path(CUHEAP_CUDA_INCLUDE_DIR cuda.h
  HINTS "$ENV{CUDA_HOME}/include" "${CUHEAP_CACHE_DIR}/deps/cuda/include"
  PATHS /usr/local/cuda/include /usr/include
  REQUIRED)
add_library(cuheap_cuda_headers INTERFACE)
add_library(cuheap::cuda_headers ALIAS cuheap_cuda_headers)
target_include_directories(cuheap_cuda_headers SYSTEM INTERFACE "${CUHEAP_CUDA_INCLUDE_DIR}")

# The unwinder of the preload library, built by tools/deps.
include(CuheapLibunwind)
