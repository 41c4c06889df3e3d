# Writes the preload library's version script: exactly the hooked names, the loader's that we answer, and our own.
# usage: cmake -DLIST=hooked_functions.inc -DOUTPUT=preload.map -P version_script.cmake
file(STRINGS "${LIST}" lines REGEX "^HOOK\\(")
set(text "{\n  global:\n    dlsym; dlvsym; dlclose;\n    cuheap_step;\n")
foreach(line IN LISTS lines)
  string(REGEX REPLACE "^HOOK\\(([A-Za-z0-9_]+),.*" "\\1" name "${line}")
  string(APPEND text "    ${name};\n")
endforeach()
string(APPEND text "  local:\n    *;\n};\n")
file(WRITE "${OUTPUT}" "${text}")
