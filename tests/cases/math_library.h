// A library that keeps workspaces of its own, as cuBLAS does; its file is named like one of those.
#ifndef CUHEAP_TESTS_CASES_MATH_LIBRARY_H_
#define CUHEAP_TESTS_CASES_MATH_LIBRARY_H_

// Makes a handle, with a workspace of 8 MiB and 128 KiB that stays until the process ends. 0: it could not.
extern "C" void* MathLibraryCreate();

#endif  // CUHEAP_TESTS_CASES_MATH_LIBRARY_H_
