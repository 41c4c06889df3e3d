// A heap profile for pprof: profile.proto, gzipped. Format: github.com/google/pprof, proto/profile.proto (field numbers
// and rules are from its comments).
//
// Sample types: alloc_objects, alloc_space (all that the record's events allocated), inuse_objects, inuse_space (held
// at the moment; the default). Labels: device ("0", "host"), kind, stream, and the launcher's rank.
#ifndef CUHEAP_ANALYSIS_EXPORTS_PPROF_H_
#define CUHEAP_ANALYSIS_EXPORTS_PPROF_H_

#include <string>
#include <vector>

#include "analysis/exports/exporter.h"

namespace cuheap::analysis {

class PprofProfile final : public Exporter {
 public:
  absl::Status Write(const Snapshot& snapshot, const Blocks& blocks, const ExportRequest& request, TextSink& sink,
                     std::vector<std::string>& notes) const override;
};

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_EXPORTS_PPROF_H_
