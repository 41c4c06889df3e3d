#include "analysis/ranks/shared_lines.h"

#include "analysis/reports/text_format.h"

namespace cuheap::analysis {
namespace {

std::string RelativeTo(const std::string& folder, const std::string& file) {
  if (folder.size() > 1 && file.size() > folder.size() + 1 && file.starts_with(folder) && file[folder.size()] == '/')
    return file.substr(folder.size() + 1);
  return file;
}

std::string FileName(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

}  // namespace

std::string SharedLines::CommonFolder() const {
  std::string folder;
  bool first = true;
  for (std::size_t i = 0; i < lines_.size(); ++i) {
    const bool user = lines_[i].module_class == ModuleClass::kUser || lines_[i].module_class == ModuleClass::kNone;
    if (lines_[i].basis != LineBasis::kLine || !user || !files_[i].starts_with('/')) continue;
    std::string own = files_[i].substr(0, files_[i].rfind('/'));
    while (!first && own != folder && !own.starts_with(folder + "/")) folder.resize(folder.rfind('/'));
    if (first) folder = std::move(own);
    first = false;
  }
  return folder;
}

std::uint32_t SharedLines::Of(const CodeLine& line, const std::string& working_directory) {
  std::string file = RelativeTo(working_directory, line.file);
  // A null character can be in no name of these.
  std::string key = std::to_string(static_cast<int>(line.basis)) + '\0' + file + '\0';
  std::string number = std::to_string(line.basis == LineBasis::kModule ? line.offset : line.line);
  number.insert(0, 20 - number.size(), '0');
  key += number + '\0' + ShortFunction(line.function, line.function.size()) + '\0' + FileName(line.module);
  const auto [found, fresh] = index_.try_emplace(std::move(key), static_cast<std::uint32_t>(lines_.size()));
  if (fresh) {
    keys_.push_back(&found->first);
    lines_.push_back(line);
    files_.push_back(std::move(file));
  }
  return found->second;
}

}  // namespace cuheap::analysis
