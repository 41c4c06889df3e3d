// The Python side of one recorder's stacks: finds the interpreter when its module first shows up in a stack, proves
// that its structures are what the layout says, and reads frames from then on; or says once why it does not.
#ifndef CUHEAP_INTERPOSE_PYTHON_PYTHON_STACKS_H_
#define CUHEAP_INTERPOSE_PYTHON_PYTHON_STACKS_H_

#include <atomic>
#include <cstdint>

#include "interpose/python/code_table.h"
#include "interpose/python/frame_walk.h"
#include "interpose/python/interpreter.h"
#include "interpose/python/placement.h"
#include "interpose/recorder/state.h"
#include "interpose/stacks/loaded_objects.h"

namespace cuheap::python {

class PythonStacks {
 public:
  explicit PythonStacks(recorder::Recorder* recorder) : recorder_(recorder), codes_(recorder) {}

  // An interpreter was found and its frames can be read.
  bool active() const { return interpreter_.load(std::memory_order_acquire) != nullptr; }
  // No module needs to be looked at any more: one was found, whether its frames can be read or not.
  bool settled() const { return settled_.load(std::memory_order_acquire); }

  // Looks for an interpreter in the object that the address lies in. Precondition: something keeps the object loaded.
  // Threads: any; no lock.
  void LookAt(std::uint64_t address);

  // The calling thread's frames; anchors as in WalkPython. Nothing (NoPython::kNotAsked) while not active().
  // generation: counts unloads; in a new one the interpreter's library is looked for again, since it may be gone.
  PythonWalk Walk(std::uint32_t generation, std::uint64_t* words, unsigned max_words, std::uint64_t* anchors = nullptr);
  // Precondition: active(). See placement.h.
  bool Place(const NativeFrames& native, const PythonFrames& python, std::uint16_t* after) const;

 private:
  // How far the layout was seen to be true: every walk reads with care until one went through to its end.
  enum class Trust : int { kNone, kProven, kBroken };
  PythonWalk Learn(const PythonWalk& walk);
  void CheckStillThere(std::uint32_t generation);

  recorder::Recorder* recorder_;
  CodeTable codes_;
  Interpreter found_;
  stacks::LoadedObject object_;  // that found_ lies in
  std::atomic<std::uint32_t> generation_ = 0;
  std::atomic<bool> looking_ = false;  // found_ is being written
  std::atomic<bool> settled_ = false;
  std::atomic<const Interpreter*> interpreter_ = nullptr;
  std::atomic<Trust> trust_ = Trust::kNone;
};

}  // namespace cuheap::python

#endif  // CUHEAP_INTERPOSE_PYTHON_PYTHON_STACKS_H_
