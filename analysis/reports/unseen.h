// Notes of the self-check about what reached the driver without the preload library, as sentences.
#ifndef CUHEAP_ANALYSIS_REPORTS_UNSEEN_H_
#define CUHEAP_ANALYSIS_REPORTS_UNSEEN_H_

#include <string>

#include "analysis/snapshot.h"

namespace cuheap::analysis {

// What was not observed, why, and what would change it. Empty: the note is about something else.
std::string DescribeUnseen(const Note& note);

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_REPORTS_UNSEEN_H_
