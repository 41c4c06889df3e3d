#include "tools/cuheap/child_environment.h"

#include <algorithm>

namespace cuheap::tools {
namespace {

std::vector<std::string> Split(std::string_view text, std::string_view separators) {
  std::vector<std::string> words;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find_first_of(separators), text.size());
    if (end != 0) words.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(text.size(), end + 1));
  }
  return words;
}

std::string Join(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ":") + word;
  return text;
}

// What separates entries of LD_PRELOAD, or stands for something else in them.
constexpr const char* kNotInPreload = " :\t\n$";

std::string NameOf(const std::string& path) { return path.substr(path.rfind('/') + 1); }

bool IsSanitizer(const std::string& path) {
  const std::string name = NameOf(path);
  return name.starts_with("libasan") || name.starts_with("libtsan") || name.starts_with("libubsan") ||
         name.starts_with("liblsan") || name.starts_with("libclang_rt.");
}

std::string_view ValueOf(const std::vector<std::string>& environment, const std::string& name) {
  for (const std::string& entry : environment) {
    if (entry.size() > name.size() && entry.starts_with(name) && entry[name.size()] == '=')
      return std::string_view(entry).substr(name.size() + 1);
  }
  return {};
}

}  // namespace

std::string MergePreload(const std::vector<std::string>& ours, std::string_view existing) {
  std::vector<std::string> merged, others;
  for (std::string& entry : Split(existing, " :")) {
    if (std::find(ours.begin(), ours.end(), entry) != ours.end() || NameOf(entry) == kPreloadName) continue;
    (IsSanitizer(entry) ? merged : others).push_back(std::move(entry));
  }
  merged.insert(merged.end(), ours.begin(), ours.end());
  merged.insert(merged.end(), others.begin(), others.end());
  return Join(merged);
}

std::string MergeLibraryPath(const std::vector<std::string>& folders, std::string_view existing) {
  std::string path = Join(folders);
  if (!existing.empty()) path += ":" + std::string(existing);
  return path;
}

bool IsRecordedElsewhere(const std::vector<std::string>& environment) {
  if (ValueOf(environment, "CUHEAP_DIR").empty()) return false;
  const std::vector<std::string> preloaded = Split(ValueOf(environment, "LD_PRELOAD"), " :");
  return std::any_of(preloaded.begin(), preloaded.end(),
                     [](const std::string& entry) { return NameOf(entry) == kPreloadName; });
}

std::vector<std::string> MakeChildEnvironment(const std::vector<std::string>& environment,
                                              const ChildEnvironmentOptions& options) {
  // By its path, where LD_PRELOAD can hold that: then a child finds it whatever LD_LIBRARY_PATH it was given, and ours
  // need not change it.
  const std::string path = options.layout.library_folder + "/" + kPreloadName;
  const bool by_path = path.find_first_of(kNotInPreload) == std::string::npos;
  std::vector<std::string> ours{by_path ? path : kPreloadName}, folders;
  if (options.simulate) {
    folders.push_back(options.layout.simulated_folder);
    ours.insert(ours.end(), options.layout.simulated_names.begin(), options.layout.simulated_names.end());
  }
  if (!by_path) folders.push_back(options.layout.library_folder);
  std::vector<std::pair<std::string, std::string>> changes = options.variables;
  changes.emplace_back("LD_PRELOAD", MergePreload(ours, ValueOf(environment, "LD_PRELOAD")));
  if (!folders.empty()) {
    changes.emplace_back("LD_LIBRARY_PATH", MergeLibraryPath(folders, ValueOf(environment, "LD_LIBRARY_PATH")));
  }
  changes.emplace_back("CUHEAP_DIR", options.journal_folder);
  std::vector<std::string> result = environment;
  for (const auto& [name, value] : changes) {
    const std::string prefix = name + "=";
    const auto found =
        std::find_if(result.begin(), result.end(), [&](const std::string& entry) { return entry.starts_with(prefix); });
    if (found != result.end())
      *found = prefix + value;
    else
      result.push_back(prefix + value);
  }
  return result;
}

}  // namespace cuheap::tools
