// Shared by the entry points that allocate and free.
#pragma once

#include <cstdint>

#include "tools/simcuda/driver/context.h"
#include "tools/simcuda/driver/memory.h"

namespace simcuda {

// Memory::AllocateDevice; when the device is full, once more after the pools gave back what they only keep.
CUresult AllocateWithRetry(Context& context, size_t bytes, Kind kind, Block** block);

// SIMCUDA_FILL: fills memory that is handed out now, if it is set.
void FillNow(const Block& block);

// Frees the block that starts at `base` and whose kind fits, after waiting for its context's work (SIMCUDA_FREE_SYNC).
// Errors: INVALID_VALUE (no such block, an address inside one, freed already).
CUresult FreeBlock(uint64_t base, bool (*of_kind)(Kind));

}  // namespace simcuda
