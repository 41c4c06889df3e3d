// Note [Unwinding through us]
// The program's exceptions (from a callback that the driver calls), and the unwinding of a cancelled thread, pass
// through hooks as they pass through the driver. It is the program's unwinder that walks then, libgcc_s.so.1, and it
// asks each frame's personality routine what to do. Ours is the one in our static libstdc++, which reads and writes the
// walk's state by the functions of our static libgcc: another copy, perhaps another version, and one whose tables are
// empty until it first throws itself (it aborts on them: tried). So frames of ours have this routine: what our own
// unwinder asks goes to the library's routine, and whoever else asks is told to go on. Our clean-ups do not run in that
// case, which they need not: no lock of ours is held in a call that the program made, and a hook that was left so is
// known to the next (see Note [Calls that come in between]).
#include <unwind.h>

#include "interpose/real_loader.h"

extern "C" {

// The linker gives us every reference to the routine (--wrap), and the original under the second name.
// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming)
_Unwind_Reason_Code __real___gxx_personality_v0(int version, _Unwind_Action actions, _Unwind_Exception_Class kind,
                                                _Unwind_Exception* exception, _Unwind_Context* context);

_Unwind_Reason_Code __wrap___gxx_personality_v0(int version, _Unwind_Action actions, _Unwind_Exception_Class kind,
                                                _Unwind_Exception* exception, _Unwind_Context* context) {
  if (!cuheap::IsOurs(__builtin_return_address(0))) return _URC_CONTINUE_UNWIND;
  return __real___gxx_personality_v0(version, actions, kind, exception, context);
}
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)

}  // extern "C"
