// Gives equal values equal indices in one of the snapshot's tables (strings, frames, stacks), in order of first use.
#ifndef CUHEAP_ANALYSIS_INTERNER_H_
#define CUHEAP_ANALYSIS_INTERNER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/hash/hash.h"
#include "analysis/snapshot.h"

namespace cuheap::analysis {

template <typename H>
H AbslHashValue(H h, const Frame& f) {
  return H::combine(std::move(h), f.kind, f.function, f.file, f.line, f.module, f.offset, f.inlined, f.reason);
}
template <typename H>
H AbslHashValue(H h, const Stack& s) {
  return H::combine(std::move(h), s.frames, s.truncated, s.unwind_failed, s.python_unplaced, s.no_python, s.backward);
}

// The table must outlive the interner and grow only through it.
template <typename Value>
class Interner {
 public:
  explicit Interner(std::vector<Value>& table) : table_(table) {
    for (std::uint32_t index = 0; index < table_.size(); ++index) indices_.try_emplace(table_[index], index);
  }

  std::uint32_t Intern(const Value& value) {
    const auto [found, fresh] = indices_.try_emplace(value, static_cast<std::uint32_t>(table_.size()));
    if (fresh) table_.push_back(value);
    return found->second;
  }

 private:
  std::vector<Value>& table_;
  absl::flat_hash_map<Value, std::uint32_t> indices_;
};

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_INTERNER_H_
