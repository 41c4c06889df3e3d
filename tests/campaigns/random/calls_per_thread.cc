#define CUDA_API_PER_THREAD_DEFAULT_STREAM
#include "tests/campaigns/random/calls.h"

namespace cuheap::campaigns {

const Calls kPerThreadCalls{
#include "tests/campaigns/random/calls.inc"
};

}  // namespace cuheap::campaigns
