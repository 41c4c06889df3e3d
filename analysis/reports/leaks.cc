#include "analysis/reports/leaks.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "analysis/reports/clock_choice.h"
#include "analysis/reports/growth.h"
#include "analysis/reports/kept_graphs.h"
#include "analysis/reports/leak_groups.h"
#include "analysis/reports/leak_joins.h"
#include "analysis/reports/live_trend.h"
#include "analysis/reports/replacers.h"

namespace cuheap::analysis {
namespace {

constexpr std::int64_t kLongSilenceNs = 1'000'000'000;
constexpr std::size_t kFewestByTime = 4;        // blocks that lie before the kept events
constexpr std::size_t kFewestOverTime = 3;      // blocks: two are no trend
constexpr std::size_t kFewestLateSegments = 3;  // in the second half of the steps
constexpr std::uint64_t kFewestPiledUp = 8;     // blocks
constexpr std::ptrdiff_t kFewestSteady = 5;     // segments in a row after one more
constexpr std::uint64_t kFewHostBytes = 1 << 20;
constexpr std::uint64_t kFewestInContext = 4;      // blocks, or steps, of one context that are growth
constexpr std::size_t kFewestSureUses = 10;        // of a model, without steps
constexpr std::uint64_t kScalarBytes = 512;        // what PyTorch rounds a single number to
constexpr std::uint32_t kFewestStepsOfCache = 16;  // for which a quarter is told apart

using Group = BlockGroup;

template <typename Number>
Number Median(std::vector<Number>& numbers) {
  const auto middle = numbers.begin() + static_cast<std::ptrdiff_t>(numbers.size() / 2);
  std::nth_element(numbers.begin(), middle, numbers.end());
  return *middle;
}

class LeakFinder {
 public:
  LeakFinder(const Blocks& blocks, const LineTable& lines, const StepClocks& clocks, const FrameworkStacks& stacks,
             std::int64_t duration_ns)
      : blocks_(blocks),
        lines_(lines),
        clocks_(clocks),
        stacks_(stacks),
        choice_(blocks, clocks),
        duration_ns_(duration_ns),
        kept_(blocks),
        in_graph_(blocks) {
    for (const Block& block : blocks.program) {
      last_at_ = std::max(last_at_, std::uint64_t{block.allocated_at});
      if (block.allocated_at == 0 && block.stack == 0 && block.freed_at != kNoPosition) unknown_.push_back(&block);
    }
    for (const Block& block : blocks.program) {
      if (block.never_freed() || (block.framework_tensor() && (block.freed_at > last_at_ || FreedAtEnd(block))))
        kept_.insert(&block);
    }
    std::vector<const Block*> kept;
    for (const Block& block : blocks.program) {
      if (!unknown_.empty() && kept_.contains(&block)) kept.push_back(&block);
    }
    replacers_ = FindReplacers(unknown_, kept);
  }

  std::vector<CacheGrowth> Caches() const {
    std::map<Scope, Group> caches;
    for (const Block& block : blocks_.program) {
      if (!block.in_framework_cache()) continue;
      const Scope scope{Blocks::OnHost(block.kind), Blocks::OnHost(block.kind) ? 0 : block.device};
      Group& cache = caches[scope];
      cache.scope = scope;
      cache.from_pytorch = true;
      cache.all.push_back(&block);
    }
    std::vector<CacheGrowth> result;
    for (const auto& [scope, cache] : caches) {
      std::vector<const Block*> held;
      std::copy_if(cache.all.begin(), cache.all.end(), std::back_inserter(held),
                   [](const Block* block) { return block->never_freed(); });
      if (held.empty()) continue;
      LeakFinding segments = DescribeCache(cache, held);
      segments.leak_class = LeakClass::kCache;
      const bool growing = CacheGrows(segments, held);
      result.push_back({std::move(segments), growing});
    }
    return result;
  }

  std::vector<LeakFinding> Find() {
    JudgeGraphs();
    for (const Group& group : GroupBlocks(blocks_, lines_, stacks_)) Judge(group);
    for (LeakFinding& finding : findings_) {
      finding.cause = CauseOf(finding);
      if (OfTheLastPass(finding)) {
        finding.leak_class = LeakClass::kHeld;
        finding.shape = GrowthShape::kStopped;
      }
    }
    JoinGradients(findings_);
    FindCompanions(findings_, lines_);
    SortFindings(findings_, lines_);
    return std::move(findings_);
  }

 private:
  // freed in exit handlers, or after the last step although it was allocated before
  bool FreedAtEnd(const Block& block) const {
    if (block.never_freed()) return false;
    if (block.freed_at_shutdown) return true;
    const Steps& steps = clocks_.Of(block.thread);
    return steps.count() != 0 && !choice_.OpenEnd(steps) && steps.StepOf(block.freed_ns) > steps.count() &&
           steps.StepOf(block.allocated_ns) <= steps.count();
  }

  // The first quarter of the steps fills the cache; how fast it grows shows in those after.
  LeakFinding DescribeCache(const Group& cache, const std::vector<const Block*>& held) const {
    LeakFinding whole = Describe(cache, held);
    std::vector<const Block*> later;
    std::copy_if(held.begin(), held.end(), std::back_inserter(later), [&](const Block* block) {
      return 4 * std::uint64_t{clocks_.Of(block->thread).StepOf(block->allocated_ns)} > whole.step_count;
    });
    if (whole.step_count < kFewestStepsOfCache || later.size() < kFewestLateSegments) return whole;
    LeakFinding growth = Describe(cache, later);
    growth.blocks = whole.blocks;
    growth.bytes = whole.bytes;
    growth.reserved_bytes = whole.reserved_bytes;
    return growth;
  }

  // A cache fills up in the first steps, and now and then a step needs a segment more; growth are segments that go on
  // being added. Without steps all that is left is whether the last of all come for one line and at a steady pace,
  // after those of others: a set-up loop is the first, and is followed by others.
  bool CacheGrows(const LeakFinding& segments, const std::vector<const Block*>& held) const {
    if (segments.scope.host && segments.bytes < kFewHostBytes) return false;  // a few buffers more, as events come late
    if (segments.shape == GrowthShape::kEveryStep || segments.shape == GrowthShape::kEveryFewSteps) return true;
    if (segments.shape == GrowthShape::kIrregular) {
      const auto late = std::count_if(segments.steps.begin(), segments.steps.end(),
                                      [&](std::uint32_t step) { return 2 * step > segments.step_count; });
      return static_cast<std::size_t>(late) >= kFewestLateSegments;
    }
    if (segments.shape != GrowthShape::kOverTime || static_cast<std::ptrdiff_t>(held.size()) <= kFewestSteady)
      return false;
    const auto newest = held.end() - kFewestSteady - 1;
    const auto of_last_line = [&](const Block* block) {
      return block->stack != 0 && lines_.OfStack(block->stack) == lines_.OfStack(held.back()->stack);
    };
    if (!std::all_of(newest, held.end(), of_last_line) || std::all_of(held.begin(), newest, of_last_line)) return false;
    std::vector<std::int64_t> gaps;
    for (auto block = newest + 1; block != held.end(); ++block)
      gaps.push_back((*block)->allocated_ns - (*(block - 1))->allocated_ns);
    const std::int64_t longest = *std::max_element(gaps.begin(), gaps.end());
    return longest <= 3 * Median(gaps);
  }

  void Judge(const Group& group) {
    std::vector<const Block*> kept, freed_at_end;
    for (const Block* block : group.all) {
      if (in_graph_.contains(block)) continue;
      if (kept_.contains(block))
        kept.push_back(block);
      else if (FreedAtEnd(*block))
        freed_at_end.push_back(block);
    }
    if (!kept.empty()) JudgeByContext(group, kept);
    // A workspace that PyTorch gave back after the last step did not pile up.
    const bool workspace = !group.library.empty() && group.all.front()->framework_tensor();
    if (freed_at_end.size() > 1 && !workspace) {
      LeakFinding finding = Describe(group, freed_at_end);
      // Without steps a few blocks are as likely the set-up's.
      if (Grows(finding.shape) && (finding.shape != GrowthShape::kOverTime || finding.blocks >= kFewestPiledUp)) {
        finding.leak_class = LeakClass::kFreedAtEnd;
        finding.freed_at_exit = finding.blocks;
        findings_.push_back(std::move(finding));
      }
    }
  }

  // A program that still runs has the gradients of its last backward pass, or of those that it accumulates; without
  // steps nothing tells more.
  bool OfTheLastPass(const LeakFinding& finding) const {
    return blocks_.still_running && finding.cause == LeakCause::kGradient && finding.shape == GrowthShape::kOverTime;
  }

  std::vector<const Block*> KeptOf(const Group& group) const {
    std::vector<const Block*> kept;
    std::copy_if(group.all.begin(), group.all.end(), std::back_inserter(kept),
                 [&](const Block* block) { return kept_.contains(block) && !in_graph_.contains(block); });
    return kept;
  }

  // One finding for each graph that grows; the blocks of others are judged by line.
  void JudgeGraphs() {
    for (KeptGraph& graph : FindKeptGraphs(blocks_, lines_, stacks_, kept_)) {
      Group group;
      group.scope = {false, graph.kept.front()->device};
      group.line = graph.line;
      group.caller = graph.caller;
      group.all = std::move(graph.all);
      LeakFinding finding = Describe(group, graph.kept);
      if (!Grows(finding.shape)) continue;
      if (finding.shape == GrowthShape::kOverTime) PaceOfUses(finding, graph.uses);
      finding.leak_class = LeakClass::kLeak;
      finding.cause = LeakCause::kGraph;
      std::map<std::uint32_t, Group> by_line;
      for (const Block* block : graph.kept) by_line[lines_.OfStack(block->stack)].all.push_back(block);
      for (const auto& [line, part] : by_line) {
        const LeakFinding alone = Describe(part, part.all);
        finding.parts.push_back({line, alone.blocks, alone.bytes, alone.bytes_per_step});
      }
      for (const Block* block : graph.kept) in_graph_.insert(block);
      findings_.push_back(std::move(finding));
    }
    for (LeakFinding& finding : findings_) SortParts(finding);
  }

  // Without steps, the uses of the model are what recurs. That many of them that keep the same are no chance.
  static void PaceOfUses(LeakFinding& finding, std::size_t uses) {
    if (uses < 2) return;
    finding.occurrences = static_cast<std::uint32_t>(uses);
    finding.bytes_per_occurrence = finding.bytes / uses;
    finding.interval_ns = (finding.last_ns - finding.first_ns) / static_cast<std::int64_t>(uses - 1);
    if (uses >= kFewestSureUses) finding.confidence = Confidence::kMedium;
  }

  LeakCause CauseOf(const LeakFinding& finding) const {
    if (finding.cause != LeakCause::kNone) return finding.cause;
    if (!finding.from_pytorch || finding.leak_class != LeakClass::kLeak || finding.stacks.empty())
      return LeakCause::kNone;
    const FrameworkStacks::Facts& facts = stacks_.Of(finding.stacks.front().stack);
    if (facts.optimizer_step) return LeakCause::kOptimizerState;
    if (facts.backward && !facts.python) return LeakCause::kGradient;
    return finding.bytes <= kScalarBytes * finding.blocks ? LeakCause::kScalar : LeakCause::kTensor;
  }

  // The group by the ends of the contexts that released its blocks; kNoPosition: not released by one.
  std::map<std::uint64_t, Group> PartByContext(const Group& group, const std::vector<const Block*>& kept) const {
    std::map<std::uint64_t, Group> lives;
    for (const Block* block : kept) lives.try_emplace(block->context_end, Without(group));
    for (const Block* block : group.all) {
      // What was freed belongs to the life in which it was made.
      auto life = lives.find(block->context_end);
      if (!kept_.contains(block)) life = lives.upper_bound(block->allocated_at);
      (life == lives.end() ? *lives.rbegin() : *life).second.all.push_back(block);
    }
    return lives;
  }

  // Without steps many blocks are as likely what every context is set up with: then others have as many.
  static bool GrewInContext(const LeakFinding& life, std::uint64_t most_in_others) {
    if (!Grows(life.shape)) return false;
    if (life.shape != GrowthShape::kOverTime) return life.occurrences >= kFewestInContext;
    return life.blocks >= kFewestInContext && life.blocks > most_in_others;
  }

  void JudgeByContext(const Group& group, const std::vector<const Block*>& kept) {
    if (std::none_of(kept.begin(), kept.end(), std::mem_fn(&Block::freed_with_context)))
      return JudgeByCaller(group, kept);
    const std::map<std::uint64_t, Group> lives = PartByContext(group, kept);
    std::map<std::uint64_t, LeakFinding> findings;
    for (const auto& [end, life] : lives) findings.emplace(end, Describe(life, KeptOf(life)));
    std::vector<std::uint64_t> counts = {0};
    for (const auto& [end, finding] : findings) counts.push_back(finding.blocks);
    std::sort(counts.begin(), counts.end(), std::greater<>());
    std::vector<Group> growing, gone;
    for (const auto& [end, life] : lives) {
      const LeakFinding& finding = findings.at(end);
      if (GrewInContext(finding, finding.blocks == counts[0] ? counts[1] : counts[0]))
        growing.push_back(life);
      else if (end != kNoPosition)
        gone.push_back(life);
      else if (Grows(finding.shape))
        PushStill(life);
      else
        JudgeByCaller(life, KeptOf(life));
    }
    if (!gone.empty()) PushStill(Together(group, gone));
    if (growing.empty()) return;
    const Group together = Together(group, growing);
    JudgeByCaller(together, KeptOf(together));
  }

  // What is known not to have piled up, whatever its times look like.
  void PushStill(const Group& group) {
    LeakFinding finding = Describe(group, KeptOf(group));
    if (Grows(finding.shape)) {
      finding.shape = GrowthShape::kReplaced;
      finding.bytes_per_step = 0;
    }
    Push(group, std::move(finding));
  }

  void JudgeByCaller(const Group& group, const std::vector<const Block*>& kept) {
    std::vector<Group> parts = PartByCaller(group, lines_);
    // Blocks of one use that replace those of another (loaded first here, then reloaded there) are one series.
    if (parts.empty() || Describe(group, kept).shape == GrowthShape::kReplaced) return JudgeKept(group, kept);
    std::erase_if(parts, [&](const Group& part) { return KeptOf(part).empty(); });
    // By behaviour: the steps in which a part grows; none: it does not.
    std::map<std::pair<GrowthShape, std::vector<std::uint32_t>>, std::vector<Group>> behaviours;
    for (Group& part : parts) {
      LeakFinding alone = Describe(part, KeptOf(part));
      if (!Grows(alone.shape)) alone.shape = GrowthShape::kOnce, alone.steps.clear();
      behaviours[{alone.shape, std::move(alone.steps)}].push_back(std::move(part));
    }
    for (auto& [behaviour, alike] : behaviours) {
      if (alike.size() == 1) {
        JudgeByCaller(alike.front(), KeptOf(alike.front()));
        continue;
      }
      Group together = Together(group, alike);
      JudgeKept(together, KeptOf(together));
    }
  }

  static Group Together(const Group& group, const std::vector<Group>& parts) {
    Group together = Without(group);
    for (const Group& part : parts) together.all.insert(together.all.end(), part.all.begin(), part.all.end());
    std::sort(together.all.begin(), together.all.end(), std::less<>());  // they lie in one vector, by time
    return together;
  }

  void JudgeKept(const Group& group, const std::vector<const Block*>& kept) {
    std::map<std::uint32_t, std::vector<const Block*>> by_stack;
    for (const Block* block : kept) by_stack[block->stack].push_back(block);
    LeakFinding whole = Describe(group, kept);
    if (by_stack.size() == 1) return Push(group, std::move(whole));
    // A wrapper's line: what a stack added in one go has no part in another stack's growth.
    std::vector<const Block*> growing, still;
    for (const auto& [stack, blocks] : by_stack) {
      const LeakFinding alone = DescribeBlocks(group, blocks);
      const bool once_at_start = alone.occurrences == 1 && alone.first_step <= 1 && alone.step_count != 0;
      const bool apart = once_at_start || alone.shape == GrowthShape::kBounded ||
                         (alone.before_window == alone.blocks && !Grows(alone.shape));
      auto& side = Grows(whole.shape) ? (apart ? still : growing) : (Grows(alone.shape) ? growing : still);
      side.insert(side.end(), blocks.begin(), blocks.end());
    }
    if (growing.empty() || still.empty()) return Push(group, std::move(whole));
    const auto by_age = [](const Block* a, const Block* b) {
      return std::tie(a->allocated_ns, a->allocated_at, a->id) < std::tie(b->allocated_ns, b->allocated_at, b->id);
    };
    std::sort(growing.begin(), growing.end(), by_age);
    std::sort(still.begin(), still.end(), by_age);
    Push(group, Describe(group, growing));
    Push(group, Describe(group, still));
  }

  void Push(const Group& group, LeakFinding finding) {
    const bool grows = Grows(finding.shape);
    if (group.from_pytorch)
      finding.leak_class = LeakClass::kCache;
    else if (grows)
      finding.leak_class = LeakClass::kLeak;
    else if (finding.freed_with_context == finding.blocks)
      finding.leak_class = LeakClass::kContext;
    else if (!group.library.empty())
      finding.leak_class = LeakClass::kLibrary;
    else
      finding.leak_class = finding.shape == GrowthShape::kReplaced ? LeakClass::kReplaced : LeakClass::kHeld;
    finding.library = group.library;
    findings_.push_back(std::move(finding));
  }

  // The thread that allocated most of the blocks.
  static std::uint32_t MainThread(const std::vector<const Block*>& blocks) {
    std::map<std::uint32_t, std::size_t> counts;
    std::uint32_t most = blocks.front()->thread;
    for (const Block* block : blocks) ++counts[block->thread];
    for (const auto& [thread, count] : counts) {
      if (count > counts[most]) most = thread;
    }
    return most;
  }

  // blocks: not empty, by time of allocation.
  LeakFinding Describe(const Group& group, const std::vector<const Block*>& blocks) const {
    LeakFinding finding = DescribeBlocks(group, blocks);
    for (const Block* block : group.all) finding.line_frees += block->never_freed() || kept_.contains(block) ? 0 : 1;
    return finding;
  }

  // The same without line_frees: counting those walks the whole group, which is too slow for each of its stacks.
  LeakFinding DescribeBlocks(const Group& group, const std::vector<const Block*>& blocks) const {
    LeakFinding finding;
    finding.scope = group.scope;
    finding.line = group.line;
    finding.caller = group.caller;
    finding.kind = blocks.front()->kind;
    finding.from_pytorch = blocks.front()->allocator == Allocator::kPyTorch;
    finding.line_allocations = group.all.size();
    std::map<std::uint32_t, StackShare> stacks;
    std::vector<Addition> additions;
    std::vector<const Block*> recent;
    std::copy_if(blocks.begin(), blocks.end(), std::back_inserter(recent),
                 [&](const Block* block) { return block->allocated_ns >= blocks_.window_begin_ns; });
    finding.before_window = blocks.size() - recent.size();
    const std::uint32_t thread = MainThread(blocks);
    const Steps* steps = choice_.Of(thread, recent);
    // One block in the window has no rate; the times of the older ones may tell one.
    if (finding.before_window != 0 && recent.size() < 2) steps = nullptr;
    if (steps != nullptr) {
      finding.step_count = steps->count();
      finding.step_thread = steps != &clocks_.main && clocks_.by_thread.size() > 1 ? thread : 0;
    }
    finding.outside_steps = steps == nullptr && clocks_.Of(thread).count() != 0;
    for (const Block* block : blocks) {
      ++finding.blocks;
      finding.bytes += block->bytes;
      finding.reserved_bytes += block->reserved_bytes;
      if (const auto old = replacers_.find(block); old != replacers_.end()) {
        ++finding.replaces.blocks;
        finding.replaces.bytes += old->second;
      }
      finding.freed_with_context += block->freed_with_context ? 1 : 0;
      finding.freed_at_exit += block->never_freed() ? 0 : 1;
      StackShare& share = stacks[block->stack];
      share.stack = block->stack;
      share.bytes += block->bytes;
      ++share.blocks;
    }
    finding.first_ns = std::max<std::int64_t>(0, blocks.front()->allocated_ns);
    finding.last_ns = std::max<std::int64_t>(0, blocks.back()->allocated_ns);
    for (const auto& [stack, share] : stacks) finding.stacks.push_back(share);
    std::sort(finding.stacks.begin(), finding.stacks.end(), [](const StackShare& a, const StackShare& b) {
      return a.bytes != b.bytes ? a.bytes > b.bytes : a.stack < b.stack;
    });
    if (finding.before_window != 0 && recent.size() < 2) {
      DescribeByTimes(finding, blocks);
    } else if (steps == nullptr) {
      DescribeWithoutSteps(finding, group, blocks);
    } else {
      for (const Block* block : recent) additions.push_back({steps->StepOf(block->allocated_ns), block->bytes});
      DescribeSteps(finding, group, blocks, additions);
    }
    const bool tensors = std::all_of(blocks.begin(), blocks.end(), std::mem_fn(&Block::framework_tensor));
    if (Grows(finding.shape) && (Bounded(group, blocks, stacks) || (tensors && HeldAsMuchBefore(group.all, blocks)))) {
      finding.shape = GrowthShape::kBounded;
      finding.bytes_per_step = 0;
    }
    return finding;
  }

  static bool Bounded(const Group& group, const std::vector<const Block*>& blocks,
                      const std::map<std::uint32_t, StackShare>& stacks) {
    std::vector<const Block*> all;
    std::copy_if(group.all.begin(), group.all.end(), std::back_inserter(all),
                 [&](const Block* block) { return stacks.contains(block->stack); });
    return IsBounded(all, blocks);
  }

  void DescribeSteps(LeakFinding& finding, const Group& group, const std::vector<const Block*>& blocks,
                     const std::vector<Addition>& additions) const {
    Growth growth = MeasureGrowth(additions, finding.step_count);
    finding.shape = growth.shape;
    finding.confidence = growth.confidence;
    finding.bytes_per_step = growth.bytes_per_step;
    finding.slope_bytes_per_step = growth.slope_bytes_per_step;
    finding.slope_r2 = growth.slope_r2;
    finding.bytes_per_occurrence = growth.bytes_per_occurrence;
    finding.period = growth.period;
    finding.first_step = growth.steps.front();
    finding.last_step = growth.steps.back();
    finding.occurrences = static_cast<std::uint32_t>(growth.steps.size());
    finding.steps = std::move(growth.steps);
    const std::uint32_t span = finding.last_step - finding.first_step;
    if (AreNewest(group.all, blocks) && (!Grows(finding.shape) || span * 4 < finding.step_count)) {
      finding.shape = GrowthShape::kReplaced;
      finding.bytes_per_step = 0;
    }
  }

  void DescribeWithoutSteps(LeakFinding& finding, const Group& group, const std::vector<const Block*>& blocks) const {
    finding.confidence = Confidence::kLow;
    finding.shape = GrowthShape::kOnce;
    if (blocks.size() == 1) return;
    if (AreNewest(group.all, blocks) || AreFewOfTheLast(group.all, blocks)) {
      finding.shape = GrowthShape::kReplaced;
      return;
    }
    const std::uint64_t last = blocks.back()->allocated_at;
    const bool early = last != 0 && 2 * last < last_at_;
    if (early || FreedUnknown(unknown_, blocks) >= finding.bytes / 10 * 9) {
      if (!early) finding.shape = GrowthShape::kReplaced;
      return;
    }
    const std::int64_t silence = duration_ns_ - finding.last_ns;
    const bool long_silence = silence > kLongSilenceNs && silence > 9 * finding.last_ns;
    if (long_silence || blocks.size() < kFewestOverTime) return;
    finding.shape = GrowthShape::kOverTime;
    Pace(finding, blocks);
  }

  static void Pace(LeakFinding& finding, const std::vector<const Block*>& blocks) {
    std::vector<std::int64_t> gaps;
    std::vector<std::uint64_t> sizes;
    for (std::size_t i = 1; i < blocks.size(); ++i) {
      gaps.push_back(blocks[i]->allocated_ns - std::max<std::int64_t>(0, blocks[i - 1]->allocated_ns));
      sizes.push_back(blocks[i]->bytes);
    }
    finding.interval_ns = Median(gaps);
    finding.bytes_per_occurrence = Median(sizes);
  }

  // For blocks of which at most one lies in the events that were kept: the live table still has their times. Evenly
  // spread until now is growth; a burst, or a long time ago, is not.
  void DescribeByTimes(LeakFinding& finding, const std::vector<const Block*>& blocks) const {
    std::vector<std::int64_t> times_ns;
    for (const Block* block : blocks) {
      if (block->allocated_ns != kBeforeWindow) times_ns.push_back(block->allocated_ns);
    }
    finding.confidence = Confidence::kLow;
    finding.shape = blocks.size() == 1 ? GrowthShape::kOnce : GrowthShape::kStopped;
    if (times_ns.size() < kFewestByTime) return;
    std::int64_t widest_ns = 0;
    for (std::size_t i = 1; i < times_ns.size(); ++i) widest_ns = std::max(widest_ns, times_ns[i] - times_ns[i - 1]);
    const std::int64_t span_ns = times_ns.back() - times_ns.front(), quiet_ns = duration_ns_ - times_ns.back();
    if (2 * widest_ns > span_ns || quiet_ns > 2 * widest_ns || 2 * span_ns < duration_ns_ - times_ns.front()) return;
    finding.shape = GrowthShape::kOverTime;
    Pace(finding, blocks);
  }

  const Blocks& blocks_;
  const LineTable& lines_;
  const StepClocks& clocks_;
  const FrameworkStacks& stacks_;
  ClockChoice choice_;
  std::int64_t duration_ns_;
  std::uint64_t last_at_ = 0;
  std::vector<const Block*> unknown_;  // freed in the window, allocated before it: their lines are not known
  BlockSet kept_;                      // never freed, or what counts as such
  std::unordered_map<const Block*, std::uint64_t> replacers_;
  BlockSet in_graph_;
  std::vector<LeakFinding> findings_;
};

}  // namespace

std::vector<LeakFinding> FindLeaks(const Blocks& blocks, const LineTable& lines, const StepClocks& clocks,
                                   const FrameworkStacks& stacks, std::int64_t duration_ns) {
  return LeakFinder(blocks, lines, clocks, stacks, duration_ns).Find();
}

std::vector<CacheGrowth> MeasureCaches(const Blocks& blocks, const LineTable& lines, const StepClocks& clocks,
                                       const FrameworkStacks& stacks, std::int64_t duration_ns) {
  return LeakFinder(blocks, lines, clocks, stacks, duration_ns).Caches();
}

}  // namespace cuheap::analysis
