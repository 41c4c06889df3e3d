#include "analysis/process_state.h"

#include <unistd.h>

#include <cinttypes>
#include <cstdio>
#include <fstream>
#include <sstream>

namespace cuheap::analysis {
namespace {

// State letter and start ticks of a process; false if there is none.
bool ReadStat(std::uint64_t pid, char& state, std::uint64_t& start_ticks) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  if (!std::getline(file, line)) return false;
  // The name in parentheses may hold spaces and parentheses: fields are counted from the last one.
  const std::size_t name_end = line.rfind(')');
  if (name_end == std::string::npos) return false;
  std::istringstream fields(line.substr(name_end + 1));
  std::string skipped;
  if (!(fields >> state)) return false;
  for (int field = 4; field < 22; ++field) fields >> skipped;
  return static_cast<bool>(fields >> start_ticks);
}

enum class Mapped { kYes, kNo, kUnknown };

Mapped IsMapped(const JournalWriter& writer) {
  if (writer.inode == 0) return Mapped::kUnknown;
  std::ifstream file("/proc/" + std::to_string(writer.pid) + "/maps");
  std::string line;
  bool any = false;
  while (std::getline(file, line)) {
    any = true;
    unsigned major_number = 0, minor_number = 0;
    std::uint64_t inode = 0;
    if (std::sscanf(line.c_str(), "%*s %*s %*s %x:%x %" SCNu64, &major_number, &minor_number, &inode) != 3) continue;
    // Some file systems show another device number here than to stat, so the inode decides.
    if (inode == writer.inode) return Mapped::kYes;
  }
  return any ? Mapped::kNo : Mapped::kUnknown;
}

}  // namespace

WriterState StateOf(const JournalWriter& writer) {
  char host[256] = {};
  if (gethostname(host, sizeof(host) - 1) == 0 && !writer.host.empty() &&
      std::string(host).substr(0, writer.host.size()) != writer.host) {
    return WriterState::kElsewhere;
  }
  char state = 0;
  std::uint64_t start_ticks = 0;
  if (!ReadStat(writer.pid, state, start_ticks) || start_ticks != writer.start_ticks) return WriterState::kGone;
  if (state == 'Z' || state == 'X') return WriterState::kGone;  // killed, not yet waited for
  return IsMapped(writer) == Mapped::kNo ? WriterState::kExecuted : WriterState::kRuns;
}

}  // namespace cuheap::analysis
