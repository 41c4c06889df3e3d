// Stacks for the page: each string, frame and beginning of a stack once.
#ifndef CUHEAP_ANALYSIS_HTML_PAGE_STACKS_H_
#define CUHEAP_ANALYSIS_HTML_PAGE_STACKS_H_

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "analysis/reports/report.h"

namespace cuheap::analysis {

class PageStacks {
 public:
  explicit PageStacks(const Report& report) : report_(report), snapshot_(*report.snapshot) {}

  std::uint32_t String(const std::string& text);
  // The page's number of a stack of the snapshot, of a line of the report's table.
  std::uint32_t Stack(std::uint32_t stack);
  std::uint32_t Line(std::uint32_t line);

  // Members "strings", "frames", "nodes", "stacks" and "lines" of the page's data. What was asked for until then is in
  // there.
  void Write(nlohmann::ordered_json& json) const;

 private:
  std::uint32_t Frame(std::uint32_t frame);
  std::string FunctionOf(const cuheap::analysis::Frame& frame) const;

  struct PageFrame {
    std::uint32_t function = 0, file = 0, line = 0;
    int origin = 0;  // see OriginOf
  };
  struct PageLine {
    std::uint32_t text = 0, file = 0, line = 0;
    int origin = 0;
  };

  const Report& report_;
  const Snapshot& snapshot_;
  std::vector<std::string> strings_;
  absl::flat_hash_map<std::string, std::uint32_t> string_index_;
  std::vector<PageFrame> frames_;
  std::map<std::uint32_t, std::uint32_t> frame_index_;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> nodes_;  // parent (plus one; 0: none) and frame, outermost first
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> node_index_;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> stacks_;  // innermost node (plus one), line
  std::map<std::uint32_t, std::uint32_t> stack_index_;
  std::vector<PageLine> lines_;
  std::map<std::uint32_t, std::uint32_t> line_index_;
};

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_HTML_PAGE_STACKS_H_
