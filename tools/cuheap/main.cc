// The command cuheap: see `cuheap --help`.
#include <cstdio>
#include <exception>
#include <string>
#include <variant>
#include <vector>

#include "tools/cuheap/command_line.h"
#include "tools/cuheap/commands.h"
#include "tools/cuheap/message.h"
#include "tools/cuheap/supervisor.h"

namespace cuheap::tools {
namespace {

int Execute(const Command& command) {
  if (const auto* run = std::get_if<RunOptions>(&command)) return Run(*run);
  if (const auto* report = std::get_if<ReportOptions>(&command)) return ReportOn(*report);
  if (const auto* exported = std::get_if<ExportOptions>(&command)) return Export(*exported);
  if (const auto* diff = std::get_if<DiffOptions>(&command)) return CompareSnapshots(*diff);
  if (const auto* recover = std::get_if<RecoverOptions>(&command)) return Recover(*recover);
  const Done& done = std::get<Done>(command);
  if (done.status == 0)
    std::fputs(done.text.c_str(), stdout);
  else
    SayLines(done.text);
  return done.status;
}

}  // namespace
}  // namespace cuheap::tools

int main(int argc, char** argv) {
  using cuheap::tools::Execute;
  using cuheap::tools::kUsageError;
  using cuheap::tools::ParseCommandLine;
  using cuheap::tools::Say;
  using cuheap::tools::SecureStandardDescriptors;
  SecureStandardDescriptors();
  try {
    return Execute(ParseCommandLine(std::vector<std::string>(argv + (argc > 0 ? 1 : 0), argv + argc)));
  } catch (const std::exception& error) {  // out of memory, most likely
    Say(std::string("cannot go on: ") + error.what());
    return kUsageError;
  }
}
