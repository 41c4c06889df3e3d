// Runs a random program on the driver API that the process is linked with.
#ifndef CUHEAP_TESTS_CAMPAIGNS_RANDOM_EXECUTE_H_
#define CUHEAP_TESTS_CAMPAIGNS_RANDOM_EXECUTE_H_

#include <string>

#include "tests/campaigns/random/program.h"

namespace cuheap::campaigns {

// Returns what the program printed: a line for each operation that printed something, "NUMBER TEXT". Calls that must
// succeed and don't are printed with their code, "NUMBER error CODE", so that two runs differ there.
std::string Execute(const Program& program);

}  // namespace cuheap::campaigns

#endif  // CUHEAP_TESTS_CAMPAIGNS_RANDOM_EXECUTE_H_
