#include "interpose/python/frame_walk.h"

#include <algorithm>

#include "interpose/python/fingerprint.h"
#include "interpose/python/reading.h"

namespace cuheap::python {
namespace {

// Frames that are looked at without being kept: behind the limit, for the end of the activation that the last kept
// frame belongs to; shims and frames that have not begun. A chain of more is no chain but a ring.
constexpr unsigned kMostNotKept = 100'000;

enum class Step { kGoOn, kEnd, kUnreadable };

template <typename Reader>
class Walker {
 public:
  Walker(const Interpreter& interpreter, CodeTable& codes, std::uint64_t* words, unsigned max_words,
         std::uint64_t* anchors)
      : interpreter_(interpreter),
        layout_(*interpreter.layout),
        codes_(codes),
        words_(words),
        max_words_(max_words),
        anchors_(anchors) {}

  PythonWalk Walk(std::uint64_t state) {
    std::uint64_t frame;
    Step step = FirstFrame(state, frame) ? Step::kGoOn : Step::kUnreadable;
    unsigned not_kept = 0;
    while (step == Step::kGoOn && frame != 0) {
      const unsigned before = walk_.depth;
      step = Visit(frame);
      if (walk_.depth == before) ++not_kept;
      if (walk_.truncated && (anchors_ == nullptr || group_begin_ == walk_.depth || not_kept > kMostNotKept)) break;
      if (not_kept > kMostNotKept) step = Step::kUnreadable;
      if (step == Step::kGoOn && !Load(reader_, frame + layout_.frame_previous, frame)) step = Step::kUnreadable;
    }
    walk_.unreadable = step == Step::kUnreadable;
    if (walk_.depth == 0 && !walk_.unreadable) walk_.none = journal::NoPython::kNoFrame;
    return walk_;
  }

 private:
  bool FirstFrame(std::uint64_t state, std::uint64_t& frame) {
    if (layout_.state_cframe != 0 && !Load(reader_, state + layout_.state_cframe, cframe_)) return false;
    if (!Load(reader_, state + layout_.state_frame, frame)) return false;
    return !layout_.frame_through_cframe || Load(reader_, frame + layout_.cframe_frame, frame);
  }

  // One frame, or a shim between two.
  Step Visit(std::uint64_t frame) {
    std::uint8_t owner = 0;
    if (layout_.frame_owner != 0 && !Load(reader_, frame + layout_.frame_owner, owner)) return Step::kUnreadable;
    if (layout_.entry == Entry::kShim && owner >= kOwnedByCStack) {
      EndGroup(frame);
      return Step::kGoOn;
    }
    std::uint64_t code;
    if (!Load(reader_, frame + layout_.frame_code, code)) return Step::kUnreadable;
    if (const Step step = Keep(frame, code, owner); step != Step::kGoOn) return step;
    return layout_.entry == Entry::kShim ? Step::kGoOn : EndGroupHere(frame);
  }

  Step Keep(std::uint64_t frame, std::uint64_t code, std::uint8_t owner) {
    std::uint64_t type;
    if (!Load(reader_, code + kObjectType, type) || type != interpreter_.code_type) return Step::kUnreadable;
    std::uint32_t instruction;
    bool runs;
    if (!ReadPosition(frame, code, owner, instruction, runs)) return Step::kUnreadable;
    if (!runs) return Step::kGoOn;
    if (walk_.depth == max_words_) {
      walk_.truncated = true;
      return Step::kGoOn;
    }
    std::uint64_t fingerprint;
    if (!FingerprintOf(reader_, interpreter_, code, fingerprint)) return Step::kUnreadable;
    std::uint32_t number = codes_.Find(fingerprint);
    if (number == 0) number = codes_.Add(fingerprint, interpreter_, code);
    if (anchors_ != nullptr) anchors_[walk_.depth] = 0;
    words_[walk_.depth++] = journal::MakePythonWord(number, false, instruction);
    return Step::kGoOn;
  }

  // What the frame executes. `runs` is false for a frame that has not begun, and for those that the interpreter makes
  // for itself: _PyFrame_IsIncomplete in CPython's Include/internal/pycore_frame.h, which tracebacks leave out too.
  bool ReadPosition(std::uint64_t frame, std::uint64_t code, std::uint8_t owner, std::uint32_t& instruction,
                    bool& runs) {
    instruction = journal::kNoPythonInstruction;
    runs = true;
    if (layout_.position != Position::kPointer) {
      std::int32_t last;
      if (!Load(reader_, frame + layout_.frame_position, last)) return false;
      if (last >= 0)
        instruction = static_cast<std::uint32_t>(layout_.position == Position::kByteOffset ? last / 2 : last);
    } else {
      std::uint64_t pointer, units;
      std::int32_t first_traceable;
      if (!Load(reader_, frame + layout_.frame_position, pointer) ||
          !Load(reader_, code + layout_.code_first_traceable, first_traceable) ||
          !Load(reader_, code + kObjectSize, units)) {
        return false;
      }
      const std::int64_t bytes = static_cast<std::int64_t>(pointer - (code + layout_.code_bytecode));
      runs = owner == kOwnedByGenerator || bytes / 2 >= first_traceable;
      if (bytes >= 0 && static_cast<std::uint64_t>(bytes) / 2 < units) {
        instruction = static_cast<std::uint32_t>(bytes / 2);
      }
    }
    if (instruction > journal::kNoPythonInstruction) instruction = journal::kNoPythonInstruction;
    return true;
  }

  // Ends the activation if this is its outermost frame.
  Step EndGroupHere(std::uint64_t frame) {
    if (layout_.entry == Entry::kFlagCFrame) {
      std::uint8_t is_entry;
      if (!Load(reader_, frame + layout_.frame_is_entry, is_entry)) return Step::kUnreadable;
      if (is_entry == 0) return Step::kGoOn;
    }
    EndGroup(cframe_);
    if (cframe_ != 0 && !Load(reader_, cframe_ + layout_.cframe_previous, cframe_)) return Step::kUnreadable;
    return Step::kGoOn;
  }

  // The frames since the last one were run by one activation, which has `anchor` on its part of the C stack.
  void EndGroup(std::uint64_t anchor) {
    if (group_begin_ == walk_.depth) return;
    if (!walk_.truncated) words_[walk_.depth - 1] |= journal::kPythonEntered;
    for (; group_begin_ < walk_.depth; ++group_begin_) {
      if (anchors_ != nullptr) anchors_[group_begin_] = anchor;
    }
  }

  const Interpreter& interpreter_;
  const Layout& layout_;
  CodeTable& codes_;
  std::uint64_t* words_;
  const unsigned max_words_;
  std::uint64_t* anchors_;
  Reader reader_;
  PythonWalk walk_;
  unsigned group_begin_ = 0;  // first word of the activation that is being read
  std::uint64_t cframe_ = 0;
};

}  // namespace

PythonWalk WalkPython(const Interpreter& interpreter, CodeTable& codes, bool checked, std::uint64_t* words,
                      unsigned max_words, std::uint64_t* anchors) {
  PythonWalk walk;
  if (interpreter.is_initialized() == 0) {
    walk.none = journal::NoPython::kNotInitialized;
    return walk;
  }
  const auto state = reinterpret_cast<std::uint64_t>(interpreter.this_thread_state());
  if (state == 0) {
    walk.none = journal::NoPython::kUnknownThread;
    return walk;
  }
  if (checked) return Walker<CheckedReader>(interpreter, codes, words, max_words, anchors).Walk(state);
  return Walker<UncheckedReader>(interpreter, codes, words, max_words, anchors).Walk(state);
}

}  // namespace cuheap::python
