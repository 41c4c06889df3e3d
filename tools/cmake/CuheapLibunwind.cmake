# cuheap::libunwind: the static, position-independent libunwind 1.6.2 that tools/deps builds. Distributions' own
# archives are not position independent, and a shared libunwind under LD_PRELOAD would replace the unwinder of the
# whole process; so nothing else is accepted, and a system libunwind is never picked up by accident.
#
# Users compile with UNW_LOCAL_ONLY (set here): libunwind.a alone has the local unwinder.
include_guard(GLOBAL)
include(CuheapCache)

set(CUHEAP_LIBUNWIND_DIR "${CUHEAP_CACHE_DIR}/deps/libunwind-1.6.2" CACHE PATH "Folder with include/ and lib/libunwind.a")

if(NOT EXISTS "${CUHEAP_LIBUNWIND_DIR}/lib/libunwind.a" OR NOT EXISTS "${CUHEAP_LIBUNWIND_DIR}/include/libunwind.h")
  message(FATAL_ERROR
    "libunwind 1.6.2 (static, position independent) is not in ${CUHEAP_LIBUNWIND_DIR}.\n"
    "Run tools/deps.d/libunwind (or tools/deps, which installs everything): it builds it in ten seconds from the "
    "distribution's source package. Elsewhere already? Set CUHEAP_LIBUNWIND_DIR.")
endif()

add_library(cuheap_libunwind STATIC IMPORTED GLOBAL)
add_library(cuheap::libunwind ALIAS cuheap_libunwind)
set_target_properties(cuheap_libunwind PROPERTIES
  IMPORTED_LOCATION "${CUHEAP_LIBUNWIND_DIR}/lib/libunwind.a"
  INTERFACE_INCLUDE_DIRECTORIES "${CUHEAP_LIBUNWIND_DIR}/include"
  INTERFACE_COMPILE_DEFINITIONS UNW_LOCAL_ONLY
  IMPORTED_LINK_INTERFACE_LANGUAGES C)
