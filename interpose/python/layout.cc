#include "interpose/python/layout.h"

#include <cstring>

namespace cuheap::python {
namespace {

// What a version does not have stays 0.
constexpr Layout kLayouts[] = {
    {.minor = 9,
     .position = Position::kByteOffset,
     .entry = Entry::kEach,
     .state_frame = 24,
     .frame_code = 32,
     .frame_previous = 24,
     .frame_position = 104,
     .code_first_line = 40,
     .code_filename = 104,
     .code_name = 112,
     .code_line_table = 120,
     .string_ascii = 48,
     .string_compact = 72},
    {.minor = 10,
     .position = Position::kUnitOffset,
     .entry = Entry::kEachCFrame,
     .state_frame = 24,
     .state_cframe = 48,
     .cframe_previous = 8,
     .frame_code = 32,
     .frame_previous = 24,
     .frame_position = 96,
     .code_first_line = 40,
     .code_filename = 104,
     .code_name = 112,
     .code_line_table = 120,
     .string_ascii = 48,
     .string_compact = 72},
    {.minor = 11,
     .position = Position::kPointer,
     .entry = Entry::kFlagCFrame,
     .frame_through_cframe = true,
     .state_frame = 56,
     .state_cframe = 56,
     .cframe_frame = 8,
     .cframe_previous = 16,
     .frame_code = 32,
     .frame_previous = 48,
     .frame_position = 56,
     .frame_owner = 69,
     .frame_is_entry = 68,
     .code_first_line = 72,
     .code_filename = 112,
     .code_name = 128,
     .code_line_table = 136,
     .code_first_traceable = 168,
     .code_bytecode = 184,
     .string_ascii = 48,
     .string_compact = 72},
    {.minor = 12,
     .position = Position::kPointer,
     .entry = Entry::kShim,
     .frame_through_cframe = true,
     .state_frame = 56,
     .frame_code = 0,
     .frame_previous = 8,
     .frame_position = 56,
     .frame_owner = 70,
     .code_first_line = 68,
     .code_filename = 112,
     .code_name = 128,
     .code_line_table = 136,
     .code_first_traceable = 176,
     .code_bytecode = 192,
     .string_ascii = 40,
     .string_compact = 56},
    {.minor = 13,
     .position = Position::kPointer,
     .entry = Entry::kShim,
     .state_frame = 72,
     .frame_code = 0,
     .frame_previous = 8,
     .frame_position = 56,
     .frame_owner = 70,
     .code_first_line = 68,
     .code_filename = 112,
     .code_name = 128,
     .code_line_table = 136,
     .code_first_traceable = 184,
     .code_bytecode = 200,
     .string_ascii = 40,
     .string_compact = 56},
};

}  // namespace

const Layout* LayoutOf(unsigned major, unsigned minor) {
  if (major != 3) return nullptr;
  for (const Layout& layout : kLayouts) {
    if (layout.minor == minor) return &layout;
  }
  return nullptr;
}

bool Agrees(const Layout& layout, const DebugOffsets& offsets) {
  return std::memcmp(offsets.cookie, "xdebugpy", sizeof(offsets.cookie)) == 0 && offsets.version >> 24 == 3 &&
         ((offsets.version >> 16) & 0xFF) == layout.minor && offsets.free_threaded == 0 &&
         offsets.state.current_frame == layout.state_frame && offsets.frame.previous == layout.frame_previous &&
         offsets.frame.executable == layout.frame_code && offsets.frame.position == layout.frame_position &&
         offsets.frame.owner == layout.frame_owner && offsets.code.filename == layout.code_filename &&
         offsets.code.qualified_name == layout.code_name && offsets.code.line_table == layout.code_line_table &&
         offsets.code.first_line == layout.code_first_line && offsets.code.bytecode == layout.code_bytecode;
}

}  // namespace cuheap::python
