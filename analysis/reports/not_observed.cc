#include "analysis/reports/not_observed.h"

#include <algorithm>
#include <set>
#include <utility>

#include "analysis/reports/unseen.h"

namespace cuheap::analysis {
namespace {

std::string Number(std::uint64_t value) { return std::to_string(value); }

class Lister {
 public:
  Lister(const Snapshot& snapshot, const LineTable& lines) : snapshot_(snapshot), lines_(lines) {}

  std::vector<NotObserved> List(bool tensors_missing) {
    Losses();
    Holes();
    Limits(tensors_missing);
    std::stable_sort(list_.begin(), list_.end(),
                     [](const NotObserved& a, const NotObserved& b) { return a.kind < b.kind; });
    return std::move(list_);
  }

 private:
  void Add(ObservationKind kind, std::string code, std::string text) {
    list_.push_back({kind, std::move(code), std::move(text)});
  }

  std::uint64_t CounterOf(const std::string& name) const {
    const auto found = snapshot_.counters.find(name);
    return found == snapshot_.counters.end() ? 0 : found->second;
  }

  void Losses() {
    const Completeness& complete = snapshot_.completeness;
    if (complete.live_dropped != 0) {
      Add(ObservationKind::kLoss, "live_dropped",
          Number(complete.live_dropped) +
              " allocations found no room in the journal: the live set and the leaks lack them.");
    }
    if (complete.events_overwritten != 0 && snapshot_.recorder == "pytorch") {
      Add(ObservationKind::kLoss, "events_overwritten",
          Number(complete.events_overwritten) +
              " blocks were allocated before PyTorch's recording begins, or its ring of events pushed them out: when, "
              "and "
              "what was freed before, is not known. _record_memory_history(max_entries=...) keeps more events.");
    } else if (complete.events_overwritten != 0) {
      Add(ObservationKind::kLoss, "events_overwritten",
          Number(complete.events_overwritten) +
              " events were overwritten by newer ones: steps and timeline begin later, and blocks from before that "
              "were freed "
              "as the program ended are not among the leaks; live blocks and the peak's size are exact all the same. "
              "--event-memory keeps more events.");
    }
    if (complete.events_dropped != 0) {
      Add(ObservationKind::kLoss, "events_dropped",
          Number(complete.events_dropped) +
              " events were never written: the timeline and what made up the peak may lack them.");
    }
    if (complete.stacks_failed != 0) {
      Add(ObservationKind::kLoss, "stacks_failed",
          Number(complete.stacks_failed) + " stacks could not be taken: that memory is charged to \"(no stack)\".");
    }
    if (complete.end == "killed") {
      Add(ObservationKind::kLoss, "killed",
          "The process was killed: what it held then is told as never freed, though it may have been freed later.");
    } else if (complete.end == "quit") {
      Add(ObservationKind::kLoss, "quit",
          "The process ended without its exit handlers (_exit, quick_exit, or exec): what it held then is told as "
          "never "
          "freed.");
    } else if (complete.end == "running" && snapshot_.recorder == "pytorch") {
      Add(ObservationKind::kLoss, "running",
          "PyTorch's snapshot is of one moment: what was held then is told as never freed. It shows the memory of its "
          "cache "
          "alone.");
    } else if (complete.end == "running") {
      Add(ObservationKind::kLoss, "running",
          "The process still ran when this was read: what it held then is told as never freed.");
    } else if (complete.end == "executed") {
      Add(ObservationKind::kLoss, "executed",
          "The process became another program by exec: what it held then went away with it.");
    } else if (complete.end == "unknown") {
      Add(ObservationKind::kLoss, "end_unknown", "How the process ended is not known.");
    }
  }

  void Holes() {
    std::vector<NotObserved> notes;
    for (const Note& note : snapshot_.notes) {
      if (note.code == "self_check" && note.a == note.b) continue;  // all is as it should be
      NotObserved entry{ObservationKind::kUnseen, note.code, DescribeUnseen(note)};
      if (entry.text.empty()) {
        entry.kind = ObservationKind::kHole;
        entry.text = note.code + (note.text.empty() ? "" : ": " + note.text);
      }
      const auto same = [&](const NotObserved& other) { return other.text == entry.text; };
      if (std::none_of(notes.begin(), notes.end(), same)) notes.push_back(std::move(entry));
    }
    for (NotObserved& note : notes) list_.push_back(std::move(note));
    // Those of blocks that found no room are told of as such.
    const std::uint64_t frees = CounterOf("frees_unknown");
    if (const std::uint64_t unknown = frees - std::min(frees, snapshot_.completeness.live_dropped); unknown != 0) {
      Add(ObservationKind::kHole, "frees_unknown",
          Number(unknown) +
              " frees were of addresses whose allocation was not seen: memory comes from somewhere that is not "
              "hooked.");
    }
    if (const std::uint64_t unseen = CounterOf("frees_not_seen"); unseen != 0) {
      Add(ObservationKind::kHole, "frees_not_seen",
          Number(unseen) + " blocks were freed by a way that is not hooked (their addresses came back).");
    }
    if (const std::uint64_t unknown = CounterOf("tensor_frees_unknown"); unknown != 0) {
      Add(ObservationKind::kHole, "tensor_frees_unknown",
          Number(unknown) + " tensors were freed that were not reported when they were made.");
    }
    const auto stacks = snapshot_.configuration.find("CUHEAP_STACKS");
    if (stacks != snapshot_.configuration.end() &&
        (stacks->second == "0" || stacks->second == "off" || stacks->second == "no" || stacks->second == "false")) {
      Add(ObservationKind::kHole, "stacks_off", "Stacks were switched off: no line can be named.");
    }
    LinesMissing();
    if (snapshot_.simulated) {
      Add(ObservationKind::kHole, "simulated",
          "This was a simulated GPU: totals leave out the context, modules loaded later and library workspaces that it "
          "does not model.");
    }
  }

  void Limits(bool tensors_missing) {
    if (tensors_missing) {
      const auto noted = [](const Note& note) { return note.code == "tensor_reports"; };
      const bool why = std::any_of(snapshot_.notes.begin(), snapshot_.notes.end(), noted);
      Add(ObservationKind::kLimit, "pytorch_cache",
          std::string("PyTorch keeps a cache of its own: seen here are its segments, not the tensors inside, since not "
                      "one report about them came") +
              (why ? " (see tensor_reports)." : ": its version calls other functions, or came with other libraries."));
    }
    const auto is_python = [](const Frame& frame) { return frame.kind == FrameKind::kPython; };
    if (PythonSeen() && std::none_of(snapshot_.frames.begin(), snapshot_.frames.end(), is_python)) {
      const auto noted = [](const Note& note) { return note.code == "python_off"; };
      const bool why = std::any_of(snapshot_.notes.begin(), snapshot_.notes.end(), noted);
      Add(ObservationKind::kLimit, "python_lines",
          std::string("Python was loaded, but no Python lines were recorded: native stacks only") +
              (why ? " (see python_off)." : "."));
    }
    Add(ObservationKind::kLimit, "driver_objects",
        "Not tracked: contexts, modules and their globals, local memory, " +
            std::string(snapshot_.counters.contains("events_created") ? "" : "events, streams, ") +
            "graphs, textures, other processes" + Counted() + ".");
  }

  // Events and streams, whose memory is not tracked either.
  std::string Counted() const {
    if (!snapshot_.counters.contains("events_created")) return "";
    return "; events (" + Number(CounterOf("events_created")) + " created, " + Number(CounterOf("events_destroyed")) +
           " destroyed) and streams (" + Number(CounterOf("streams_created")) + ", " +
           Number(CounterOf("streams_destroyed")) + ") are counted, not their memory";
  }

  // User modules that were charged without a line.
  void LinesMissing() {
    std::set<std::string> modules;
    for (std::uint32_t i = 0; i < lines_.size(); ++i) {
      const CodeLine& line = lines_.line(i);
      if (line.module_class == ModuleClass::kUser && line.basis != LineBasis::kLine && !line.module.empty())
        modules.insert(line.module.substr(line.module.rfind('/') + 1));
    }
    if (modules.empty()) return;
    std::string names;
    for (const std::string& module : modules) names += (names.empty() ? "" : ", ") + module;
    Add(ObservationKind::kHole, "no_source_lines",
        "Source lines are not known in " + names + ": build with -g to see them.");
  }

  bool PythonSeen() const {
    const auto is_interpreter = [](const std::string& path) {
      return ClassifyModule(path) == ModuleClass::kInterpreter;
    };
    return is_interpreter(snapshot_.process.executable) ||
           std::any_of(snapshot_.modules.begin(), snapshot_.modules.end(),
                       [&](const Module& module) { return is_interpreter(module.path); });
  }

  const Snapshot& snapshot_;
  const LineTable& lines_;
  std::vector<NotObserved> list_;
};

}  // namespace

std::vector<NotObserved> ListNotObserved(const Snapshot& snapshot, const LineTable& lines, bool tensors_missing) {
  return Lister(snapshot, lines).List(tensors_missing);
}

}  // namespace cuheap::analysis
