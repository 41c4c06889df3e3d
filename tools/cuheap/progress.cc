#include "tools/cuheap/progress.h"

#include <unistd.h>

#include <cstdlib>

#include "analysis/printable.h"

namespace cuheap::tools {
namespace {

constexpr std::chrono::milliseconds kPatience(500), kBetween(200);
constexpr std::size_t kPathBytes = 40;  // the line must not wrap: what is written over is one line of the screen

bool IsTerminal() {
  const char* const kind = std::getenv("TERM");
  return isatty(STDERR_FILENO) == 1 && kind != nullptr && std::string_view(kind) != "dumb";
}

std::string Shortened(const std::string& path) {
  const std::string name = analysis::Printable(path.substr(path.find_last_of('/') + 1));
  return name.size() <= kPathBytes ? name : name.substr(0, kPathBytes) + "...";
}

}  // namespace

Progress::Progress(const std::string& path)
    : path_(Shortened(path)), terminal_(IsTerminal()), next_(Clock::now() + kPatience) {}

void Progress::Read(std::uint64_t read_bytes, std::uint64_t file_bytes) {
  if (!Due()) return;
  std::string text = "reading " + path_ + ": ";
  if (file_bytes != 0)
    text += std::to_string(read_bytes * 100 / file_bytes) + " %";
  else
    text += std::to_string(read_bytes >> 20) + " MiB";
  Show(std::move(text));
}

void Progress::Files(std::size_t done, std::size_t total) {
  if (Due()) Show("cuheap: " + std::to_string(done) + " of " + std::to_string(total) + " snapshots read");
}

bool Progress::Due() {
  if (!terminal_ || Clock::now() < next_) return false;
  next_ = Clock::now() + kBetween;
  return true;
}

void Progress::Phase(std::string_view what) {
  if (shown_) Show(std::string(what) + " ...");
}

void Progress::Clear() {
  if (!shown_) return;
  Show("");
  shown_ = false;
}

void Progress::Show(std::string text) {
  shown_ = true;
  // To the line's begin, write, and erase what is left of the text before. Nobody is told of an error.
  text = "\r" + text + "\x1b[K";
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text.data(), text.size());
}

}  // namespace cuheap::tools
