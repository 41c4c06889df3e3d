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
};

// One operation or node while it ran: events of one thread, one behind the other.
struct Execution {
  std::uint32_t name = 0;
  std::uint32_t stack = 0;                    // of its first allocation
  std::uint32_t lines = 0;                    // as in Role
  std::vector<std::size_t> events;            // of a node
  absl::flat_hash_set<std::uint32_t> stacks;  // a stack that comes again is another execution
};

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
      bool engine = false, python = false;
      for (const std::uint32_t frame : snapshot_.stacks[i].frames) {
        if (IsPython(frame)) {
          python = true;
          continue;
        }
        const std::string_view function = FunctionOf(frame);
        if (node.empty()) node = NodeOfFunction(function);
        // The outermost one below Python: inner ones are what it is made of.
        if (const std::string_view found = OperationOfFunction(function); !python && !found.empty()) operation = found;
        engine = engine || function.starts_with("torch::autograd::Engine::");
      }
      if (engine) {
        Stack& stack = snapshot_.stacks[i];
        const std::string name(node);  // interning moves the strings
        stack.backward = strings_.Intern(name);
        if (!python) stack.no_python = strings_.Intern(kBackwardThread);
        if (!python && !name.empty()) roles_[i] = {Role::kNode, stack.backward};
      } else if (python && !operation.empty() && !InOptimizer(snapshot_.stacks[i])) {
        roles_[i] = {Role::kOperation, strings_.Intern(std::string(operation)), KeyOfLines(i)};
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
      Execution* last = operations_.empty() ? nullptr : &operations_.back();
      if (last == nullptr || last->name != role.name || last->stacks.contains(stack) || last->lines != role.lines) {
        operations_.push_back({role.name, stack, role.lines, {}, {}});
        last = &operations_.back();
      }
      last->stacks.insert(stack);
      return;
    }
    threads_.insert(snapshot_.events.thread[event]);
    Execution* last = nodes_.empty() ? nullptr : &nodes_.back();
    if (last == nullptr || last->name != role.name || last->stacks.contains(stack)) {
      nodes_.push_back({role.name, stack, 0, {}, {}});
      last = &nodes_.back();
    }
    last->stacks.insert(stack);
    last->events.push_back(event);
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
      const std::uint32_t forward = (equally_many ? made[made.size() - 1 - i] : made[0])->stack;
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
    for (const auto& [event, forward] : forward_of_event_) {
      std::uint32_t& stack = snapshot_.events.stack[event];
      stack = WithForward(stack, forward);
      if (snapshot_.events.id[event] != 0) stack_of_block[snapshot_.events.id[event]] = stack;
    }
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
