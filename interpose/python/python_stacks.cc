#include "interpose/python/python_stacks.h"

#include <cstdio>

#include "interpose/stacks/loaded_objects.h"

namespace cuheap::python {

void PythonStacks::LookAt(std::uint64_t address) {
  stacks::LoadedObject object;
  if (settled() || !stacks::FindLoadedObject(address, object)) return;
  // A second thread leaves it to the first: the next stack that comes has the interpreter.
  if (looking_.exchange(true, std::memory_order_acq_rel)) return;
  if (!settled()) {
    const char* reason = nullptr;
    char text[200];
    switch (FindInterpreter(object, found_, reason)) {
      case FindResult::kNone:
        break;
      case FindResult::kFound:
        object_ = object;
        interpreter_.store(&found_, std::memory_order_release);
        settled_.store(true, std::memory_order_release);
        std::snprintf(text, sizeof(text), "Python %s: its frames are recorded", found_.version_text);
        recorder_->Note(journal::NoteCode::kSelfCheck, text, 0, 0);
        break;
      case FindResult::kRefused:
        settled_.store(true, std::memory_order_release);
        std::snprintf(text, sizeof(text), "Python %s: %s", found_.version_text, reason);
        recorder_->Note(journal::NoteCode::kPythonOff, text, 0, 0);
        break;
    }
  }
  looking_.store(false, std::memory_order_release);
}

PythonWalk PythonStacks::Walk(std::uint32_t generation, std::uint64_t* words, unsigned max_words,
                              std::uint64_t* anchors) {
  if (!active()) return {};
  if (generation_.load(std::memory_order_relaxed) != generation) [[unlikely]] {
    CheckStillThere(generation);
  }
  const Interpreter* interpreter = interpreter_.load(std::memory_order_acquire);
  if (interpreter == nullptr) return {};
  const bool proven = trust_.load(std::memory_order_relaxed) == Trust::kProven;
  const PythonWalk walk = WalkPython(*interpreter, codes_, !proven, words, max_words, anchors);
  if (proven && !walk.unreadable) [[likely]] {
    return walk;
  }
  return Learn(walk);
}

// A program that embeds Python may unload it.
void PythonStacks::CheckStillThere(std::uint32_t generation) {
  stacks::LoadedObject now;
  const bool same = stacks::FindLoadedObject(reinterpret_cast<std::uint64_t>(found_.is_initialized), now) &&
                    now.begin == object_.begin && now.end == object_.end && now.eh_frame_hdr == object_.eh_frame_hdr;
  if (same) {
    generation_.store(generation, std::memory_order_relaxed);
    return;
  }
  interpreter_.store(nullptr, std::memory_order_release);
  recorder_->Note(journal::NoteCode::kPythonOff, "Python was unloaded", 0, 0);
}

// One walk over frames that all were what they should be proves the layout. One that was not, before any was, shows
// that this build's structures differ; later, that something in this process writes where it should not: from then on
// every walk reads with care again.
PythonWalk PythonStacks::Learn(const PythonWalk& walk) {
  if (!walk.unreadable) {
    Trust none = Trust::kNone;
    if (walk.depth > 0) trust_.compare_exchange_strong(none, Trust::kProven, std::memory_order_relaxed);
    return walk;
  }
  if (trust_.exchange(Trust::kBroken, std::memory_order_relaxed) == Trust::kNone) {
    char text[200];
    interpreter_.store(nullptr, std::memory_order_release);
    std::snprintf(text, sizeof(text), "Python %s: its structures are not those of the release", found_.version_text);
    recorder_->Note(journal::NoteCode::kPythonOff, text, 0, 0);
    return {};
  }
  recorder_->Note(journal::NoteCode::kSelfCheck, "some Python frames could not be read: stacks end before them", 0, 1);
  return walk;
}

bool PythonStacks::Place(const NativeFrames& native, const PythonFrames& python, std::uint16_t* after) const {
  return python::Place(native, python, found_.loop_begin, found_.loop_end, after);
}

}  // namespace cuheap::python
