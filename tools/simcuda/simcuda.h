/* What tests and the simulated libraries may ask of the simulated libcuda.so.1 beside the documented driver API.
 *
 * Nothing here is part of CUDA and no interposer hooks it. A program that links to, or opens, the simulated library
 * gets the functions by name, or all of them in one table by simcuda_get_table(), so that one dlsym() is enough:
 *
 *   const SimcudaTable* (*get)(unsigned) = dlsym(handle, "simcuda_get_table");
 *   const SimcudaTable* sim = get ? get(SIMCUDA_TABLE_VERSION) : NULL;    // NULL: not the simulated driver
 *
 * All functions may be called from any thread, but not from a kernel or a host function, except simcuda_host_view().
 */
#ifndef CUHEAP_TOOLS_SIMCUDA_SIMCUDA_H_
#define CUHEAP_TOOLS_SIMCUDA_SIMCUDA_H_

#include <cuda.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SIMCUDA_TABLE_VERSION 1u

/* One launch, as a registered kernel sees it when it runs. */
typedef struct SimcudaLaunch {
  const char* name;
  unsigned int grid[3];
  unsigned int block[3];
  unsigned int shared_bytes;
  unsigned int parameter_count;
  /* One pointer a parameter, to the bytes copied at the launch. */
  const void* const* parameters;
  void* user_data; /* of simcuda_launch_hidden; NULL for launches through the driver API */
} SimcudaLaunch;

/* Runs on any thread, under the driver's lock: it must not call CUDA nor wait for another thread.
 * Returns: 0 when the kernel is done; anything else to be called again later (it waits for a value in memory). */
typedef int (*SimcudaKernelFunction)(const SimcudaLaunch* launch);

/* Makes launches of kernels called `name` (exactly, as given to cuModuleGetFunction) run `function`.
 *
 * parameter_bytes: the size of each of the parameter_count parameters, which are copied from kernelParams at the
 * launch. A later registration of the name replaces it; launches already queued keep the old one.
 *
 * Registered from the start (all sizes in bytes; pointers are CUdeviceptr, 8 bytes; counts are uint64_t, 8 bytes):
 *   simcuda_fill      (pointer to, uint64_t count, uint32_t value)               to[i] = value, count 4-byte words
 *   simcuda_add       (pointer to, pointer a, pointer b, uint64_t count)         to[i] = a[i] + b[i], 4-byte words
 *   simcuda_copy      (pointer to, pointer from, uint64_t bytes)
 *   simcuda_checksum  (pointer result, pointer from, uint64_t bytes)             *result = FNV-1a, 64 bits
 *   simcuda_scale_add (pointer x, uint64_t count, uint32_t a, uint32_t b)        x[i] = x[i] * a + b: orders do not
 * commute simcuda_spin      (pointer flag, uint32_t value)                             runs until *flag (4 bytes) ==
 * value An address that is not mapped, or not of the device or host memory known to the driver, is the documented
 * CUDA_ERROR_ILLEGAL_ADDRESS, which the context keeps.
 *
 * Returns: CUDA_ERROR_INVALID_VALUE for null arguments. */
CUresult simcuda_register_kernel(const char* name, SimcudaKernelFunction function, unsigned int parameter_count,
                                 const size_t* parameter_bytes);

/* Queues work that no driver call announces, as the vendor's libraries do through their private tables: `function` runs
 * in stream order in `stream` (0: the legacy default stream of the current context).
 *
 * user_data: passed on; must stay valid until the work has run.
 * Errors: as cuLaunchKernel. */
CUresult simcuda_launch_hidden(CUstream stream, SimcudaKernelFunction function, void* user_data);

/* Where the bytes of [address, address + bytes) can be read and written while a kernel runs; NULL when the range is not
 * mapped. Works inside kernels. */
void* simcuda_host_view(CUdeviceptr address, size_t bytes);

/* Marks the current context lost, from inside a kernel: every later call of the context answers `code`. */
void simcuda_fail_context(CUresult code);

/* The nth call (from 1, counted from now) of the exported function `name` fails with `code` and is not carried out. The
 * per-thread variants count as the same function. sticky: the current context is lost with it. */
CUresult simcuda_inject(const char* name, uint64_t nth, CUresult code, int sticky);

/* Forgets all injected faults, those of SIMCUDA_FAULT included. */
void simcuda_clear_faults(void);

/* Declares a __device__ or __managed__ variable that cuModuleGetGlobal, cuLibraryGetGlobal and cuLibraryGetManaged will
 * find in any image: sizes are not read from images. The simulated runtime calls it for __cudaRegisterVar. */
CUresult simcuda_declare_variable(const char* name, size_t bytes, int managed);

/* How many pieces of queued work have not run yet, in the whole process. */
size_t simcuda_pending_work(void);

typedef struct SimcudaTable {
  size_t size; /* of the table in bytes: later versions only append */
  CUresult (*register_kernel)(const char*, SimcudaKernelFunction, unsigned int, const size_t*);
  CUresult (*launch_hidden)(CUstream, SimcudaKernelFunction, void*);
  void* (*host_view)(CUdeviceptr, size_t);
  void (*fail_context)(CUresult);
  CUresult (*inject)(const char*, uint64_t, CUresult, int);
  void (*clear_faults)(void);
  CUresult (*declare_variable)(const char*, size_t, int);
  size_t (*pending_work)(void);
} SimcudaTable;

/* Returns: NULL for a version that this library does not have. */
const SimcudaTable* simcuda_get_table(unsigned int version);

#ifdef __cplusplus
}
#endif
#endif /* CUHEAP_TOOLS_SIMCUDA_SIMCUDA_H_ */
