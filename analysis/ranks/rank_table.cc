#include "analysis/ranks/rank_table.h"

#include <algorithm>
#include <cctype>
#include <tuple>

#include "analysis/ranks/rank_rendering.h"
#include "analysis/reports/text_format.h"

namespace cuheap::analysis {
namespace {

constexpr std::size_t kVerdictWidth = 13, kMostLabel = 28, kMostHost = 16, kMostCurve = 48, kLeastCurve = 8;

std::string Human(std::uint64_t bytes) { return HumanBytes(static_cast<double>(bytes)); }

std::string Lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

std::string ProcessOf(const RankSummary& rank) { return rank.pid == 0 ? "-" : std::to_string(rank.pid); }

std::string DeviceOf(const RankSummary& rank) {
  if (!rank.has_device()) return "-";
  return std::to_string(rank.device().ordinal) + (rank.devices.size() > 1 ? "+" : "");
}

}  // namespace

std::vector<std::size_t> RankTable::Chosen() const {
  std::vector<std::size_t> all(report_.ranks.size());
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = i;
  if (all.size() <= canvas_.top()) return all;
  std::vector<int> weight(all.size(), 0);
  for (const FigureSpread& figure : report_.figures) {
    for (const RankValue& outlier : figure.spread.outliers) weight[outlier.rank] |= 2;
  }
  for (const RankLeakLine& leak : report_.leaks) {
    if (leak.ranks.size() * 2 > all.size()) continue;
    for (const std::size_t rank : leak.ranks) weight[rank] |= 1;
  }
  for (const std::size_t rank : report_.refused) weight[rank] |= 4;
  std::stable_sort(all.begin(), all.end(), [&](std::size_t a, std::size_t b) {
    return std::tuple(weight[a], report_.ranks[a].peak_bytes()) > std::tuple(weight[b], report_.ranks[b].peak_bytes());
  });
  all.resize(canvas_.top());
  std::sort(all.begin(), all.end());
  return all;
}

void RankTable::Print() {
  if (report_.ranks.empty()) return;
  const std::vector<std::size_t> shown = Chosen();
  for (const std::size_t index : shown) {
    const RankSummary& rank = report_.ranks[index];
    label_width_ = std::clamp(Columns(names_.Label(index)), label_width_, kMostLabel);
    host_width_ = std::max(host_width_, std::min(Columns(rank.host), kMostHost));
    tensors_ = tensors_ || rank.lines_of_tensors;
  }
  for (const RankSummary& rank : report_.ranks) most_ = std::max(most_, rank.peak_bytes());
  if (host_width_ != 0) host_width_ = std::max<std::size_t>(host_width_, 4);
  canvas_.Section(report_.ranks_known ? "RANKS" : "PROCESSES",
                  shown.size() == report_.ranks.size()
                      ? std::string()
                      : "the " + std::to_string(shown.size()) + " that stand out most, of " +
                            Grouped(report_.ranks.size()) + " (--top N shows more, --json all)");
  std::string head = "  " + PadLeft(report_.ranks_known ? "rank" : "file", label_width_);
  if (host_width_ != 0) head += "  " + PadRight("host", host_width_);
  head += "  process  device       peak" + std::string(tensors_ ? "    tensors" : "") + "     at end  " +
          PadRight("verdict", kVerdictWidth);
  if (canvas_.utf8() && canvas_.width() > Columns(head) + 2 + kLeastCurve) {
    curve_width_ = std::min(kMostCurve, canvas_.width() - Columns(head) - 2);
    head += "  over time";
  }
  canvas_.Dim(head);
  for (const std::size_t index : shown) Row(index);
  Rest(shown);
}

void RankTable::Row(std::size_t index) {
  const RankSummary& rank = report_.ranks[index];
  std::string row = "  " + PadLeft(Clip(names_.Label(index), label_width_, canvas_.utf8()), label_width_);
  if (host_width_ != 0) row += "  " + PadRight(Clip(rank.host, host_width_, canvas_.utf8()), host_width_);
  row += "  " + PadLeft(ProcessOf(rank), 7) + "  " + PadLeft(DeviceOf(rank), 6) + PadLeft(Human(rank.peak_bytes()), 11);
  if (tensors_) row += PadLeft(rank.lines_of_tensors ? Human(rank.tensor_peak_bytes()) : "-", 11);
  row += PadLeft(Human(rank.live_bytes()), 11) + "  " + PadRight(Lower(rank.verdict_word), kVerdictWidth);
  if (curve_width_ != 0) row += "  " + RankTimeline(report_, rank, curve_width_, most_);
  while (row.ends_with(' ')) row.pop_back();
  canvas_.Line(row);
}

void RankTable::Rest(const std::vector<std::size_t>& shown) {
  if (shown.size() == report_.ranks.size()) return;
  std::uint64_t least = ~std::uint64_t{0}, most = 0;
  auto next = shown.begin();
  for (std::size_t i = 0; i < report_.ranks.size(); ++i) {
    if (next != shown.end() && *next == i) {
      ++next;
      continue;
    }
    least = std::min(least, report_.ranks[i].peak_bytes());
    most = std::max(most, report_.ranks[i].peak_bytes());
  }
  const std::size_t others = report_.ranks.size() - shown.size();
  canvas_.Dim("  and " + Plural(others, "other") + ", with peaks of " +
              (least == most ? Human(most) : Human(least) + " to " + Human(most)));
}

}  // namespace cuheap::analysis
