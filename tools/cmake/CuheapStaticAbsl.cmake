# Makes the imported absl:: targets stand for Abseil's archives. Debian's package describes its shared libraries (about
# forty); what we install must run on machines without them, and must not mix with another copy in the same process.
# The archives are not position independent: good for executables and their archives, never for a shared library
# (allocator/ and interpose/ use none of them).
include_guard(GLOBAL)

function(cuheap_use_static_absl)
  get_property(imported DIRECTORY PROPERTY IMPORTED_TARGETS)
  list(FILTER imported INCLUDE REGEX "^absl::")
  foreach(target IN LISTS imported)
    get_target_property(type ${target} TYPE)
    if(NOT type STREQUAL "SHARED_LIBRARY")
      continue()
    endif()
    get_target_property(configurations ${target} IMPORTED_CONFIGURATIONS)
    foreach(configuration IN LISTS configurations)
      get_target_property(shared ${target} IMPORTED_LOCATION_${configuration})
      string(REGEX REPLACE "\\.so[0-9.]*$" ".a" archive "${shared}")
      if(EXISTS "${archive}")
        set_target_properties(${target} PROPERTIES IMPORTED_LOCATION_${configuration} "${archive}")
      else()
        message(WARNING "${target}: no archive ${archive}; installed programs will need the shared library")
      endif()
    endforeach()
  endforeach()
endfunction()
