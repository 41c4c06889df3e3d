# Where tools/deps puts what it unpacks: the same rule as in tools/deps.d/common.sh.
include_guard(GLOBAL)

if(DEFINED ENV{CUHEAP_CACHE} AND NOT "$ENV{CUHEAP_CACHE}" STREQUAL "")
  set(_cuheap_cache_default "$ENV{CUHEAP_CACHE}")
elseif(DEFINED ENV{XDG_CACHE_HOME} AND NOT "$ENV{XDG_CACHE_HOME}" STREQUAL "")
  set(_cuheap_cache_default "$ENV{XDG_CACHE_HOME}/cuheap")
else()
  set(_cuheap_cache_default "$ENV{HOME}/.cache/cuheap")
endif()
set(CUHEAP_CACHE_DIR "${_cuheap_cache_default}" CACHE PATH "Where tools/deps put the CUDA headers")
