#include "analysis/reports/line_match.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "analysis/reports/report_text.h"
#include "analysis/reports/text_format.h"

namespace cuheap::analysis {
namespace {

constexpr std::string_view kSlashes = "/\\";

std::string_view BaseName(std::string_view path) {
  const std::size_t slash = path.find_last_of(kSlashes);
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

// Number of equal components at the end.
std::size_t CommonTail(std::string_view a, std::string_view b) {
  std::size_t count = 0;
  while (!a.empty() && !b.empty()) {
    const std::string_view last = BaseName(a);
    if (last != BaseName(b)) break;
    ++count;
    a.remove_suffix(std::min(a.size(), last.size() + 1));
    b.remove_suffix(std::min(b.size(), last.size() + 1));
  }
  return count;
}

std::set<std::string> FilesOf(const Report& report) {
  std::set<std::string> files;
  for (std::uint32_t i = 0; i < report.lines.size(); ++i) {
    if (report.lines.line(i).basis == LineBasis::kLine) files.insert(report.lines.line(i).file);
  }
  return files;
}

std::string Relative(const Report& report, const std::string& file) {
  const std::string folder = FolderOf(report, file);
  return folder.size() > 1 && file.starts_with(folder + "/") ? file.substr(folder.size() + 1) : file;
}

// Which file after was which file before.
class FileMatcher {
 public:
  FileMatcher(const Report& before, const Report& after) : before_(FilesOf(before)), after_(FilesOf(after)) {
    for (const std::string& file : std::set<std::string>(before_)) {
      if (after_.contains(file)) Pair(file, file);
    }
    std::map<std::string, std::string> relative;
    for (const std::string& file : before_) relative.emplace(Relative(before, file), file);
    for (const std::string& file : std::set<std::string>(after_)) {
      const auto found = relative.find(Relative(after, file));
      if (found != relative.end() && before_.contains(found->second)) Pair(found->second, file);
    }
    PairByTail();
  }

  // The name of the file before, or its own if there was none.
  const std::string& NameBefore(const std::string& after) const {
    const auto found = before_of_.find(after);
    return found == before_of_.end() ? after : found->second;
  }

 private:
  void Pair(const std::string& before, const std::string& after) {
    before_of_[after] = before;
    before_.erase(before);
    after_.erase(after);
  }

  void PairByTail() {
    std::multimap<std::string_view, const std::string*> by_name;
    for (const std::string& file : before_) by_name.emplace(BaseName(file), &file);
    std::map<std::size_t, std::vector<std::pair<std::string, std::string>>, std::greater<>> by_tail;
    for (const std::string& file : after_) {
      const auto [begin, end] = by_name.equal_range(BaseName(file));
      for (auto at = begin; at != end; ++at) by_tail[CommonTail(*at->second, file)].emplace_back(*at->second, file);
    }
    for (auto& [tail, pairs] : by_tail) {
      std::erase_if(pairs,
                    [&](const auto& pair) { return !before_.contains(pair.first) || !after_.contains(pair.second); });
      std::map<std::string_view, int> uses_before, uses_after;
      for (const auto& [first, second] : pairs) {
        ++uses_before[first];
        ++uses_after[second];
      }
      for (const auto& [first, second] : pairs) {
        if (uses_before[first] == 1 && uses_after[second] == 1) Pair(first, second);
      }
      // Which of several it was is not known, and a worse match would only hide that.
      for (const auto& [first, second] : pairs) {
        if (uses_before[first] > 1) before_.erase(first);
        if (uses_after[second] > 1) after_.erase(second);
      }
    }
  }

  std::set<std::string> before_, after_;  // not paired yet
  std::map<std::string, std::string> before_of_;
};

// "Buffer<float>::Buffer(unsigned long)" is "Buffer::Buffer"; names of Python stay.
std::string Stem(const std::string& function) {
  std::string name = ShortFunction(function, function.size());
  if (name.starts_with('<') || name.find(".<") != std::string::npos || name.find("operator") != std::string::npos)
    return name;
  std::size_t depth = 0;
  std::erase_if(name, [&](char byte) {
    if (byte == '<') ++depth;
    const bool inside = depth != 0;
    if (byte == '>' && depth != 0) --depth;
    return inside;
  });
  return name;
}

// A line within its function: what tells it from the others there.
struct Site {
  std::uint64_t number = 0;  // of the line, or the offset
  std::string module;        // one header's line may be in several modules
  std::uint32_t index = 0;
  std::string_view text;  // empty: not known
  friend bool operator<(const Site& a, const Site& b) {
    return std::tie(a.number, a.module, a.index) < std::tie(b.number, b.module, b.index);
  }
};

class GroupMatcher {
 public:
  GroupMatcher(std::vector<Site> before, std::vector<Site> after, bool exact)
      : before_(std::move(before)), after_(std::move(after)) {
    std::sort(before_.begin(), before_.end());
    std::sort(after_.begin(), after_.end());
    if (exact)
      AtDistance(0);
    else if (TextsKnown())
      ByText();
    else if (before_.size() == after_.size())
      InOrder(0, before_.size(), 0);
    else
      AtDistance(BestDistance());
    for (const Site& site : before_) {
      if (!paired_before_.contains(site.index)) pairs_.push_back({site.index, kNoLine, false});
    }
    for (const Site& site : after_) {
      if (!paired_after_.contains(site.index)) pairs_.push_back({kNoLine, site.index, false});
    }
  }
  const std::vector<LinePair>& pairs() const { return pairs_; }

 private:
  // Above this a table of all pairs is too large to be worth it.
  static constexpr std::size_t kMostSites = 1000;

  void Pair(const Site& before, const Site& after) {
    pairs_.push_back({before.index, after.index, before.number != after.number});
    paired_before_.insert(before.index);
    paired_after_.insert(after.index);
  }

  bool TextsKnown() const {
    const auto known = [](const std::vector<Site>& sites) {
      return sites.size() <= kMostSites &&
             std::all_of(sites.begin(), sites.end(), [](const Site& site) { return !site.text.empty(); });
    };
    return known(before_) && known(after_);
  }

  void InOrder(std::size_t from, std::size_t count, std::size_t from_after) {
    for (std::size_t i = 0; i < count; ++i) Pair(before_[from + i], after_[from_after + i]);
  }

  void AtDistance(std::int64_t distance) {
    std::multimap<std::uint64_t, const Site*> by_number;
    for (const Site& site : after_) by_number.emplace(site.number, &site);
    for (const Site& site : before_) {
      const auto found = by_number.find(site.number + static_cast<std::uint64_t>(distance));
      if (found == by_number.end()) continue;
      Pair(site, *found->second);
      by_number.erase(found);
    }
  }

  // Of several the shortest, so 0 if the lines stayed.
  std::int64_t BestDistance() const {
    if (before_.size() > kMostSites || after_.size() > kMostSites) return 0;
    std::map<std::int64_t, std::size_t> meetings;
    for (const Site& a : before_) {
      for (const Site& b : after_) ++meetings[static_cast<std::int64_t>(b.number - a.number)];
    }
    std::int64_t best = 0;
    std::size_t most = 0;
    for (const auto& [distance, count] : meetings) {
      const auto length = [](std::int64_t of) { return of < 0 ? -of : of; };
      if (count > most || (count == most && length(distance) < length(best))) {
        best = distance;
        most = count;
      }
    }
    return best;
  }

  // The longest sequence of equal texts, then what lies between.
  void ByText() {
    const std::size_t rows = before_.size(), columns = after_.size();
    std::vector<std::vector<std::uint32_t>> longest(rows + 1, std::vector<std::uint32_t>(columns + 1, 0));
    for (std::size_t i = rows; i-- > 0;) {
      for (std::size_t j = columns; j-- > 0;) {
        longest[i][j] = before_[i].text == after_[j].text ? longest[i + 1][j + 1] + 1
                                                          : std::max(longest[i + 1][j], longest[i][j + 1]);
      }
    }
    std::size_t i = 0, j = 0, gap_before = 0, gap_after = 0;
    while (i < rows && j < columns) {
      if (before_[i].text == after_[j].text) {
        Gap(gap_before, i, gap_after, j);
        Pair(before_[i++], after_[j++]);
        gap_before = i;
        gap_after = j;
      } else if (longest[i + 1][j] >= longest[i][j + 1]) {
        ++i;
      } else {
        ++j;
      }
    }
    Gap(gap_before, rows, gap_after, columns);
  }

  void Gap(std::size_t from, std::size_t to, std::size_t from_after, std::size_t to_after) {
    if (to - from == 1 && to_after - from_after == 1) return InOrder(from, 1, from_after);
    for (std::size_t i = from; i < to; ++i) {
      for (std::size_t j = from_after; j < to_after; ++j) {
        if (before_[i].number == after_[j].number && !paired_after_.contains(after_[j].index)) {
          Pair(before_[i], after_[j]);
          break;
        }
      }
    }
  }

  std::vector<Site> before_, after_;
  std::set<std::uint32_t> paired_before_, paired_after_;
  std::vector<LinePair> pairs_;
};

// Basis, file before or name of the module, function.
using GroupKey = std::tuple<LineBasis, std::string, std::string>;

std::string_view TextOf(const CodeLine& line, SourceLines* source) {
  if (source == nullptr || line.basis != LineBasis::kLine) return {};
  return source->Read(line.file).changed ? std::string_view() : source->Line(line.file, line.line);
}

Site SiteOf(const CodeLine& line, std::uint32_t index, SourceLines* source) {
  return {line.basis == LineBasis::kModule ? line.offset : line.line, line.module, index, TextOf(line, source)};
}

}  // namespace

std::vector<LinePair> PairLines(const Report& before, const Report& after, SourceLines* before_source,
                                SourceLines* after_source) {
  const FileMatcher files(before, after);
  std::map<GroupKey, std::pair<std::vector<Site>, std::vector<Site>>> groups;
  const auto key = [](const CodeLine& line, const std::string& file) {
    return GroupKey(line.basis, line.basis == LineBasis::kLine ? file : std::string(BaseName(line.module)),
                    line.basis == LineBasis::kLine     ? Stem(line.function)
                    : line.basis == LineBasis::kModule ? std::string()
                                                       : line.function);
  };
  for (std::uint32_t i = 0; i < before.lines.size(); ++i) {
    const CodeLine& line = before.lines.line(i);
    groups[key(line, line.file)].first.push_back(SiteOf(line, i, before_source));
  }
  for (std::uint32_t i = 0; i < after.lines.size(); ++i) {
    const CodeLine& line = after.lines.line(i);
    groups[key(line, files.NameBefore(line.file))].second.push_back(SiteOf(line, i, after_source));
  }
  std::vector<LinePair> pairs;
  for (auto& [group, sites] : groups) {
    const GroupMatcher matcher(std::move(sites.first), std::move(sites.second),
                               std::get<0>(group) == LineBasis::kModule);
    pairs.insert(pairs.end(), matcher.pairs().begin(), matcher.pairs().end());
  }
  return pairs;
}

}  // namespace cuheap::analysis
