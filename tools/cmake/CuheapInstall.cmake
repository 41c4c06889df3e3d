# What `cmake --install` puts where. The layout under the prefix is that of build/release, since the command finds the
# preload library and the simulated CUDA relative to itself:
#   bin/cuheap   lib/libcuheap_preload.so   lib/simcuda/   include/cuheap/allocator/...   lib/cmake/cuheap/
#   share/doc/cuheap/
include_guard(GLOBAL)
include(CMakePackageConfigHelpers)

if(TARGET cuheap)
  install(TARGETS cuheap RUNTIME DESTINATION bin COMPONENT runtime)
endif()
if(TARGET cuheap_preload)
  install(TARGETS cuheap_preload LIBRARY DESTINATION lib COMPONENT runtime)
endif()
# The simulated libraries with their links (libcuda.so.1, libcudart.so.13, ...), as they lie in the build folder.
install(DIRECTORY "${PROJECT_BINARY_DIR}/lib/simcuda" DESTINATION lib COMPONENT runtime OPTIONAL
  FILES_MATCHING PATTERN "lib*.so*" PATTERN "preload.list")
# The pages that help and manual page point to, as they lie in docs/; beside them what lies at the top of the tree.
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" "${PROJECT_SOURCE_DIR}/CHANGELOG.md"
  DESTINATION share/doc/cuheap COMPONENT runtime)
install(DIRECTORY "${PROJECT_SOURCE_DIR}/docs/" DESTINATION share/doc/cuheap COMPONENT runtime
  FILES_MATCHING PATTERN "*.md" PATTERN "*.json" PATTERN "*.cc")

get_property(public_targets GLOBAL PROPERTY CUHEAP_PUBLIC_TARGETS)
get_property(public_headers GLOBAL PROPERTY CUHEAP_PUBLIC_HEADERS)
foreach(header IN LISTS public_headers)
  cmake_path(GET header PARENT_PATH folder)
  install(FILES "${PROJECT_SOURCE_DIR}/${header}" DESTINATION "include/cuheap/${folder}" COMPONENT development)
endforeach()
install(TARGETS ${public_targets} cuheap_cuda_headers EXPORT cuheap
  ARCHIVE DESTINATION lib COMPONENT development)
install(EXPORT cuheap NAMESPACE cuheap:: FILE cuheapTargets.cmake DESTINATION lib/cmake/cuheap COMPONENT development)
configure_package_config_file("${PROJECT_SOURCE_DIR}/tools/cmake/cuheapConfig.cmake.in"
  "${PROJECT_BINARY_DIR}/cuheapConfig.cmake" INSTALL_DESTINATION lib/cmake/cuheap)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/cuheapConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/cuheapConfig.cmake" "${PROJECT_BINARY_DIR}/cuheapConfigVersion.cmake"
  DESTINATION lib/cmake/cuheap COMPONENT development)
