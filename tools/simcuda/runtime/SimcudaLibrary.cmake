# simcuda_library_settings(TARGET NAME MAJOR MAP): TARGET becomes lib/simcuda/lib<NAME>.so.<MAJOR>, with that file name
# as its soname, exporting what the linker script MAP says and needing nothing beyond libc.
include_guard(GLOBAL)

# For every folder below tools/simcuda.
set(SIMCUDA_LIBRARY_DIR "${PROJECT_BINARY_DIR}/lib/simcuda" CACHE INTERNAL "Where the simulated libraries lie")

function(simcuda_library_settings target name major map)
  cuheap_target_settings(${target})
  target_compile_definitions(${target} PRIVATE SIMCUDART_MAJOR=${major})
  set_target_properties(${target} PROPERTIES
    OUTPUT_NAME ${name}
    SUFFIX ".so.${major}"
    LIBRARY_OUTPUT_DIRECTORY "${SIMCUDA_LIBRARY_DIR}"
    LINK_DEPENDS "${map}")
  target_link_options(${target} PRIVATE "LINKER:--version-script=${map}" "LINKER:--no-undefined")
  target_link_libraries(${target} PRIVATE ${CMAKE_DL_LIBS} Threads::Threads)
  if(NOT CUHEAP_SANITIZE)
    # Preloaded into any program, whatever its C++ library is. A sanitizer's runtime wants the shared one.
    target_link_options(${target} PRIVATE -static-libstdc++ -static-libgcc "LINKER:--exclude-libs,ALL")
  endif()
endfunction()
