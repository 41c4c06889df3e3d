// What snapshot files are called.
//
// Note [Names of many processes]
// -o FILE names the main process's snapshot; others get their process id before the extension. -o with a folder (it
// exists, or the name ends in '/') or with %-words names every process by itself, so that torchrun, mpirun and srun
// leave one telling file for each rank, and several nodes may write into one shared folder: in a folder
// "rank03.HOST.PID.json" ("PROGRAM.HOST.PID.json" without a rank), no file of which is ever replaced.
#ifndef CUHEAP_TOOLS_CUHEAP_SNAPSHOT_NAME_H_
#define CUHEAP_TOOLS_CUHEAP_SNAPSHOT_NAME_H_

#include <cstdint>
#include <string>

#include "analysis/snapshot.h"

namespace cuheap::tools {

// %r rank ("pid4711" where no launcher told one), %h host, %p process id, %e program, %% a percent sign.
inline constexpr const char* kNameWords = "%r (rank), %h (host), %p (process id), %e (program) or %%";

// Every process's name follows from itself.
bool NamesEveryProcess(const std::string& output);
// Before anything is recorded: whether -o is a folder is decided here, and then it ends in '/'. Makes that folder, mode
// 0700. Returns what keeps a file from being written there, as far as can be told before; empty: nothing.
std::string PrepareOutput(std::string* output);

// output: from PrepareOutput(), and as NamesEveryProcess() has it. In a folder, never a file that is there already.
std::string NameFor(const std::string& output, const analysis::Snapshot& snapshot);

// "x.json", 4711 -> "x.4711.json"; "x" -> "x.4711".
std::string WithPid(const std::string& path, std::uint64_t pid);

// "cuheap.<program>.<pid>.json"; characters of the program's name that shells treat specially become '_'.
std::string DefaultName(const analysis::Snapshot& snapshot);

}  // namespace cuheap::tools

#endif  // CUHEAP_TOOLS_CUHEAP_SNAPSHOT_NAME_H_
