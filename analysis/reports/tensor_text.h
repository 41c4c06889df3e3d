// What is said of a leak of PyTorch's tensors beyond its figures: source lines, the parts of a graph, Python stacks.
#ifndef CUHEAP_ANALYSIS_REPORTS_TENSOR_TEXT_H_
#define CUHEAP_ANALYSIS_REPORTS_TENSOR_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "analysis/reports/report.h"
#include "analysis/reports/text_canvas.h"
#include "analysis/source_lines.h"

namespace cuheap::analysis {

class TensorText {
 public:
  // source: null: no source is shown.
  TensorText(const Report& report, TextCanvas& canvas, SourceLines* source)
      : report_(report), canvas_(canvas), source_(source) {}

  void Code(const CodeLine& line);          // the line's text, if it is a Python line and readable
  void Parts(const LeakFinding& finding);   // lines that were taken together
  void Keeper(const LeakFinding& finding);  // what the source suggests
  void NotReadable(const CodeLine& line);   // says so if the line is Python and its file is not there
  // The Python frames of a stack. False: it has none.
  bool Stack(std::uint32_t stack);

 private:
  const Report& report_;
  TextCanvas& canvas_;
  SourceLines* source_;
};

// ", kept: the graph of every step", ...; empty for what is no tensor.
std::string CausePhrase(const LeakFinding& finding);

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_REPORTS_TENSOR_TEXT_H_
