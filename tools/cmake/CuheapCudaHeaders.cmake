# cuheap::cuda_headers: cuda.h and its companions, CUDA 13 or later, from a toolkit or from where tools/deps unpacked
# them. Headers only: nothing of CUDA is linked. tools/deps looks at the same places in the same order.
#
# cuheap::cublas_headers exists only where cublas_v2.h was found too (a toolkit, or the PyTorch wheel's companions in
# the private Python environment); test with if(TARGET cuheap::cublas_headers).
include_guard(GLOBAL)
include(CuheapCache)

function(cuheap_cuda_version header variable)
  set(version 0)
  if(EXISTS "${header}")
    file(STRINGS "${header}" line REGEX "^#define CUDA_VERSION +[0-9]+" LIMIT_COUNT 1)
    string(REGEX MATCH "[0-9]+" version "${line}")
  endif()
  set(${variable} "${version}" PARENT_SCOPE)
endfunction()

if(NOT CUHEAP_CUDA_INCLUDE_DIR)
  foreach(folder IN ITEMS "$ENV{CUDA_HOME}/include" "${CUHEAP_CACHE_DIR}/deps/cuda/include" /usr/local/cuda/include
      /usr/include)
    cuheap_cuda_version("${folder}/cuda.h" version)
    if(version GREATER_EQUAL 13000 AND EXISTS "${folder}/crt/host_runtime.h" AND EXISTS "${folder}/cudaProfiler.h")
      set(CUHEAP_CUDA_INCLUDE_DIR "${folder}" CACHE PATH "Folder with cuda.h, CUDA 13 or later")
      break()
    endif()
  endforeach()
  if(NOT CUHEAP_CUDA_INCLUDE_DIR)
    message(FATAL_ERROR "No CUDA 13 headers (cuda.h, crt/host_runtime.h) were found. Run tools/deps: it unpacks them "
      "without installing a toolkit. Elsewhere already? Set CUHEAP_CUDA_INCLUDE_DIR.")
  endif()
endif()

add_library(cuheap_cuda_headers INTERFACE)
add_library(cuheap::cuda_headers ALIAS cuheap_cuda_headers)
target_include_directories(cuheap_cuda_headers SYSTEM INTERFACE "$<BUILD_INTERFACE:${CUHEAP_CUDA_INCLUDE_DIR}>")
set_target_properties(cuheap_cuda_headers PROPERTIES EXPORT_NAME cuda_headers)

file(GLOB _cuheap_wheel_headers "${CUHEAP_CACHE_DIR}/python/lib/python3*/site-packages/nvidia/cu13/include")
find_path(CUHEAP_CUBLAS_INCLUDE_DIR cublas_v2.h
  HINTS "${CUHEAP_CUDA_INCLUDE_DIR}" ${_cuheap_wheel_headers} PATHS /usr/local/cuda/include)
if(CUHEAP_CUBLAS_INCLUDE_DIR)
  add_library(cuheap_cublas_headers INTERFACE)
  add_library(cuheap::cublas_headers ALIAS cuheap_cublas_headers)
  target_include_directories(cuheap_cublas_headers SYSTEM INTERFACE "${CUHEAP_CUBLAS_INCLUDE_DIR}")
  target_link_libraries(cuheap_cublas_headers INTERFACE cuheap_cuda_headers)
endif()
