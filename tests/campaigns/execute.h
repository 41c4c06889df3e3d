// Runs a random program on the driver API that the process is linked with.
#ifndef CUHEAP_TESTS_CAMPAIGNS_EXECUTE_H_
#define CUHEAP_TESTS_CAMPAIGNS_EXECUTE_H_

#include <string>

#include "tests/campaigns/program.h"

namespace cuheap::campaigns {

// Executes the program in a context of its own and returns what it printed: one line a result, threads in order.
// Calls that must succeed and don't are printed with their code, so that two runs differ there.
std::string Execute(const Program& program);

}  // namespace cuheap::campaigns

#endif  // CUHEAP_TESTS_CAMPAIGNS_EXECUTE_H_
