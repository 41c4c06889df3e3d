#include "tools/cuheap/rank_files.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <exception>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>

#include "absl/status/statusor.h"
#include "analysis/ranks/rank_identity.h"
#include "analysis/reports/report.h"
#include "analysis/snapshot_loader.h"
#include "analysis/text_file.h"
#include "tools/cuheap/progress.h"

namespace cuheap::tools {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kTextBudget = std::uint64_t{512} << 20;  // bytes of files that are being read
constexpr std::uint64_t kCompression = 8;                        // how much larger a compressed one's text is, about
constexpr unsigned kMostReaders = 8;

bool IsCompressed(std::string_view name) { return name.ends_with(".zst"); }

bool IsSnapshotName(std::string_view name) {
  if (IsCompressed(name)) name.remove_suffix(4);
  return name.ends_with(".json") || name.ends_with(".pickle") || name.ends_with(".pkl");
}

// A snapshot that is damaged, and not something else with such a name: both kinds name themselves at their beginning.
bool LooksLikeSnapshot(const std::string& path) {
  absl::StatusOr<std::unique_ptr<analysis::TextSource>> source = analysis::OpenTextFile(path);
  if (!source.ok()) return true;  // what is wrong with it must be told
  std::string begin(4096, '\0');
  std::size_t size = 0;
  while (const std::size_t more = (*source)->Read(begin.data() + size, begin.size() - size)) size += more;
  begin.resize(size);
  if (begin.empty() || !(*source)->error().empty()) return true;
  return begin.find("cuheap-snapshot") != std::string::npos || begin.find("segments") != std::string::npos ||
         begin.find("device_traces") != std::string::npos;
}

// What became of one file.
struct Reading {
  std::optional<analysis::RankSummary> summary;
  std::string error;   // if there is none
  bool other = false;  // no snapshot at all
};

Reading ReadOne(const RankFile& file, const analysis::LineRule& rule) {
  Reading reading;
  try {
    const absl::StatusOr<analysis::Snapshot> snapshot = analysis::LoadSnapshot(file.path);
    if (snapshot.ok()) {
      reading.summary = analysis::SummariseRank(analysis::MakeReport(*snapshot, rule), file.path);
    } else {
      reading.error = std::string(snapshot.status().message());
      reading.other = file.listed && !LooksLikeSnapshot(file.path);
    }
  } catch (const std::exception& error) {  // out of memory, most likely: the others may be smaller
    reading.error = file.path + ": " + error.what();
  }
  return reading;
}

class Reader {
 public:
  Reader(const RankFileList& list, const analysis::LineRule& rule) : list_(list), rule_(rule) {}

  analysis::RankReport Read() {
    for (const std::string& path : list_.left_out) merge_.AddNotSnapshot(path);
    const std::size_t count =
        std::min<std::size_t>({list_.files.size(), kMostReaders, std::max(1u, std::thread::hardware_concurrency())});
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < count; ++i) threads.emplace_back([this] { Work(); });
    Collect();
    for (std::thread& thread : threads) thread.join();
    return merge_.Finish();
  }

 private:
  static std::uint64_t WeightOf(const RankFile& file) {
    std::error_code error;
    const std::uint64_t bytes = fs::file_size(file.path, error);
    if (error) return 0;
    return IsCompressed(file.path) ? kCompression * bytes : bytes;
  }

  void Work() {
    while (true) {
      std::unique_lock lock(mutex_);
      if (next_ == list_.files.size()) return;
      const std::size_t index = next_++;
      const std::uint64_t weight = WeightOf(list_.files[index]);
      changed_.wait(lock, [&] { return reading_ == 0 || weight_ + weight <= kTextBudget; });
      ++reading_;
      weight_ += weight;
      lock.unlock();
      Reading reading = ReadOne(list_.files[index], rule_);
      lock.lock();
      --reading_;
      weight_ -= weight;
      done_.emplace(index, std::move(reading));
      changed_.notify_all();
    }
  }

  // In the order of the files, whatever was ready first: same folder, same report.
  void Collect() {
    Progress progress;
    for (std::size_t index = 0; index < list_.files.size(); ++index) {
      std::unique_lock lock(mutex_);
      while (!changed_.wait_for(lock, std::chrono::milliseconds(100), [&] { return done_.contains(index); }))
        progress.Files(index + done_.size(), list_.files.size());
      Reading reading = std::move(done_.extract(index).mapped());
      lock.unlock();
      progress.Files(index + 1, list_.files.size());
      const std::string& path = list_.files[index].path;
      if (reading.summary)
        merge_.Add(*std::move(reading.summary));
      else if (reading.other)
        merge_.AddNotSnapshot(path);
      else
        merge_.AddUnread({path, std::move(reading.error), analysis::RankInFileName(path)});
    }
  }

  const RankFileList& list_;
  const analysis::LineRule& rule_;
  analysis::RankMerge merge_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t next_ = 0, reading_ = 0;
  std::uint64_t weight_ = 0;
  std::map<std::size_t, Reading> done_;
};

std::string ListFolder(const std::string& folder, RankFileList* list) {
  const std::size_t before = list->files.size();
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string path = entry->path().string();
    std::error_code unknown;
    if (!IsSnapshotName(path) || !entry->is_regular_file(unknown)) continue;
    if (path.ends_with(".torch.pickle"))  // made by cuheap export of one of the others
      list->left_out.push_back(path);
    else
      list->files.push_back({path, true});
  }
  if (error) return folder + ": " + error.message();
  if (list->files.size() == before)
    return folder + " holds no snapshots (files ending in .json or .pickle, or in those with .zst)";
  return {};
}

}  // namespace

std::string ListRankFiles(const std::vector<std::string>& paths, RankFileList* list) {
  for (const std::string& path : paths) {
    struct stat facts{};
    if (stat(path.c_str(), &facts) != 0) return path + ": " + std::strerror(errno);
    if (!S_ISDIR(facts.st_mode)) {
      list->files.push_back({path, false});
      continue;
    }
    if (std::string problem = ListFolder(path, list); !problem.empty()) return problem;
  }
  // A file that was named and is in a named folder, too, is meant to be a snapshot.
  const auto name = [](const RankFile& file) { return fs::path(file.path).lexically_normal().string(); };
  std::sort(list->files.begin(), list->files.end(), [&](const RankFile& a, const RankFile& b) {
    return std::pair(name(a), a.listed) < std::pair(name(b), b.listed);
  });
  const auto same = [&](const RankFile& a, const RankFile& b) { return name(a) == name(b); };
  list->files.erase(std::unique(list->files.begin(), list->files.end(), same), list->files.end());
  return {};
}

analysis::RankReport ReadRanks(const RankFileList& list, const analysis::LineRule& rule) {
  return Reader(list, rule).Read();
}

}  // namespace cuheap::tools
