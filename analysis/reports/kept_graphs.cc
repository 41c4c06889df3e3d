#include "analysis/reports/kept_graphs.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

namespace cuheap::analysis {
namespace {

constexpr std::uint64_t kScalarBytes = 512;  // what PyTorch rounds a single number to
constexpr std::size_t kFewestKeptUses = 3;
constexpr std::size_t kFewestResults = 2;
constexpr std::size_t kManyResults = 4;
constexpr double kMost = 0.6, kAlmostAll = 0.8, kNearlyAll = 0.95;
constexpr std::size_t kNoUnit = std::numeric_limits<std::size_t>::max();

// A way into a model, on one device and thread.
struct Unit {
  std::vector<std::uint32_t> way;  // lines from the one that enters outward
  std::vector<const Block*> all, kept;
  std::size_t uses = 0, kept_uses = 0;          // runs of allocations without another line's between
  std::size_t outlived = 0, outlived_kept = 0;  // of uses that keep something
  std::size_t ends_in_scalar = 0;               // kept uses that end with a single number
  std::map<std::uint32_t, std::size_t> kept_by_stack;
  std::size_t results = 0;   // stacks that keep the result of an operator again and again
  std::size_t repeated = 0;  // how often they do so more than once in a use
  bool of_module = false;    // one of them lies in a model

  // Nearly all that outlived its uses; of data, part is enough: a graph keeps the batch, but not always the targets.
  bool kept_enough() const {
    return kept_uses >= kFewestKeptUses &&
           (results == 0 || static_cast<double>(outlived_kept) >= kMost * static_cast<double>(outlived));
  }
};

class GraphFinder {
 public:
  GraphFinder(const LineTable& lines, const FrameworkStacks& stacks, const BlockSet& kept)
      : lines_(lines), stacks_(stacks), kept_(kept) {}

  std::vector<KeptGraph> Find(const Blocks& blocks) {
    std::vector<const Block*> tensors;
    for (const Block& block : blocks.program) {
      // A library's workspace is no part of what the program reckons.
      if (block.framework_tensor() && lines_.LibraryOfStack(block.stack).empty()) tensors.push_back(&block);
    }
    std::sort(tensors.begin(), tensors.end(),
              [](const Block* a, const Block* b) { return a->allocated_at < b->allocated_at; });
    for (const Block* block : tensors) Add(block);
    for (auto& [thread, run] : runs_) End(run, kNoPosition);
    for (Unit& unit : units_) CountResults(unit);
    return Graphs();
  }

 private:
  // What a thread does: the use that goes on, and what the next use may be a part of with it.
  struct Run {
    std::size_t unit = kNoUnit;
    std::vector<const Block*> blocks;
    std::vector<std::size_t> before;  // kept: data since the last use of another kind, and that use
  };

  std::size_t UnitOf(const Block& block) {
    const FrameworkStacks::Facts& facts = stacks_.Of(block.stack);
    if (!facts.python || facts.backward || facts.optimizer_step) return kNoUnit;
    const auto [entry, added] = unit_of_stack_.try_emplace({block.device, block.thread, block.stack}, units_.size());
    if (!added) return entry->second;
    std::vector<std::uint32_t> way{lines_.OfStack(block.stack)};
    const std::vector<std::uint32_t>& callers = lines_.CallersOfStack(block.stack);
    way.insert(way.end(), callers.begin(), callers.end());
    way.erase(way.begin(), way.begin() + static_cast<std::ptrdiff_t>(lines_.EntryOfStack(block.stack)));
    const auto [known, is_new] = unit_of_way_.try_emplace({block.device, block.thread, way}, units_.size());
    if (is_new) {
      units_.emplace_back();
      units_.back().way = std::move(way);
    }
    return entry->second = known->second;
  }

  // Blocks come by time. A run ends with another line's allocation in the same thread, or with a backward pass or an
  // optimizer's step in any.
  void Add(const Block* block) {
    const std::size_t unit = UnitOf(*block);
    if (unit != kNoUnit) {
      units_[unit].all.push_back(block);
      if (kept_.contains(block)) units_[unit].kept.push_back(block);
    }
    if (block->allocated_at == 0) return;
    if (unit == kNoUnit) {
      for (auto& [thread, run] : runs_) {
        End(run, block->allocated_at);
        run.before.clear();
      }
      return;
    }
    Run& run = runs_[block->thread];
    if (run.unit != unit) End(run, block->allocated_at);
    run.unit = unit;
    run.blocks.push_back(block);
  }

  void End(Run& run, std::uint64_t at) {
    if (run.unit == kNoUnit) return;
    Unit& unit = units_[run.unit];
    ++unit.uses;
    const auto keeps = [&](const Block* block) { return kept_.contains(block); };
    const auto kept = static_cast<std::size_t>(std::count_if(run.blocks.begin(), run.blocks.end(), keeps));
    if (kept != 0) {
      ++unit.kept_uses;
      unit.outlived_kept += kept;
      unit.outlived +=
          kept + static_cast<std::size_t>(std::count_if(run.blocks.begin(), run.blocks.end(), [&](const Block* block) {
            return !keeps(block) && block->freed_at > at;
          }));
      if (run.blocks.back()->bytes <= kScalarBytes) ++unit.ends_in_scalar;
      for (const Block* block : run.blocks) {
        if (keeps(block)) ++unit.kept_by_stack[block->stack];
      }
    }
    // Data is a part of the graph that uses it next, not of the one before.
    const bool data =
        std::none_of(run.blocks.begin(), run.blocks.end(), [&](const Block* block) { return IsResult(block->stack); });
    if (!data) {
      for (const std::size_t before : run.before) follows_[{before, run.unit}] += kept != 0 ? 1 : 0;
      run.before.clear();
    }
    if (kept != 0 && std::find(run.before.begin(), run.before.end(), run.unit) == run.before.end())
      run.before.push_back(run.unit);
    run.unit = kNoUnit;
    run.blocks.clear();
  }

  // Of an operator that reckons.
  bool IsResult(std::uint32_t stack) const {
    const FrameworkStacks::Facts& facts = stacks_.Of(stack);
    return facts.module_call || (!facts.operation.empty() && !MakesData(facts.operation));
  }

  void CountResults(Unit& unit) const {
    for (const auto& [stack, count] : unit.kept_by_stack) {
      if (!IsResult(stack) || 2 * count < unit.kept_uses) continue;
      ++unit.results;
      // Layers of an nn.Sequential have one stack.
      unit.repeated += (2 * count + unit.kept_uses) / (2 * unit.kept_uses) - 1;
      unit.of_module = unit.of_module || stacks_.Of(stack).module_call;
    }
  }

  // Units that follow each other and are kept alike, by union-find.
  std::vector<std::size_t> Joined() const {
    std::vector<std::size_t> leader(units_.size());
    std::iota(leader.begin(), leader.end(), 0);
    const auto find = [&](std::size_t unit) {
      while (leader[unit] != unit) unit = leader[unit];
      return unit;
    };
    for (const auto& [pair, count] : follows_) {
      const Unit &first = units_[pair.first], &second = units_[pair.second];
      if (!first.kept_enough() || !second.kept_enough()) continue;
      if (5 * count >= 4 * std::min(first.kept_uses, second.kept_uses)) leader[find(pair.first)] = find(pair.second);
    }
    for (std::size_t unit = 0; unit < leader.size(); ++unit) leader[unit] = find(unit);
    return leader;
  }

  std::vector<KeptGraph> Graphs() const {
    const std::vector<std::size_t> leader = Joined();
    std::map<std::size_t, std::vector<std::size_t>> groups;
    for (std::size_t unit = 0; unit < units_.size(); ++unit) groups[leader[unit]].push_back(unit);
    std::vector<KeptGraph> graphs;
    for (const auto& [lead, members] : groups) {
      std::size_t results = 0, repeated = 0, outlived = 0, outlived_kept = 0;
      bool with_loss = false, whole = true, of_module = false, with_batch = false;
      for (const std::size_t member : members) {
        const Unit& unit = units_[member];
        whole = whole && unit.kept_enough();
        results += unit.results;
        repeated += unit.repeated;
        of_module = of_module || unit.of_module;
        with_batch = with_batch || unit.results == 0;
        if (unit.results == 0) continue;
        outlived += unit.outlived;
        outlived_kept += unit.outlived_kept;
        with_loss = with_loss || 2 * unit.ends_in_scalar >= unit.kept_uses;
      }
      const double share = outlived == 0 ? 0 : static_cast<double>(outlived_kept) / static_cast<double>(outlived);
      // With the loss in it there is no doubt; without, many tensors of which only an output or two went are a graph.
      const double least = with_loss ? kMost : (results >= kManyResults ? kAlmostAll : kNearlyAll);
      // A cell that saves one result only (a state that is carried on), or layers with one stack: the batch is kept
      // with it, as the first layer's gradients need it. Outputs that are collected do without their batch.
      const bool with_its_batch = of_module && with_batch && results + repeated >= 1 && share >= kNearlyAll;
      if (whole && ((results >= kFewestResults && share >= least) || with_its_batch))
        graphs.push_back(GraphOf(members));
    }
    return graphs;
  }

  KeptGraph GraphOf(const std::vector<std::size_t>& members) const {
    KeptGraph graph;
    std::uint64_t most = 0;
    const Unit* entry = nullptr;
    for (const std::size_t member : members) {
      const Unit& unit = units_[member];
      graph.all.insert(graph.all.end(), unit.all.begin(), unit.all.end());
      std::uint64_t bytes = 0;
      for (const Block* block : unit.kept) {
        // The last use's temporaries, if nothing is allocated after they are freed; a workspace of the first use.
        const auto found = unit.kept_by_stack.find(block->stack);  // not those from before the window
        if (found != unit.kept_by_stack.end() && 2 * found->second < unit.kept_uses) continue;
        graph.kept.push_back(block);
        bytes += block->bytes;
      }
      if (unit.results != 0 && (entry == nullptr || bytes > most)) entry = &unit, most = bytes;
    }
    for (auto* list : {&graph.all, &graph.kept}) std::sort(list->begin(), list->end(), std::less<>());
    graph.line = entry->way.front();
    graph.uses = entry->kept_uses;
    const bool shared = std::any_of(units_.begin(), units_.end(), [&](const Unit& other) {
      return &other != entry && other.way.front() == graph.line && other.way != entry->way;
    });
    if (shared && entry->way.size() > 1) graph.caller = entry->way[1];
    return graph;
  }

  const LineTable& lines_;
  const FrameworkStacks& stacks_;
  const BlockSet& kept_;
  std::vector<Unit> units_;
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>, std::size_t> unit_of_stack_;
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::vector<std::uint32_t>>, std::size_t> unit_of_way_;
  std::map<std::uint32_t, Run> runs_;  // by thread: the one that goes on
  std::map<std::pair<std::size_t, std::size_t>, std::size_t> follows_;
};

}  // namespace

std::vector<KeptGraph> FindKeptGraphs(const Blocks& blocks, const LineTable& lines, const FrameworkStacks& stacks,
                                      const BlockSet& kept) {
  return GraphFinder(lines, stacks, kept).Find(blocks);
}

}  // namespace cuheap::analysis
