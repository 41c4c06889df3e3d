// Names of all kinds that would steer the terminal: none gets through, wherever the report prints it.
#include <gtest/gtest.h>

#include <string>

#include "analysis/printable.h"
#include "analysis/reports/report.h"
#include "analysis/reports/report_text.h"
#include "tests/analysis/reports/synthetic.h"

namespace cuheap::analysis {
namespace {

// CSI as a C1 control, an override, a newline that forges a line of ours, CSI of an 8-bit terminal.
const std::string kEvil =
    "x\xC2\x9B"
    "2J\u202Eevil\nNO LEAKS  forged\x9B"
    "1m";

// Every line of the text is printable as it is.
void ExpectClean(const std::string& text) {
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, end - begin);
    EXPECT_EQ(Printable(line), line);
    EXPECT_FALSE(line.starts_with("NO LEAKS")) << line;
    begin = end + 1;
  }
}

TEST(ReportNamesTest, NoNameSteersTheTerminal) {
  SyntheticProgram program;
  Snapshot& raw = program.raw();
  raw.devices[0].name = raw.process.host = raw.process.executable = kEvil;
  raw.process.command_line = {kEvil, kEvil};
  raw.process.working_directory = "/" + kEvil;
  raw.threads[0].name = raw.cuheap_version = kEvil;
  raw.completeness.events_dropped = 1;
  raw.completeness.end = kEvil;
  raw.notes.push_back({kEvil, kEvil, 0, 1, 2});
  const auto end = program.Line("/" + kEvil + "/a.cc", 9, kEvil + "::Step(int)");
  const auto library = program.AddModule("/usr/lib/libcublas.so." + kEvil);
  const auto frames = raw.stacks[end].frames;
  const auto workspace = program.AddStack({frames[0], program.AddFrame("", 0, "", library), frames[1], frames[2]});
  const auto nameless = program.AddStack({frames[0], program.AddFrame("", 0, "", program.AddModule("/opt/" + kEvil))});
  program.Malloc(workspace, 1 << 20);
  program.Malloc(nameless, 1 << 20);
  for (int step = 0; step < 20; ++step) {
    program.Malloc(program.Line(kEvil, 7, kEvil), 1 << 20);
    program.Synchronize(end);
  }
  program.Fails(end, std::uint64_t{9} << 30);
  const Snapshot snapshot = program.Snapshot();
  const Report report = MakeReport(snapshot);
  ASSERT_NE(report.leak_count(), 0u);
  TextOptions options;
  options.stacks = true;
  options.top = 100;
  ExpectClean(RenderText(report, options));
  ExpectClean(RenderSummary(report, options));
}

}  // namespace
}  // namespace cuheap::analysis
