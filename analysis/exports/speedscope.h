// Speedscope's JSON: one profile of type "sampled" in bytes for each device, frames shared. Format:
// https://www.speedscope.app/file-format-schema.json.
#ifndef CUHEAP_ANALYSIS_EXPORTS_SPEEDSCOPE_H_
#define CUHEAP_ANALYSIS_EXPORTS_SPEEDSCOPE_H_

#include <string>
#include <vector>

#include "analysis/exports/exporter.h"

namespace cuheap::analysis {

class SpeedscopeProfile final : public Exporter {
 public:
  absl::Status Write(const Snapshot& snapshot, const Blocks& blocks, const ExportRequest& request, TextSink& sink,
                     std::vector<std::string>& notes) const override;
};

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_EXPORTS_SPEEDSCOPE_H_
