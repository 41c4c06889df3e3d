# CUHEAP_PYTHON: the interpreter for scripts and tests. The private environment of tools/deps comes first, since only
# there jsonschema is certain.
include_guard(GLOBAL)
include(CuheapCache)

if(EXISTS "${CUHEAP_CACHE_DIR}/python/bin/python")
  set(CUHEAP_PYTHON "${CUHEAP_CACHE_DIR}/python/bin/python" CACHE FILEPATH "Python for scripts and tests")
else()
  find_program(CUHEAP_PYTHON NAMES python3 REQUIRED)
endif()

# A sanitized preload library only works if the sanitizer's runtime is preloaded before it: tests that preload it find the
# runtime in CUHEAP_TEST_PRELOAD_FIRST.
set(CUHEAP_PRELOAD_FIRST)
foreach(name IN ITEMS address thread)
  string(SUBSTRING "${name}" 0 1 letter)  # libasan, libtsan
  if(CUHEAP_SANITIZE MATCHES "${name}")
    execute_process(COMMAND "${CMAKE_CXX_COMPILER}" "-print-file-name=lib${letter}san.so"
      OUTPUT_VARIABLE CUHEAP_PRELOAD_FIRST OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  endif()
endforeach()

# cuheap_py_test(NAME layers_test SCRIPT layers_test.py ARGS ... LABELS unit): a script that exits 0 on success and 77
# when it can't run here (it prints why).
function(cuheap_py_test)
  cmake_parse_arguments(ARG "" "NAME;SCRIPT;TIMEOUT" "ARGS;LABELS;ENVIRONMENT" ${ARGN})
  cmake_path(ABSOLUTE_PATH ARG_SCRIPT BASE_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}")
  add_test(NAME ${ARG_NAME} COMMAND "${CUHEAP_PYTHON}" -B "${ARG_SCRIPT}" ${ARG_ARGS})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  if(CUHEAP_PRELOAD_FIRST)
    list(APPEND ARG_ENVIRONMENT "CUHEAP_TEST_PRELOAD_FIRST=${CUHEAP_PRELOAD_FIRST}")
  endif()
  set_tests_properties(${ARG_NAME} PROPERTIES TIMEOUT ${ARG_TIMEOUT} SKIP_RETURN_CODE 77
    LABELS "${ARG_LABELS}" ENVIRONMENT "${ARG_ENVIRONMENT}")
endfunction()
