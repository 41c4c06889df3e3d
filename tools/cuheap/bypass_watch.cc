#include "tools/cuheap/bypass_watch.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <system_error>

#include "tools/cuheap/install_layout.h"

namespace cuheap::tools {
namespace {

namespace fs = std::filesystem;

// More are not looked at: a build with make -j is no business of ours.
constexpr std::size_t kMaxProcesses = 512;
constexpr std::size_t kMaxFound = 64;

std::string ReadAll(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// The children of all its threads; none where the kernel does not tell (CONFIG_PROC_CHILDREN).
std::vector<pid_t> ChildrenOf(pid_t pid) {
  std::vector<pid_t> children;
  std::error_code error;
  fs::directory_iterator thread(fs::path("/proc") / std::to_string(pid) / "task", error);
  for (; !error && thread != fs::directory_iterator(); thread.increment(error)) {
    std::ifstream file(thread->path() / "children");
    for (pid_t child = 0; file >> child;) children.push_back(child);
  }
  return children;
}

// Another one after each exec, also of the same file: where its stack begins, which the kernel puts somewhere else.
std::string ImageOf(const fs::path& folder) {
  const std::string text = ReadAll(folder / "stat");
  const std::size_t name_end = text.rfind(')');  // the name before it may hold anything
  if (name_end == std::string::npos) return {};
  std::istringstream fields(text.substr(name_end + 1));
  constexpr int kStateField = 3, kStackField = 28;
  std::string field;
  for (int i = kStateField; i <= kStackField; ++i) fields >> field;
  return field;
}

}  // namespace

void BypassWatch::LookAt(pid_t pid) {
  const fs::path folder = fs::path("/proc") / std::to_string(pid);
  std::error_code error;
  const std::string program = fs::read_symlink(folder / "exe", error).string();
  if (error) return;  // ended, or not ours to look at
  Known& known = known_[pid];
  const std::string image = ImageOf(folder);
  if (known.image != image) known = {image, false};
  if (known.settled) return;
  const std::string maps = ReadAll(folder / "maps");
  // Ours comes first of all libraries, so a process that has it keeps it until its next exec.
  const bool has_us = maps.find(std::string("/") + kPreloadName) != std::string::npos;
  const bool bypassed = !has_us && maps.find("/libcuda.so") != std::string::npos;
  known.settled = has_us || bypassed;
  if (bypassed && found_.size() < kMaxFound) found_.push_back({pid, program});
}

void BypassWatch::Look(pid_t program) {
  std::vector<pid_t> open{program};
  std::set<pid_t> seen{program};
  while (!open.empty()) {
    const pid_t pid = open.back();
    open.pop_back();
    LookAt(pid);
    for (const pid_t child : ChildrenOf(pid)) {
      if (seen.size() < kMaxProcesses && seen.insert(child).second) open.push_back(child);
    }
  }
  // Numbers are used again.
  std::erase_if(known_, [&](const auto& entry) { return !seen.contains(entry.first); });
}

}  // namespace cuheap::tools
