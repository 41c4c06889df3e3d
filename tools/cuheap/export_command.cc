#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "analysis/exports/exporter.h"
#include "analysis/reports/blocks.h"
#include "analysis/text_file.h"
#include "tools/cuheap/commands.h"
#include "tools/cuheap/filter_sink.h"
#include "tools/cuheap/message.h"
#include "tools/cuheap/parquet_export.h"
#include "tools/cuheap/named_snapshot.h"
#include "tools/cuheap/replaced_file.h"

namespace cuheap::tools {
namespace {

namespace fs = std::filesystem;

// Standard output as it is: opening it by name would begin a file again, or replace one.
class StandardOutput final : public analysis::TextSink {
 public:
  void Write(std::string_view text) override {
    if (buffer_.size() + text.size() > kBufferBytes) Flush();
    buffer_.append(text);
  }
  // A reader that went away (head, less) is no error.
  absl::Status Finish() override {
    Flush();
    if (error_ == 0 || error_ == EPIPE) return absl::OkStatus();
    return absl::UnknownError("standard output: writing failed: " + std::string(std::strerror(error_)) +
                              "; make room, or name another file with -o");
  }

 private:
  static constexpr std::size_t kBufferBytes = 256u << 10;

  void Flush() {
    for (std::size_t at = 0; at < buffer_.size() && error_ == 0;) {
      const ssize_t written = write(STDOUT_FILENO, buffer_.data() + at, buffer_.size() - at);
      if (written >= 0)
        at += static_cast<std::size_t>(written);
      else if (errno != EINTR)
        error_ = errno;
    }
    buffer_.clear();
  }

  std::string buffer_;
  int error_ = 0;
};

// "runs/first.json.zst" is "first".
std::string StemOf(const std::string& path) {
  std::string name = fs::path(path).filename().string();
  for (const std::string_view extension : {".zst", ".json", ".pickle", ".pkl"}) {
    if (name.size() > extension.size() && name.ends_with(extension)) name.resize(name.size() - extension.size());
  }
  return name;
}

bool StandardOutputIsClosed() {
  // What comes through exec is never close-on-exec: this is what SecureStandardDescriptors put in a closed one's place.
  const int flags = fcntl(STDOUT_FILENO, F_GETFD);
  return flags < 0 || (flags & FD_CLOEXEC) != 0;
}

// What cannot work is said before a large snapshot is read. Empty: nothing.
std::string Refusal(const ExportOptions& options, const analysis::ExportFormat& format, const std::string& output) {
  struct stat facts{};
  if (stat(options.path.c_str(), &facts) == 0 && S_ISDIR(facts.st_mode))
    return options.path + " is a folder: export takes one snapshot, so name one of its files";
  if (options.path == "-" && options.output.empty())
    return "a snapshot from standard input has no name to call the export by: add -o FILE, or -o - for standard output";
  if (output == "-") {
    if (StandardOutputIsClosed()) return "cannot write the export: standard output is closed";
    if (format.binary && isatty(STDOUT_FILENO) == 1)
      return std::string(format.name) +
             " is binary and standard output is a terminal: use -o FILE, or send it to a program or file";
    return {};
  }
  const std::string refusal = RefusalToReplace(options.path, output);
  return refusal.empty() ? refusal : "-o " + refusal;
}

std::string OpenedBy(const analysis::ExportFormat& format, const std::string& output) {
  std::string text(format.opened_by);
  for (std::size_t at = 0; (at = text.find("FILE", at)) != std::string::npos; at += output.size())
    text.replace(at, 4, output);
  return text;
}

// converter: of a format that is made from CSV; else null.
absl::Status Write(const analysis::Snapshot& snapshot, const ExportOptions& options,
                   const analysis::ExportFormat& format, const std::string& output,
                   std::unique_ptr<FilterSink> converter, std::vector<std::string>& notes) {
  std::unique_ptr<analysis::TextSink> sink = std::make_unique<StandardOutput>();
  if (output != "-") {
    absl::StatusOr<std::unique_ptr<analysis::TextSink>> file = analysis::CreateTextFile(output);
    if (!file.ok()) return file.status();
    sink = *std::move(file);
  }
  if (converter != nullptr) {
    converter->SendTo(std::move(sink));
    converter->Write(ParquetHeader(snapshot));
    sink = std::move(converter);
  }
  analysis::ExportRequest request;
  request.at = options.at;
  if (options.drawn_blocks != 0) request.drawn_blocks = options.drawn_blocks;
  const absl::Status status = format.make()->Write(snapshot, analysis::JoinBlocks(snapshot), request, *sink, notes);
  return status.ok() ? sink->Finish() : status;
}

}  // namespace

int Export(const ExportOptions& options) {
  const analysis::ExportFormat& format = *analysis::FindExportFormat(options.format);
  std::string output = options.output;
  if (output.empty()) output = StemOf(options.path) + std::string(format.extension);
  if (const std::string refusal = Refusal(options, format, output); !refusal.empty()) {
    Say(refusal);
    return kUsageError;
  }
  std::unique_ptr<FilterSink> converter;
  if (format.from_csv) {
    absl::StatusOr<std::unique_ptr<FilterSink>> writer = StartParquetWriter(options.python);
    if (!writer.ok()) {
      Say(std::string(writer.status().message()));
      return kUsageError;
    }
    converter = *std::move(writer);
  }
  Progress progress(options.path);
  const absl::StatusOr<analysis::Snapshot> snapshot = LoadNamed(options.path, progress);
  progress.Clear();
  if (!snapshot.ok()) {
    std::string reason(snapshot.status().message());
    if (absl::IsNotFound(snapshot.status()))
      reason = options.path + " does not exist; cuheap run writes no snapshot for a program that makes no CUDA call";
    Say(reason);
    return kUsageError;
  }
  std::vector<std::string> notes;
  if (const absl::Status status = Write(*snapshot, options, format, output, std::move(converter), notes);
      !status.ok()) {
    Say(std::string(status.message()));
    return kUsageError;
  }
  if (options.quiet) return 0;
  for (const std::string& note : notes) Say(note);
  if (output != "-") Say("wrote " + output + ": " + OpenedBy(format, ShellQuoted(output)));
  return 0;
}

}  // namespace cuheap::tools
