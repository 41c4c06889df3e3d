# Third-party code comes from packages; tools/deps installs them (its table says why each is needed). Nothing is
# downloaded by CMake.
include_guard(GLOBAL)
include(CuheapCache)
include(CuheapPython)

find_package(absl REQUIRED)
include(CuheapStaticAbsl)
cuheap_use_static_absl()
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
find_package(simdjson REQUIRED)
if(CUHEAP_BUILD_TESTS)
  find_package(GTest REQUIRED)
endif()
if(CUHEAP_BUILD_BENCH)
  find_package(benchmark REQUIRED)
endif()

include(CuheapCudaHeaders)
include(CuheapLibunwind)
