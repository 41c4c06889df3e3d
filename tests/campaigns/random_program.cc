// Runs random legal programs and prints what each one printed.
//
//   random_program FIRST LAST [--print]     seeds FIRST..LAST, one after the other in this process
//
// Its output depends on the seeds alone (program.h), so any two runs of the same seeds must print the same.
#include <cstdlib>
#include <cstring>
#include <iostream>

#include "tests/campaigns/execute.h"
#include "tests/campaigns/program.h"

int main(int argc, char** argv) {
  if (argc < 3) {
    std::cerr << "usage: random_program FIRST LAST [--print]\n";
    return 2;
  }
  const std::uint64_t first = std::strtoull(argv[1], nullptr, 10);
  const std::uint64_t last = std::strtoull(argv[2], nullptr, 10);
  const bool print = argc > 3 && std::strcmp(argv[3], "--print") == 0;
  for (std::uint64_t seed = first; seed <= last; ++seed) {
    const cuheap::campaigns::Program program = cuheap::campaigns::Generate(seed, {});
    if (print) cuheap::campaigns::Print(program, std::cout);
    std::cout << "seed " << seed << '\n' << cuheap::campaigns::Execute(program) << std::flush;
  }
  return 0;
}
