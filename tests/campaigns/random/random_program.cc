// Runs random legal programs, each after the other in this process, and prints what each one printed.
//
//   random_program --profiles                                 their names, devices and memory of each
//   random_program PROFILE FIRST LAST [--print] [--apart]     the programs of seeds FIRST..LAST
//   random_program --replay FILE [--print]                    the programs in the file
//
// --print only prints the programs. --apart runs each in a process of its own. A program in a file may have lines cut
// out: what is not legal without them is left out, too.
// Output depends on the programs alone (program.h), so any two runs of the same ones must print the same.
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <exception>
#include <fstream>
#include <iostream>
#include <string>

#include "tests/campaigns/random/execute.h"
#include "tests/campaigns/random/generate.h"
#include "tests/campaigns/random/importer.h"
#include "tests/campaigns/random/model.h"
#include "tests/campaigns/random/program.h"

namespace {

using cuheap::campaigns::Program;

int Usage() {
  std::cerr << "usage: random_program --profiles | PROFILE FIRST LAST [--print] [--apart] | --replay FILE [--print]\n";
  return 2;
}

void Run(const Program& program, bool print) {
  if (print) {
    cuheap::campaigns::Print(program, std::cout);
    return;
  }
  std::cout << "seed " << program.seed << ' ' << program.ops.size() << " operations\n" << std::flush;
  std::cout << cuheap::campaigns::Execute(program) << "done\n" << std::flush;
}

// The same program in a process that has not used the driver yet. False if it could not be started.
bool RunApart(const char* profile, const std::string& seed) {
  char self[] = "/proc/self/exe";
  std::string arguments[] = {profile, seed, seed};
  char* argv[] = {self, arguments[0].data(), arguments[1].data(), arguments[2].data(), nullptr};
  pid_t child = 0;
  int status = 0;
  if (posix_spawn(&child, self, nullptr, nullptr, argv, environ) != 0) return false;
  if (waitpid(child, &status, 0) != child) return false;
  if (status != 0) std::cout << "ended with status " << status << '\n' << std::flush;
  return true;
}

int Replay(const char* file, bool print) {
  std::ifstream in(file);
  if (!in) {
    std::cerr << file << " can't be read\n";
    return 2;
  }
  for (const Program& program : cuheap::campaigns::Parse(in)) Run(cuheap::campaigns::LegalPart(program), print);
  return 0;
}

int Main(int argc, char** argv) {
  bool print = false, apart = false;
  for (int i = 3; i < argc; ++i) {
    print |= std::strcmp(argv[i], "--print") == 0;
    apart |= std::strcmp(argv[i], "--apart") == 0;
  }
  if (argc == 2 && std::strcmp(argv[1], "--profiles") == 0) {
    for (const auto& profile : cuheap::campaigns::Profiles()) {
      std::cout << profile.name << ' ' << profile.devices << ' ' << profile.memory << ' ' << profile.lost << '\n';
    }
    return 0;
  }
  if (argc == 2 && std::strcmp(argv[1], "--importer") == 0) return cuheap::campaigns::ServeImports();
  if (argc >= 3 && std::strcmp(argv[1], "--replay") == 0) return Replay(argv[2], print);
  const auto* profile = argc >= 4 ? cuheap::campaigns::FindProfile(argv[1]) : nullptr;
  if (profile == nullptr) return Usage();
  const std::uint64_t last = std::strtoull(argv[3], nullptr, 10);
  for (std::uint64_t seed = std::strtoull(argv[2], nullptr, 10); seed <= last; ++seed) {
    if (!apart) {
      Run(cuheap::campaigns::Generate(seed, *profile), print);
    } else if (!RunApart(argv[1], std::to_string(seed))) {
      return 2;
    }
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return Main(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 2;
  }
}
