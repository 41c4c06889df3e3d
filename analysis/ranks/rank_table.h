// The table of ranks in the terminal: one row a process, with its memory over time.
#ifndef CUHEAP_ANALYSIS_RANKS_RANK_TABLE_H_
#define CUHEAP_ANALYSIS_RANKS_RANK_TABLE_H_

#include <cstddef>
#include <string>
#include <vector>

#include "analysis/ranks/rank_names.h"
#include "analysis/ranks/rank_report.h"
#include "analysis/reports/text_canvas.h"

namespace cuheap::analysis {

// In order of the ranks. If there are more than the canvas takes (--top), those that stand out are shown: first refused
// ones, then outliers, then those that leak what others do not, then the largest.
class RankTable {
 public:
  RankTable(const RankReport& report, const RankNames& names, TextCanvas& canvas)
      : report_(report), names_(names), canvas_(canvas) {}
  void Print();

 private:
  std::vector<std::size_t> Chosen() const;
  void Row(std::size_t index);
  void Rest(const std::vector<std::size_t>& shown);

  const RankReport& report_;
  const RankNames& names_;
  TextCanvas& canvas_;
  std::size_t label_width_ = 4, host_width_ = 0, curve_width_ = 0;
  std::uint64_t most_ = 0;
  bool tensors_ = false;
};

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_RANKS_RANK_TABLE_H_
