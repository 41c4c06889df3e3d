// Pieces of JSON, for exports that are too large to be built as a value first.
#ifndef CUHEAP_ANALYSIS_EXPORTS_JSON_TEXT_H_
#define CUHEAP_ANALYSIS_EXPORTS_JSON_TEXT_H_

#include <string>
#include <string_view>

namespace cuheap::analysis {

// A string of JSON with its quotes. Control characters are escaped; bytes that are not UTF-8 become U+FFFD.
std::string JsonString(std::string_view text);

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_EXPORTS_JSON_TEXT_H_
