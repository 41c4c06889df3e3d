#include "analysis/reports/remedies.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <tuple>

#include "analysis/reports/remedy_plans.h"

namespace cuheap::analysis {
namespace {

constexpr std::uint64_t kLeastPercent = 3;  // of the peak, that a remedy saves

bool WorthTelling(std::uint64_t saved, std::uint64_t peak) {
  return saved != 0 && static_cast<double>(saved) * 100 >= static_cast<double>(peak) * kLeastPercent;
}

PeakPlace PlaceOf(const RemedyContext& context, const WhatIfPeak& peak, const WhatIf::Plan& plan) {
  PeakPlace place;
  place.bytes = peak.bytes;
  const Events& events = context.facts.snapshot.events;
  if (peak.at != 0 && peak.at <= events.size()) place.time_ns = events.time_ns[peak.at - 1];
  place.step = context.facts.steps.StepOf(place.time_ns);
  const std::size_t run = context.phases.IndexAt(peak.at);
  if (run < context.phases.runs().size()) place.phase = context.phases.runs()[run].phase;
  place.by_category = context.what_if.ComposeAt(peak.at, plan);
  return place;
}

// Whose blocks are smaller at the old peak than they were.
std::vector<LineBytes> LinesOf(const RemedyContext& context, const WhatIf::Plan& plan) {
  const std::uint64_t at = context.what_if.actual().at;
  std::map<std::uint32_t, LineBytes> by_line;
  for (const Block* block : context.what_if.blocks()) {
    if (block->allocated_at > at || block->freed_at <= at) continue;
    std::uint64_t left = 0;
    plan(*block, [&](const Life& life) {
      if (life.begin <= at && at < life.end) left += life.bytes;
    });
    if (left >= block->bytes) continue;
    LineBytes& line = by_line[context.facts.lines.OfStack(block->stack)];
    line.line = context.facts.lines.OfStack(block->stack);
    line.bytes += block->bytes - left;
    ++line.blocks;
  }
  std::vector<LineBytes> lines;
  for (const auto& [index, bytes] : by_line) lines.push_back(bytes);
  std::sort(lines.begin(), lines.end(), [](const LineBytes& a, const LineBytes& b) {
    return std::tie(b.bytes, a.line) < std::tie(a.bytes, b.line);
  });
  return lines;
}

// See Note [Other GPUs]. The entries are sorted.
void DropExamples(const RemedyContext& context, RemedyList& entries) {
  if (entries.empty() || SeveralRanks(context)) return;
  entries.erase(std::remove_if(std::next(entries.begin()), entries.end(), [](const Remedy& one) { return one.example; }),
                entries.end());
}

Remedies OfDevice(const RunFacts& facts, const Scope& scope) {
  const WhatIf what_if(facts.blocks, facts.categories, scope);
  const TrainingPhases phases(what_if.blocks(), facts.stacks);
  const BatchShare batch(what_if.blocks(), facts.categories, facts.stacks, facts.snapshot, phases);
  const RemedyContext context{facts, what_if, phases, batch, scope.tensors};
  Remedies remedies;
  remedies.scope = scope;
  remedies.peak = PlaceOf(context, what_if.actual(), WhatIf::AsItWas);
  TrySmallerBatches(context, remedies.entries);
  TryMixedPrecision(context, remedies.entries);
  TryCheckpointing(context, remedies.entries);
  TryOffloading(context, remedies.entries);
  TryNoGrad(context, remedies.entries);
  TryDetach(context, remedies.entries);
  TryDropGradients(context, remedies.entries);
  TryFreeEarlier(context, remedies.entries);
  TryOptimizers(context, remedies.entries);
  TrySharding(context, remedies.entries);
  std::erase_if(remedies.entries, [&](const Remedy& remedy) {
    return !WorthTelling(remedy.saved, remedies.peak.bytes);
  });
  std::stable_sort(remedies.entries.begin(), remedies.entries.end(),
                   [](const Remedy& a, const Remedy& b) { return a.saved > b.saved; });
  DropExamples(context, remedies.entries);
  return remedies;
}

}  // namespace

Remedy Try(const RemedyContext& context, RemedyKind kind, Confidence confidence, const WhatIf::Plan& plan) {
  const WhatIfPeak& old = context.what_if.actual();
  const WhatIfPeak peak = context.what_if.Replay(plan, old.at);
  Remedy remedy;
  remedy.kind = kind;
  remedy.confidence = confidence;
  remedy.after.bytes = peak.bytes;
  if (peak.bytes >= old.bytes) return remedy;
  remedy.saved = old.bytes - peak.bytes;
  remedy.saved_at_old_peak = old.bytes - std::min(old.bytes, peak.at_other);
  if (!WorthTelling(remedy.saved, old.bytes)) return remedy;  // is left out: spare the rest
  remedy.after = PlaceOf(context, peak, plan);
  remedy.lines = LinesOf(context, plan);
  return remedy;
}

std::vector<Remedies> FindRemedies(const RunFacts& facts) {
  std::set<Scope> scopes;
  for (const Block& block : facts.blocks.program) {
    if (block.is_tensor()) scopes.insert({false, block.device, true});
  }
  for (const Block& block : facts.blocks.program) {
    if (block.framework_tensor() && Blocks::OnDevice(block.kind) && !scopes.contains({false, block.device, true}))
      scopes.insert({false, block.device, false});
  }
  std::vector<Remedies> result;
  for (const Scope& scope : scopes) result.push_back(OfDevice(facts, scope));
  return result;
}

}  // namespace cuheap::analysis
