// Fuzzes the command line: words, each ended by a newline. Whatever they are, the result is a command to execute, or a
// text and a status to leave with.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tools/cuheap/command_line.h"
#include "tools/cuheap/message.h"

namespace {

void Require(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::vector<std::string> words;
  std::string_view text(reinterpret_cast<const char*>(data), size);
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find('\n'));
    text.remove_prefix(word.size() == text.size() ? word.size() : word.size() + 1);
    words.emplace_back(word.substr(0, word.find('\0')));  // words of a command line end at a zero
  }
  const cuheap::tools::Command command = cuheap::tools::ParseCommandLine(words);
  if (const auto* done = std::get_if<cuheap::tools::Done>(&command)) {
    Require(!done->text.empty());
    Require(done->status == 0 || done->status == cuheap::tools::kUsageError);
  } else if (const auto* run = std::get_if<cuheap::tools::RunOptions>(&command)) {
    Require(!run->command.empty());
  } else if (const auto* report = std::get_if<cuheap::tools::ReportOptions>(&command)) {
    Require(!report->paths.empty());
  }
  for (const std::string& word : words) Require(!cuheap::tools::ShellQuoted(word).empty());
  return 0;
}
