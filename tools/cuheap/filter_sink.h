// Another program between us and a file: what is written goes to its standard input, what it prints goes on.
#ifndef CUHEAP_TOOLS_CUHEAP_FILTER_SINK_H_
#define CUHEAP_TOOLS_CUHEAP_FILTER_SINK_H_

#include <sys/types.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "analysis/text_file.h"

namespace cuheap::tools {

// The program is started without a shell, by its name in PATH or its path, and is ended if this goes before Finish().
// Both directions are served at once, so neither side can wait for the other for ever.
class FilterSink final : public analysis::TextSink {
 public:
  // ready: the line that the program prints first, once it knows that it can work.
  // Errors: NotFound or PermissionDenied (it cannot be started), FailedPrecondition (it ended before it was ready: the
  // message is the last line of its standard error).
  static absl::StatusOr<std::unique_ptr<FilterSink>> Start(const std::vector<std::string>& command,
                                                           std::string_view ready);
  FilterSink(const FilterSink&) = delete;
  FilterSink& operator=(const FilterSink&) = delete;
  ~FilterSink() override;

  // Where the program's output goes. Before the first Write().
  void SendTo(std::unique_ptr<analysis::TextSink> sink) { sink_ = std::move(sink); }

  void Write(std::string_view text) override;
  // Waits for the program's end. Errors: Internal (it failed: with the last line of its standard error), or the sink's.
  absl::Status Finish() override;

 private:
  FilterSink(pid_t pid, std::string name, int input, int output, int complaints)
      : pid_(pid), name_(std::move(name)), input_(input), output_(output), complaints_(complaints) {}

  absl::Status AwaitReady(std::string_view ready);
  // Sends the text, taking what comes meanwhile; without text, until the program's output ends.
  void Exchange(std::string_view text);
  void TakeOutput();
  void TakeComplaints();
  int Reap();
  std::string LastComplaint() const;

  pid_t pid_;
  std::string name_;
  int input_, output_, complaints_;  // descriptors; -1: closed
  std::string buffer_, said_;
  std::unique_ptr<analysis::TextSink> sink_;
};

}  // namespace cuheap::tools

#endif  // CUHEAP_TOOLS_CUHEAP_FILTER_SINK_H_
