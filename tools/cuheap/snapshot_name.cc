#include "tools/cuheap/snapshot_name.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>

#include "analysis/ranks/rank_identity.h"

namespace cuheap::tools {
namespace {

namespace fs = std::filesystem;

// Of names that come from the process: nothing that a shell treats specially, no other folder.
std::string Safe(std::string word, const char* instead) {
  for (char& byte : word) {
    const auto code = static_cast<unsigned char>(byte);
    if (code < 0x80 && std::isalnum(code) == 0 && byte != '.' && byte != '_' && byte != '-' && byte != '+') byte = '_';
  }
  return word.empty() || word == "." || word == ".." ? instead : word;
}

std::string ProgramOf(const analysis::Snapshot& snapshot) {
  return Safe(fs::path(snapshot.process.executable).filename().string(), "program");
}

std::string HostOf(const analysis::Snapshot& snapshot) { return Safe(snapshot.process.host, "host"); }

// As many digits as the world's last rank has, so that files are listed in order.
std::string PaddedRank(const analysis::RankIdentity& identity) {
  std::string digits = std::to_string(*identity.rank);
  const std::string last =
      std::to_string(identity.world_size.value_or(1) == 0 ? 0 : identity.world_size.value_or(1) - 1);
  if (digits.size() < last.size()) digits.insert(0, last.size() - digits.size(), '0');
  return digits;
}

analysis::RankIdentity IdentityOf(const analysis::Snapshot& snapshot) {
  return analysis::IdentifyRank(snapshot.process.launcher, "");
}

std::string Expanded(const std::string& pattern, const analysis::Snapshot& snapshot) {
  std::string name;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '%' || i + 1 == pattern.size()) {
      name += pattern[i];
      continue;
    }
    const std::string pid = std::to_string(snapshot.process.pid);
    switch (pattern[++i]) {
      case 'r': {
        const analysis::RankIdentity identity = IdentityOf(snapshot);
        name += identity.rank ? std::to_string(*identity.rank) : "pid" + pid;
        break;
      }
      case 'h':
        name += HostOf(snapshot);
        break;
      case 'p':
        name += pid;
        break;
      case 'e':
        name += ProgramOf(snapshot);
        break;
      default:
        name += '%';
    }
  }
  return name;
}

std::string WordProblem(const std::string& output) {
  for (std::size_t at = output.find('%'); at != std::string::npos; at = output.find('%', at + 2)) {
    const char word = at + 1 < output.size() ? output[at + 1] : '\0';
    if (word == '\0' || std::string_view("rhpe%").find(word) == std::string_view::npos)
      return output + ": after % in a snapshot's name use " + kNameWords;
  }
  return {};
}

}  // namespace

bool NamesEveryProcess(const std::string& output) {
  return output.ends_with('/') || output.find('%') != std::string::npos;
}

std::string PrepareOutput(std::string* output) {
  if (output->empty()) return {};
  std::error_code error;
  if (!output->ends_with('/') && fs::is_directory(*output, error)) *output += '/';
  const bool itself = output->ends_with('/');
  if (!itself) {
    if (std::string problem = WordProblem(*output); !problem.empty()) return problem;
  }
  const fs::path path(*output), folder = itself ? path : path.has_parent_path() ? path.parent_path() : fs::path(".");
  if (folder.string().find('%') != std::string::npos && !fs::is_directory(folder, error))
    return folder.string() + ": the words after % are for the file's name, not for its folder";
  // Another node may make it at the same time.
  if (itself && mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
    return "the folder " + folder.string() + " cannot be made: " + std::strerror(errno);
  if (!fs::is_directory(folder, error)) return folder.string() + " is not a folder";
  if (access(folder.c_str(), W_OK) != 0) return folder.string() + ": " + std::strerror(errno);
  return {};
}

std::string NameFor(const std::string& output, const analysis::Snapshot& snapshot) {
  if (!output.ends_with('/')) return Expanded(output, snapshot);
  const analysis::RankIdentity identity = IdentityOf(snapshot);
  std::string path = output;
  path += identity.rank ? "rank" + PaddedRank(identity) : ProgramOf(snapshot);
  path += "." + HostOf(snapshot) + "." + std::to_string(snapshot.process.pid) + ".json";
  // Process ids come again: in containers every run may have the same.
  std::string unused = path;
  for (std::uint64_t number = 2; access(unused.c_str(), F_OK) == 0; ++number) unused = WithPid(path, number);
  return unused;
}

std::string WithPid(const std::string& path, std::uint64_t pid) {
  const std::size_t name = path.rfind('/') == std::string::npos ? 0 : path.rfind('/') + 1;
  std::size_t dot = path.rfind('.');
  if (path.ends_with(".json.zst")) dot = path.size() - 9;
  if (dot == std::string::npos || dot <= name) return path + "." + std::to_string(pid);
  return path.substr(0, dot) + "." + std::to_string(pid) + path.substr(dot);
}

std::string DefaultName(const analysis::Snapshot& snapshot) {
  return "cuheap." + ProgramOf(snapshot) + "." + std::to_string(snapshot.process.pid) + ".json";
}

}  // namespace cuheap::tools
