// Compresses with gzip (RFC 1952) on the way to another sink.
#ifndef CUHEAP_ANALYSIS_EXPORTS_GZIP_SINK_H_
#define CUHEAP_ANALYSIS_EXPORTS_GZIP_SINK_H_

#include <memory>

#include "analysis/text_file.h"

namespace cuheap::analysis {

// No name and no time in the header: the same text gives the same bytes. Finish() ends the gzip stream and leaves
// `compressed`, which must outlive it, open. Errors (no memory) come out of Finish().
std::unique_ptr<TextSink> Gzip(TextSink& compressed);

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_EXPORTS_GZIP_SINK_H_
