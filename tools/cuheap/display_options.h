// How a command's text is laid out: flags that commands share.
#ifndef CUHEAP_TOOLS_CUHEAP_DISPLAY_OPTIONS_H_
#define CUHEAP_TOOLS_CUHEAP_DISPLAY_OPTIONS_H_

#include <cstddef>
#include <string>

namespace CLI {  // NOLINT(readability-identifier-naming): its own name
class App;
}

namespace cuheap::tools {

enum class ColorChoice { kAuto, kAlways, kNever };

struct Display {
  ColorChoice color = ColorChoice::kAuto;
  std::size_t top = 10;   // rows of every table
  std::size_t width = 0;  // 0: the terminal's, or 100
};

class DisplayFlags {
 public:
  // --top, --color and --width. This must outlive the parsing.
  void AddTo(CLI::App& command);
  // Empty: all is well; else what is wrong.
  std::string Read(Display* display) const;

 private:
  std::string top_, width_, color_;
};

}  // namespace cuheap::tools

#endif  // CUHEAP_TOOLS_CUHEAP_DISPLAY_OPTIONS_H_
