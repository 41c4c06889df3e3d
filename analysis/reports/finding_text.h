// Leaks and what else was never freed, in words.
#ifndef CUHEAP_ANALYSIS_REPORTS_FINDING_TEXT_H_
#define CUHEAP_ANALYSIS_REPORTS_FINDING_TEXT_H_

#include <cstdint>
#include <string>

#include "analysis/reports/report.h"
#include "analysis/reports/tensor_text.h"
#include "analysis/reports/text_canvas.h"

namespace cuheap::analysis {

std::string ScopeName(const Scope& scope);  // "device 0", "the host's pinned memory"
// "called by train.cc:75  Train", or that several lines call it that grow alike; empty if only one does.
std::string CallersText(const Report& report, const LeakFinding& finding, std::size_t width, bool utf8);
std::string GrowthPhrase(const LeakFinding& finding);    // "+768.0 KiB every step"
std::string_view ConfidenceWord(Confidence confidence);  // "low", "medium", "high"

class FindingText {
 public:
  FindingText(const Report& report, TextCanvas& canvas)
      : report_(report), canvas_(canvas), tensors_(report, canvas, canvas.source()) {}

  void Cache();   // a framework's cache that grows: which lines' segments, and what to do
  void Leaks();   // class kLeak, each with its stack
  void Others();  // the other classes, a section each

 private:
  void Advice(const std::string& advice);  // nothing if it is empty
  void Leak(std::size_t number, const LeakFinding& alone);
  void StackOf(std::uint32_t stack);
  void Segments(const FrameworkSegments& segments);
  void Class(LeakClass leak_class, std::string_view title, std::string_view explanation);
  std::string ThreadPhrase(const LeakFinding& finding) const;
  std::string NeverFreed(const LeakFinding& finding) const;

  const Report& report_;
  TextCanvas& canvas_;
  TensorText tensors_;
};

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_REPORTS_FINDING_TEXT_H_
