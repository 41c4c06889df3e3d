// What commands print: to a terminal, a pipe or a file.
#ifndef CUHEAP_TOOLS_CUHEAP_STANDARD_OUTPUT_H_
#define CUHEAP_TOOLS_CUHEAP_STANDARD_OUTPUT_H_

#include <string>

#include "analysis/reports/report_text.h"
#include "tools/cuheap/display_options.h"

namespace cuheap::tools {

// Colours, width and characters as the terminal and the environment (NO_COLOR, TERM, LC_ALL) have them.
analysis::TextOptions TextOptionsFor(const Display& display);

// False, and said, if standard output was closed when the command was started.
bool StandardOutputIsOpen();

// Status of the write: a reader that went away (head, less) is no error.
int Print(const std::string& text);

}  // namespace cuheap::tools

#endif  // CUHEAP_TOOLS_CUHEAP_STANDARD_OUTPUT_H_
