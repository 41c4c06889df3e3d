// Frameworks' own caches in words.
#ifndef CUHEAP_ANALYSIS_REPORTS_FRAMEWORK_TEXT_H_
#define CUHEAP_ANALYSIS_REPORTS_FRAMEWORK_TEXT_H_

#include "analysis/reports/report.h"
#include "analysis/reports/text_canvas.h"

namespace cuheap::analysis {

class FrameworkText {
 public:
  FrameworkText(const Report& report, TextCanvas& canvas) : report_(report), canvas_(canvas) {}

  // A section: what the cache held, what of it was in use, what lay idle and why. Nothing if tensors were not observed.
  void Cache(const FrameworkCache& cache);
  // What the framework told the program of memory that ran out: rows for the section of failed allocations.
  void Refusals(const FrameworkCache& cache);

 private:
  void State(std::string_view when, const CacheState& state);
  void Fragmentation(const FrameworkCache& cache);
  void Curves(const FrameworkCache& cache);
  void BehindIt(const FrameworkRefusal& refusal);
  void LiveAt(const FrameworkRefusal& refusal);

  const Report& report_;
  TextCanvas& canvas_;
};

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_REPORTS_FRAMEWORK_TEXT_H_
