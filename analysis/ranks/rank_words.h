// Words that the texts of ranks share.
#ifndef CUHEAP_ANALYSIS_RANKS_RANK_WORDS_H_
#define CUHEAP_ANALYSIS_RANKS_RANK_WORDS_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "analysis/ranks/rank_report.h"

namespace cuheap::analysis {

// In JSON, "tensor_peak_bytes": words that never change their meaning.
std::string_view FigureWord(RankFigure figure);
std::string FigureName(RankFigure figure);                       // "tensors' peak"
std::string FigureText(RankFigure figure, std::uint64_t value);  // "12.0 MiB", "60", "2.31 s"
// "+49.5 %", "12.3 times that"; empty of a median of 0.
std::string RelativeText(std::uint64_t value, std::uint64_t median);
// "train.cc:57  LogLoss", the path relative to the folder; "at::linear in libtorch_cpu.so".
std::string ShowSharedLine(const SharedLines& lines, std::uint32_t index, const std::string& folder, std::size_t width,
                           bool utf8);
// A wrapper's use: the caller is what can be changed, the wrapper's name is enough. caller 0: the line itself.
std::string ShowSharedUse(const SharedLines& lines, std::uint32_t line, std::uint32_t caller, const std::string& folder,
                          std::size_t width, bool utf8);

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_RANKS_RANK_WORDS_H_
