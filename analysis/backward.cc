#include "analysis/backward.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "analysis/autograd_names.h"
#include "analysis/interner.h"

namespace cuheap::analysis {
namespace {

// What one stack is to the pairing.
struct Role {
  enum Kind { kNeither, kOperation, kNode } kind = kNeither;
  std::uint32_t name = 0;   // string: the operation "addmm", the node "AddmmBackward0"
  std::uint32_t lines = 0;  // of an operation: equal for equal Python frames
  std::uint64_t place = 0;  // of a node: where in its code it called what allocated
};

struct Allocation {
  std::uint32_t stack = 0;
  std::uint64_t bytes = 0;
  std::uint64_t place = 0;
};

// One operation or node while it ran: allocations one behind the other.
struct Execution {
  std::uint32_t name = 0;
  std::uint32_t lines = 0;  // as in Role
  Allocation first, last;
  std::vector<std::size_t> events;
};

// The allocation is one of the same execution. It is another one's that begins with the same stack again, or goes back
// in the node's code. The same stack twice in a row is a loop over equal pieces (a convolution image by image), or,
// with another size, another execution.
bool GoesOn(const Execution& execution, const Role& role, const Allocation& next) {
  if (execution.name != role.name || execution.lines != role.lines || next.place < execution.last.place) return false;
  if (next.stack == execution.last.stack) return next.bytes == execution.last.bytes;
  return next.stack != execution.first.stack;
}

class Explainer {
 public:
  explicit Explainer(Snapshot& snapshot)
      : snapshot_(snapshot), strings_(snapshot.strings), frames_(snapshot.frames), stacks_(snapshot.stacks) {}

  void Explain() {
    NameNodes();
    for (std::size_t event = 0; event < snapshot_.events.size(); ++event) {
      if (snapshot_.events.type[event] == EventType::kAllocate) Visit(event);
    }
    EndPass();
    Rewrite();
  }

 private:
  std::string_view FunctionOf(std::uint32_t frame) const { return snapshot_.strings[snapshot_.frames[frame].function]; }
  bool IsPython(std::uint32_t frame) const { return snapshot_.frames[frame].kind == FrameKind::kPython; }

  void NameNodes() {
    const std::size_t count = snapshot_.stacks.size();
    roles_.resize(count);
    for (std::size_t i = 0; i < count; ++i) {
      std::string_view node, operation;
      std::uint64_t place = 0;
      bool engine = false, python = false;
      for (const std::uint32_t frame : snapshot_.stacks[i].frames) {
        if (IsPython(frame)) {
          python = true;
          continue;
        }
        const std::string_view function = FunctionOf(frame);
        if (node.empty()) {
          node = NodeOfFunction(function);
          // A generated node does its work in X_apply_functional, which X::apply calls.
          const bool works = function.find("_apply_functional(") != std::string_view::npos;
          if (place == 0 && (works || !node.empty())) place = snapshot_.frames[frame].offset;
        }
        // The outermost one below Python: inner ones are what it is made of.
        if (const std::string_view found = OperationOfFunction(function); !python && !found.empty()) operation = found;
        engine = engine || function.starts_with("torch::autograd::Engine::");
      }
      if (engine) {
        Stack& stack = snapshot_.stacks[i];
        const std::string name(node);  // interning moves the strings
        stack.backward = strings_.Intern(name);
        if (!python) stack.no_python = strings_.Intern(kBackwardThread);
        if (!python && !name.empty()) roles_[i] = {Role::kNode, stack.backward, 0, place};
      } else if (python && !operation.empty() && !InOptimizer(snapshot_.stacks[i])) {
        roles_[i] = {Role::kOperation, strings_.Intern(std::string(operation)), KeyOfLines(i), 0};
      }
    }
  }

  // The optimizer's operations make no nodes.
  bool InOptimizer(const Stack& stack) const {
    return std::any_of(stack.frames.begin(), stack.frames.end(), [&](std::uint32_t frame) {
      return IsPython(frame) &&
             snapshot_.strings[snapshot_.frames[frame].file].find("/torch/optim/") != std::string::npos;
    });
  }

  void Visit(std::size_t event) {
    const std::uint32_t stack = snapshot_.events.stack[event];
    const Role role = stack < roles_.size() ? roles_[stack] : Role{};
    if (role.kind == Role::kNeither) return;
    if (role.kind == Role::kOperation) {
      if (!nodes_.empty()) EndPass();
    } else {
      threads_.insert(snapshot_.events.thread[event]);
    }
    std::vector<Execution>& executions = role.kind == Role::kOperation ? operations_ : nodes_;
    const Allocation allocation{stack, snapshot_.events.bytes[event], role.place};
    if (executions.empty() || !GoesOn(executions.back(), role, allocation)) {
      executions.push_back({role.name, role.lines, allocation, allocation, {}});
    }
    executions.back().last = allocation;
    executions.back().events.push_back(event);
  }

  std::vector<std::uint32_t> PythonOf(std::uint32_t stack) const {
    std::vector<std::uint32_t> frames;
    for (const std::uint32_t frame : snapshot_.stacks[stack].frames) {
      if (IsPython(frame)) frames.push_back(frame);
    }
    return frames;
  }
  std::uint32_t KeyOfLines(std::size_t stack) {
    return lines_.try_emplace(PythonOf(static_cast<std::uint32_t>(stack)), static_cast<std::uint32_t>(lines_.size()))
        .first->second;
  }

  // A backward pass is over: pairs its nodes with the operations since the one before.
  void EndPass() {
    if (threads_.size() == 1) {
      std::map<std::uint32_t, std::vector<const Execution*>> by_kind;
      for (const Execution& node : nodes_) by_kind[node.name].push_back(&node);
      for (const auto& [kind, nodes] : by_kind) PairOff(kind, nodes);
    }
    operations_.clear();
    nodes_.clear();
    threads_.clear();
  }

  void PairOff(std::uint32_t kind, const std::vector<const Execution*>& nodes) {
    std::vector<const Execution*> made;
    for (const Execution& operation : operations_) {
      if (DoesMake(operation.name, kind)) made.push_back(&operation);
    }
    if (made.empty()) return;
    const bool equally_many = made.size() == nodes.size();
    const bool one_line =
        std::all_of(made.begin(), made.end(), [&](const Execution* other) { return other->lines == made[0]->lines; });
    if (!equally_many && !one_line) return;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      const std::uint32_t forward = (equally_many ? made[made.size() - 1 - i] : made[0])->first.stack;
      for (const std::size_t event : nodes[i]->events) forward_of_event_[event] = forward;
    }
  }

  bool DoesMake(std::uint32_t operation, std::uint32_t node) {
    const auto [known, fresh] = makes_.try_emplace(std::pair(operation, node), false);
    if (fresh) known->second = Makes(snapshot_.strings[operation], snapshot_.strings[node]);
    return known->second;
  }

  // Stacks of their own for the events whose forward line is known, and for the blocks that these allocated.
  void Rewrite() {
    absl::flat_hash_map<std::uint64_t, std::uint32_t> stack_of_block;
    auto next = forward_of_event_.begin();
    snapshot_.events.stack.Transform([&](std::size_t event, std::uint32_t stack) {
      if (next == forward_of_event_.end() || next->first != event) return stack;
      stack = WithForward(stack, next->second);
      if (snapshot_.events.id[event] != 0) stack_of_block[snapshot_.events.id[event]] = stack;
      ++next;
      return stack;
    });
    for (auto* table : {&snapshot_.live, &snapshot_.segments}) {
      for (LiveAllocation& allocation : *table) {
        if (const auto found = stack_of_block.find(allocation.id); found != stack_of_block.end()) {
          allocation.stack = found->second;
        }
      }
    }
  }

  std::uint32_t WithForward(std::uint32_t backward, std::uint32_t forward) {
    const auto [known, fresh] = with_forward_.try_emplace(std::pair(backward, forward), 0);
    if (!fresh) return known->second;
    Stack stack = snapshot_.stacks[backward];
    const std::uint32_t reason = strings_.Intern(kForwardOf + snapshot_.strings[stack.backward]);
    for (const std::uint32_t python : PythonOf(forward)) {
      Frame frame = snapshot_.frames[python];
      frame.reason = reason;
      stack.frames.push_back(frames_.Intern(frame));
    }
    known->second = stacks_.Intern(stack);
    return known->second;
  }

  Snapshot& snapshot_;
  Interner<std::string> strings_;
  Interner<Frame> frames_;
  Interner<Stack> stacks_;
  std::vector<Role> roles_;                                               // by stack
  absl::flat_hash_map<std::vector<std::uint32_t>, std::uint32_t> lines_;  // Python frames to Role::lines
  std::vector<Execution> operations_, nodes_;
  absl::flat_hash_set<std::uint32_t> threads_;  // that ran the nodes
  std::map<std::size_t, std::uint32_t> forward_of_event_;
  absl::flat_hash_map<std::pair<std::uint32_t, std::uint32_t>, bool> makes_;
  absl::flat_hash_map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> with_forward_;
};

}  // namespace

void ExplainBackward(Snapshot& snapshot) { Explainer(snapshot).Explain(); }

}  // namespace cuheap::analysis
