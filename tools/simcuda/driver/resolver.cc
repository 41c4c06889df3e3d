// Driver Entry Point Access (Driver API reference 6.41): the table is generated from the toolkit's headers.
#include <algorithm>
#include <cstring>

#include "entry_points.h"
#include "tools/simcuda/driver/state.h"

namespace simcuda {
namespace {

struct ProcAddress {
  const char* name;  // without suffixes
  int version;       // the CUDA version that introduced this signature
  bool per_thread;   // a _ptsz or _ptds function
  const char* symbol;
  void* address;
};

// Sorted by name; for each name ascending by version, per-thread functions last.
const ProcAddress kTable[] = {
#include "proc_address.inc"
};

// The newest function of the name that `version` already had, among the per-thread ones or the others.
const ProcAddress* Newest(const ProcAddress* first, const ProcAddress* last, bool per_thread, int version) {
  const ProcAddress* found = nullptr;
  for (; first != last; ++first) {
    if (first->per_thread == per_thread && first->version <= version) found = first;
  }
  return found;
}

CUresult Resolve(const char* symbol, void** pfn, int version, cuuint64_t flags,
                 CUdriverProcAddressQueryResult* status) {
  constexpr cuuint64_t kKnown = CU_GET_PROC_ADDRESS_LEGACY_STREAM | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
  if (symbol == nullptr || pfn == nullptr || (flags & ~kKnown) != 0 || flags == kKnown) return CUDA_ERROR_INVALID_VALUE;
  *pfn = nullptr;
  if (version > State::Get().config.driver_version) return CUDA_ERROR_INVALID_VALUE;
  const auto by_name = [](const ProcAddress& entry, const char* name) { return std::strcmp(entry.name, name) < 0; };
  const ProcAddress* first = std::lower_bound(std::begin(kTable), std::end(kTable), symbol, by_name);
  const ProcAddress* last = first;
  bool has_per_thread = false;
  for (; last != std::end(kTable) && std::strcmp(last->name, symbol) == 0; ++last) has_per_thread |= last->per_thread;
  if (first == last) {
    if (status != nullptr) *status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    return CUDA_ERROR_NOT_FOUND;
  }
  // "If a per-thread version is not found, the legacy version": a name with per-thread functions is only looked for
  // among them, so an old version of it is not sufficient.
  const bool per_thread = (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0 && has_per_thread;
  const ProcAddress* found = Newest(first, last, per_thread, version);
  if (found == nullptr) {
    if (status != nullptr) *status = CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
    return CUDA_ERROR_NOT_FOUND;
  }
  *pfn = found->address;
  if (status != nullptr) *status = CU_GET_PROC_ADDRESS_SUCCESS;
  return CUDA_SUCCESS;
}

}  // namespace

CUresult impl::cuGetProcAddress(const char* symbol, void** pfn, int cudaVersion, cuuint64_t flags) {
  return Resolve(symbol, pfn, cudaVersion, flags, nullptr);
}

CUresult impl::cuGetProcAddress_v2(const char* symbol, void** pfn, int cudaVersion, cuuint64_t flags,
                                   CUdriverProcAddressQueryResult* symbolStatus) {
  return Resolve(symbol, pfn, cudaVersion, flags, symbolStatus);
}

}  // namespace simcuda
