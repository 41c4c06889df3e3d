// A snapshot in which every field has a value of its own, so that a swapped or forgotten field shows.
#ifndef CUHEAP_TESTS_ANALYSIS_TEST_SNAPSHOT_H_
#define CUHEAP_TESTS_ANALYSIS_TEST_SNAPSHOT_H_

#include "analysis/snapshot.h"

namespace cuheap::analysis {

Snapshot DistinctSnapshot();

// gtest: names the first table that differs.
void ExpectSameSnapshot(const Snapshot& a, const Snapshot& b);

}  // namespace cuheap::analysis

#endif  // CUHEAP_TESTS_ANALYSIS_TEST_SNAPSHOT_H_
