#include "tools/simcuda/driver/log.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "tools/simcuda/driver/call.h"
#include "tools/simcuda/driver/state.h"

namespace simcuda {
namespace {

std::string ExpandProcessId(std::string path) {
  for (size_t at = path.find("%p"); at != std::string::npos; at = path.find("%p", at)) {
    path.replace(at, 2, std::to_string(getpid()));
  }
  return path;
}

std::string Hexadecimal(uint64_t value) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value));
  return text;
}

}  // namespace

void Log::Open(const std::string& path) {
  if (path.empty()) return;
  const std::string name = ExpandProcessId(path);
  descriptor_ = open(name.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (descriptor_ < 0) {
    std::fprintf(stderr, "simcuda: cannot write SIMCUDA_LOG %s: %s\n", name.c_str(), std::strerror(errno));
    return;
  }
  Note("simcuda log 1 pid=" + std::to_string(getpid()));
}

void Log::Write(const std::string& line) {
  const std::string text = line + "\n";
  // A short write (full disk) cannot be repaired without breaking the one-write rule; the lost line shows as a gap in
  // the sequence numbers.
  [[maybe_unused]] const ssize_t written = write(descriptor_, text.data(), text.size());
}

void Log::Note(const std::string& text) {
  if (enabled()) Write("# " + text);
}

LogLine::LogLine(const Call& call) {
  text_ = std::to_string(State::Get().log.NextSequence()) + " " + std::to_string(gettid()) + " " + call.info().name;
}

void LogLine::Raw(const char* key, const std::string& value) {
  text_ += ' ';
  text_ += key;
  text_ += '=';
  text_ += value;
}

void LogLine::Text(const char* key, const char* value) {
  if (value == nullptr) return Raw(key, "null");
  std::string quoted = "\"";
  // Names may be long (mangled kernels), files of code longer; the address of a block of code is logged as a pointer.
  for (size_t i = 0; value[i] != '\0' && i < 512; ++i) {
    const char c = value[i];
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c >= ' ' && c < 127 ? c : '?';
  }
  Raw(key, quoted + "\"");
}

void LogLine::Pointer(const char* key, uint64_t value) { Raw(key, Hexadecimal(value)); }
void LogLine::Number(const char* key, int64_t value) { Raw(key, std::to_string(value)); }
void LogLine::Real(const char* key, double value) { Raw(key, std::to_string(value)); }

void LogLine::Result(CUresult result) {
  text_ += " -> " + std::to_string(static_cast<int>(result));
  State::Get().log.Write(text_);
}

}  // namespace simcuda
