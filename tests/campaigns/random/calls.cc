#include "tests/campaigns/random/calls.h"

namespace cuheap::campaigns {

const Calls kPlainCalls{
#include "tests/campaigns/random/calls.inc"
};

}  // namespace cuheap::campaigns
