// Which blocks of a training are as large as the batch makes them.
#ifndef CUHEAP_ANALYSIS_REPORTS_BATCH_SHARE_H_
#define CUHEAP_ANALYSIS_REPORTS_BATCH_SHARE_H_

#include <cstdint>
#include <map>
#include <set>
#include <unordered_set>
#include <vector>

#include "analysis/reports/blocks.h"
#include "analysis/reports/categories.h"
#include "analysis/reports/framework_frames.h"
#include "analysis/reports/training_phases.h"

namespace cuheap::analysis {

// Note [What scales with the batch]
// Shapes are not in a record. Taken as scaling: activations; data that is made anew in each pass (a set that is held on
// the device all the time is none); and what forward and backward passes make for a moment. Not: what a backward pass
// makes for a moment in the manner and size of a gradient that it holds elsewhere, when it adds to gradients that are
// there (the gradient before it is added), or of half that size (autocast's, before it is cast); copies of weights that
// autocast makes; masks and positions that a model makes from nothing; what is reckoned before the model is called
// (averages of weights) or in the optimizer's step.
class BatchShare {
 public:
  // blocks: tensors of one device, by position. All must outlive it.
  BatchShare(const std::vector<const Block*>& blocks, const Categories& categories, const FrameworkStacks& stacks,
             const Snapshot& snapshot, const TrainingPhases& phases);
  bool Scales(const Block& block) const;
  // Autocast's copy of a weight, or (in a backward pass) of a gradient.
  bool CastOfWeight(const Block& block) const;
  bool autocast() const { return autocast_; }

 private:
  struct Manner {  // in which a gradient is made
    std::uint32_t node = 0;
    std::uint64_t bytes = 0;
    friend auto operator<=>(const Manner&, const Manner&) = default;
  };
  Manner MannerOf(const Block& block) const;
  bool ScalesInForward(const Block& block) const;
  bool ScalesInBackward(const Block& block) const;

  const Categories& categories_;
  const FrameworkStacks& stacks_;
  const Snapshot& snapshot_;
  const TrainingPhases& phases_;
  bool autocast_ = false;
  std::set<Manner> gradients_;
  std::set<std::uint64_t> weights_;                  // sizes of gradients and parameters
  std::unordered_set<std::size_t> makes_gradients_;  // runs of phases that make gradients which are held
};

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_REPORTS_BATCH_SHARE_H_
