// Runs random legal programs and prints what each one printed.
//
//   random_program FIRST LAST [--print] [--stream-ordered]     seeds FIRST..LAST, one after the other in this process
//
// Its output depends on the seeds alone (program.h), so any two runs of the same seeds must print the same.
#include <cstdlib>
#include <cstring>
#include <iostream>

#include "tests/campaigns/execute.h"
#include "tests/campaigns/program.h"

int main(int argc, char** argv) {
  if (argc < 3) {
    std::cerr << "usage: random_program FIRST LAST [--print] [--stream-ordered]\n";
    return 2;
  }
  const std::uint64_t first = std::strtoull(argv[1], nullptr, 10);
  const std::uint64_t last = std::strtoull(argv[2], nullptr, 10);
  bool print = false;
  cuheap::campaigns::GenerateOptions options;
  for (int i = 3; i < argc; ++i) {
    print |= std::strcmp(argv[i], "--print") == 0;
    options.stream_ordered |= std::strcmp(argv[i], "--stream-ordered") == 0;
  }
  for (std::uint64_t seed = first; seed <= last; ++seed) {
    const cuheap::campaigns::Program program = cuheap::campaigns::Generate(seed, options);
    if (print) cuheap::campaigns::Print(program, std::cout);
    std::cout << "seed " << seed << '\n' << cuheap::campaigns::Execute(program) << std::flush;
  }
  return 0;
}
