#include "tools/cuheap/display_options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>

namespace cuheap::tools {
namespace {

bool IsCount(const std::string& text) {
  return !text.empty() && text.size() < 10 &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
}

}  // namespace

void DisplayFlags::AddTo(CLI::App& command) {
  command.add_option("--top", top_, "Rows of every table (default: 10)")->type_name("N");
  command.add_option("--color", color_, "auto, always or never (default: auto; NO_COLOR is respected)")
      ->type_name("WHEN");
  command.add_option("--width", width_, "Columns, 80 to 160 (default: the terminal's)")->type_name("N");
}

std::string DisplayFlags::Read(Display* display) const {
  if (!top_.empty() && (!IsCount(top_) || std::stoul(top_) == 0))
    return "--top: use a number from 1, not '" + top_ + "'";
  if (!top_.empty()) display->top = std::stoul(top_);
  // What a canvas can lay out; a terminal of another size gets the nearest.
  if (!width_.empty() && (!IsCount(width_) || std::stoul(width_) < 80 || std::stoul(width_) > 160))
    return "--width: use a number from 80 to 160, not '" + width_ + "'";
  if (!width_.empty()) display->width = std::stoul(width_);
  if (color_ == "always")
    display->color = ColorChoice::kAlways;
  else if (color_ == "never")
    display->color = ColorChoice::kNever;
  else if (!color_.empty() && color_ != "auto")
    return "--color: use auto, always or never, not '" + color_ + "'";
  return {};
}

}  // namespace cuheap::tools
