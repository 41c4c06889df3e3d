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

# Archives first, so that an installed cuheap needs no more than it must.
find_library(CUHEAP_ZSTD_LIBRARY NAMES libzstd.a zstd REQUIRED)
find_path(CUHEAP_ZSTD_INCLUDE_DIR zstd.h REQUIRED)
add_library(cuheap_zstd INTERFACE)
add_library(cuheap::zstd ALIAS cuheap_zstd)
target_include_directories(cuheap_zstd SYSTEM INTERFACE "${CUHEAP_ZSTD_INCLUDE_DIR}")
target_link_libraries(cuheap_zstd INTERFACE "${CUHEAP_ZSTD_LIBRARY}")

find_library(CUHEAP_ZLIB_LIBRARY NAMES libz.a z REQUIRED)
find_path(CUHEAP_ZLIB_INCLUDE_DIR zlib.h REQUIRED)
add_library(cuheap_zlib INTERFACE)
add_library(cuheap::zlib ALIAS cuheap_zlib)
target_include_directories(cuheap_zlib SYSTEM INTERFACE "${CUHEAP_ZLIB_INCLUDE_DIR}")
target_link_libraries(cuheap_zlib INTERFACE "${CUHEAP_ZLIB_LIBRARY}")

# libdw stays shared: as an archive it needs five compression libraries more.
find_library(CUHEAP_DW_LIBRARY NAMES dw REQUIRED)
find_library(CUHEAP_ELF_LIBRARY NAMES elf REQUIRED)
find_path(CUHEAP_DW_INCLUDE_DIR elfutils/libdwfl.h REQUIRED)
add_library(cuheap_elfutils INTERFACE)
add_library(cuheap::elfutils ALIAS cuheap_elfutils)
target_include_directories(cuheap_elfutils SYSTEM INTERFACE "${CUHEAP_DW_INCLUDE_DIR}")
target_link_libraries(cuheap_elfutils INTERFACE "${CUHEAP_DW_LIBRARY}" "${CUHEAP_ELF_LIBRARY}")

if(CUHEAP_BUILD_TESTS)
  find_package(GTest REQUIRED)
endif()
if(CUHEAP_BUILD_BENCH)
  find_package(benchmark REQUIRED)
endif()

include(CuheapCudaHeaders)
