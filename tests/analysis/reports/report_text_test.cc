// The report as it is printed. Golden files lie in golden/; after a wanted change: CUHEAP_UPDATE_GOLDEN=1 ctest -R
// report_text.
#include "analysis/reports/report_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "analysis/reports/report_json.h"
#include "analysis/reports/text_format.h"
#include "tests/analysis/reports/synthetic.h"

namespace cuheap::analysis {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr std::uint64_t kMiB = 1 << 20;

// A run with a little of everything.
Snapshot Everything() {
  SyntheticProgram program;
  program.raw().process.working_directory = "/opt/me";
  program.raw().devices[0].driver_free_at_start = 7900 * kMiB;
  program.raw().simulated = true;
  const auto buffer =
      program.Line("/opt/me/src/buffer.h", 9, "(anonymous namespace)::Buffer<float>::Buffer(unsigned long)");
  const auto weights =
      program.Through(buffer, program.Line("/opt/me/src/model.cc", 3, "Model::Load(std::vector<int> const&)"));
  const auto activation = program.Through(buffer, program.Line("/opt/me/src/model.cc", 33, "Model::Forward()"));
  const auto log = program.Line("/opt/me/src/train.cc", 57, "Trainer::LogLoss(void const*)");
  const auto validate = program.Line("/opt/me/src/train.cc", 77, "Trainer::Validate(int)");
  const auto history = program.Line("/opt/me/src/plot.cc", 5, "Plot::Keep()");
  const auto end = program.Line("/opt/me/src/train.cc", 99, "Trainer::Step(int)");
  program.Segment(0x100000000, 64 * kMiB);
  for (int i = 0; i < 4; ++i) program.Malloc(weights, 30 * kMiB);
  program.Malloc(program.Line("/opt/me/src/io.cc", 12, "Reader::Open()"), 8 * kMiB, AllocationKind::kHostPinned);
  std::vector<std::uint64_t> kept;
  for (int step = 1; step <= 60; ++step) {
    const auto block = program.Malloc(activation, 12 * kMiB + 5000, AllocationKind::kDevice, 1);
    program.Place(block, 0x100000000);
    program.Malloc(log, 786'432);
    if (step % 20 == 0) program.Malloc(validate, 5 * kMiB);
    kept.push_back(program.Malloc(history, 1000));
    program.Free(block);
    if (step == 60) program.Fails(activation, 9000 * kMiB);
    program.Synchronize(end);
  }
  for (const auto block : kept) program.Free(block);
  program.raw().completeness.stacks_failed = 3;
  program.raw().notes.push_back({"unknown_address", "cuMemAllocAsync", 0, 0, 0});
  return program.Snapshot();
}

void ExpectGolden(const std::string& name, const std::string& text) {
  const std::string path = std::string(CUHEAP_GOLDEN_DIR) + "/" + name;
  if (std::getenv("CUHEAP_UPDATE_GOLDEN") != nullptr) std::ofstream(path) << text;
  std::ifstream file(path);
  std::stringstream golden;
  golden << file.rdbuf();
  EXPECT_EQ(text, golden.str()) << path;
}

TEST(ReportTextTest, Golden) {
  const Snapshot snapshot = Everything();
  ExpectGolden("everything.txt", RenderText(MakeReport(snapshot)));
}

TEST(ReportTextTest, GoldenNarrowAsciiTopOne) {
  const Snapshot snapshot = Everything();
  TextOptions options;
  options.width = 80;
  options.utf8 = false;
  options.top = 1;
  options.stacks = false;
  ExpectGolden("narrow.txt", RenderText(MakeReport(snapshot), options));
}

TEST(ReportTextTest, GoldenJson) {
  const Snapshot snapshot = Everything();
  ExpectGolden("everything.json", RenderJson(MakeReport(snapshot)));
}

TEST(ReportTextTest, NoLineIsWiderThanAsked) {
  const Snapshot snapshot = Everything();
  for (const std::size_t width : {80u, 100u, 120u}) {
    TextOptions options;
    options.width = width;
    std::istringstream lines(RenderText(MakeReport(snapshot), options));
    for (std::string line; std::getline(lines, line);) EXPECT_LE(Columns(line), width) << line;
  }
}

TEST(ReportTextTest, WithoutUtf8ThereIsOnlyAscii) {
  const Snapshot snapshot = Everything();
  TextOptions options;
  options.utf8 = false;
  for (const char byte : RenderText(MakeReport(snapshot), options)) EXPECT_LT(static_cast<unsigned char>(byte), 0x80);
}

TEST(ReportTextTest, FirstFindingNamesLineCountBytesAndGrowth) {
  const Snapshot snapshot = Everything();
  const std::string text = RenderText(MakeReport(snapshot));
  const std::string first = text.substr(0, text.find("  2  "));
  EXPECT_THAT(first, HasSubstr("1  src/train.cc:57  Trainer::LogLoss"));
  EXPECT_THAT(first, HasSubstr("60 blocks, 45.0 MiB (47,185,920 B), never freed"));
  EXPECT_THAT(first, HasSubstr("+768.0 KiB every step (high confidence)"));
}

TEST(ReportTextTest, ColoursOnlyWhenAsked) {
  const Snapshot snapshot = Everything();
  TextOptions options;
  EXPECT_THAT(RenderText(MakeReport(snapshot), options), Not(HasSubstr("\033")));
  options.color = true;
  EXPECT_THAT(RenderText(MakeReport(snapshot), options), HasSubstr("\033[1;31mOUT OF MEMORY\033[0m"));
}

TEST(ReportTextTest, NamesCannotSteerTheTerminal) {
  SyntheticProgram program;
  program.raw().process.command_line = {"./train", "\033[2Jboo"};
  program.Malloc(program.Line("/opt/me/\033]0;evil\007.cc", 1, "F\033[31m"), 1);
  const Snapshot snapshot = program.Snapshot();
  const std::string text = RenderText(MakeReport(snapshot)) + RenderSummary(MakeReport(snapshot));
  EXPECT_THAT(text, Not(HasSubstr("\033")));
}

TEST(ReportTextTest, HowTheProcessEnded) {
  const auto run_line = [](const std::string& end, std::optional<std::uint32_t> status,
                           std::optional<std::uint32_t> signal) {
    Snapshot snapshot = SyntheticProgram().Snapshot();
    snapshot.completeness.end = end;
    snapshot.completeness.exit_status = status;
    snapshot.completeness.exit_signal = signal;
    return RenderText(MakeReport(snapshot), {});
  };
  EXPECT_THAT(run_line("exited", 3, {}), HasSubstr(", exited with status 3; cuheap"));
  EXPECT_THAT(run_line("exited", {}, {}), HasSubstr(", exited; cuheap"));
  EXPECT_THAT(run_line("quit", 0, {}), HasSubstr(", ended with status 0, without its exit handlers; cuheap"));
  EXPECT_THAT(run_line("killed", {}, 11), HasSubstr(", killed by SIGSEGV (11); cuheap"));
  EXPECT_THAT(run_line("killed", {}, 40), HasSubstr(", killed by signal 40; cuheap"));
  EXPECT_THAT(run_line("killed", {}, {}), HasSubstr(", killed, or left by _exit; cuheap"));
  EXPECT_THAT(run_line("running", {}, {}), HasSubstr(", running; cuheap"));
}

TEST(ReportTextTest, ACleanRunAndAnEmptyOne) {
  SyntheticProgram program;
  const Snapshot empty = program.Snapshot();
  EXPECT_THAT(RenderText(MakeReport(empty)), testing::StartsWith("NO VERDICT"));
  program.Free(program.Malloc(program.Line("a.cc", 1, "A"), 1));
  const Snapshot clean = program.Snapshot();
  EXPECT_THAT(RenderText(MakeReport(clean)), testing::StartsWith("NO LEAKS  everything that was allocated was freed"));
}

// A run of `steps` steps whose PyTorch cache gets a segment in every fourth, or only in the first two.
Snapshot PyTorchRun(int steps, bool grows) {
  SyntheticProgram program;
  const auto line = program.Line("train.py", 1, "step"), end = program.Line("train.py", 9, "wait");
  for (int step = 1; step <= steps; ++step) {
    if (grows ? step % 4 == 0 : step < 3) program.Malloc(line, 2 * kMiB, AllocationKind::kDevice, 2);
    program.Synchronize(end);
  }
  return program.Snapshot();
}

TEST(ReportTextTest, AGrowingCacheIsTheHeadline) {
  const Snapshot snapshot = PyTorchRun(40, true);
  EXPECT_THAT(RenderText(MakeReport(snapshot)),
              testing::StartsWith("GROWING  PyTorch's cache grows by 512.0 KiB a step to the end; tensors are kept "
                                  "somewhere"));
  EXPECT_THAT(RenderSummary(MakeReport(snapshot)), HasSubstr("PyTorch's cache grows by 512.0 KiB a step to the end"));
  EXPECT_EQ(nlohmann::json::parse(RenderJson(MakeReport(snapshot)))["verdict"], "growing");
}

TEST(ReportTextTest, NoLeaksBesideAFrameworksCacheIsNotGreen) {
  const Snapshot snapshot = PyTorchRun(40, false);
  TextOptions options;
  options.color = true;
  const std::string text = RenderText(MakeReport(snapshot), options);
  EXPECT_THAT(text, testing::StartsWith("\033[33mNO LEAKS\033[0m  in what was observed: "));
  EXPECT_THAT(text, HasSubstr("single tensors inside"));
  EXPECT_EQ(nlohmann::json::parse(RenderJson(MakeReport(snapshot)))["verdict"], "no_leaks");
}

TEST(ReportTextTest, OutOfMemoryBesideAFrameworksCacheDoesNotClaimThatNothingLeaks) {
  for (const bool grows : {true, false}) {
    Snapshot snapshot = PyTorchRun(40, grows);
    snapshot.events.type.SetBack(EventType::kAllocateFailed);
    snapshot.events.result.SetBack(2);
    const Snapshot refused = snapshot;
    std::string text = RenderText(MakeReport(refused));
    text.resize(text.find("\n\n"));
    EXPECT_THAT(text, testing::StartsWith("OUT OF MEMORY  an allocation was refused; "));
    EXPECT_THAT(text, HasSubstr(grows ? "cache grows by" : "no line leaks in what was observed; single tensors"));
  }
}

TEST(ReportTextTest, WhatPilesUpUntilTheEndIsInTheHeadlineAndTheSummary) {
  SyntheticProgram program;
  const auto line = program.Line("a.cc", 1, "Keep"), end = program.Line("a.cc", 9, "Step");
  program.Malloc(program.Line("a.cc", 2, "Weights"), kMiB);
  std::vector<std::uint64_t> kept;
  for (int step = 1; step <= 31; ++step) {
    kept.push_back(program.Malloc(line, kMiB / 10));
    program.Synchronize(end);
  }
  for (const auto block : kept) program.Free(block);
  const Snapshot snapshot = program.Snapshot();
  EXPECT_THAT(
      RenderText(MakeReport(snapshot)),
      testing::StartsWith("NO LEAKS  but 3.1 MiB (3,250,567 B) piled up, freed only at the end; 1.0 MiB never"));
  EXPECT_THAT(RenderSummary(MakeReport(snapshot)), HasSubstr("no leaks; 3.1 MiB (3,250,567 B) piled up"));
}

TEST(ReportTextTest, RawAddressesAndAFewPinnedBytesTakeNoRoom) {
  SyntheticProgram program;
  const auto line = program.Line("train.py", 1, "step");
  for (int i = 0; i < 12; ++i) program.Malloc(line, (i < 8 ? 2 : 20) * kMiB, AllocationKind::kDevice, 2);
  program.Malloc(line, 4, AllocationKind::kHostPinned);
  const Snapshot snapshot = program.Snapshot();
  const std::string text = RenderText(MakeReport(snapshot));
  EXPECT_THAT(text, HasSubstr("12 segments on device 0: 4 of 20.0 MiB, 8 of 2.0 MiB"));
  EXPECT_THAT(text, Not(HasSubstr("0x7")));
  EXPECT_THAT(text, Not(HasSubstr("PEAK  host")));
  EXPECT_THAT(text, HasSubstr("at most 4 B pinned"));
  EXPECT_THAT(text, Not(HasSubstr("        4 B        1")));
}

TEST(ReportTextTest, GrowthIsNeverCutOff) {
  for (const std::size_t width : {80u, 100u}) {
    SyntheticProgram program;
    const std::string name(70, 'x');
    const auto line = program.AddStack({program.AddFrame("", 0, name + "()", program.AddModule("/opt/me/libx.so"))});
    const auto end = program.Line("a.cc", 9, "Step");
    for (int step = 1; step <= 40; ++step) {
      if (step % 4 == 0) program.Malloc(line, 2 * kMiB, AllocationKind::kDevice, 2);
      program.Synchronize(end);
    }
    const Snapshot snapshot = program.Snapshot();
    TextOptions options;
    options.width = width;
    EXPECT_THAT(RenderText(MakeReport(snapshot), options), HasSubstr("[+2.0 MiB every 4 steps]"));
  }
}

TEST(ReportTextTest, WhatIsSaidOfPythonAndOfDebugInformationFitsTheProgram) {
  SyntheticProgram native;
  native.Malloc(native.AddStack({native.AddFrame("", 0, "Grow()", native.AddModule("/opt/me/libx.so"))}), kMiB);
  const Snapshot without_lines = native.Snapshot();
  EXPECT_THAT(RenderText(MakeReport(without_lines)), HasSubstr("not known in libx.so: build with -g"));
  EXPECT_THAT(RenderText(MakeReport(without_lines)), Not(HasSubstr("Python lines")));
  SyntheticProgram python;
  python.AddModule("/usr/bin/python3.11");
  python.Malloc(python.Line("a.cc", 1, "A"), kMiB);
  const Snapshot with_python = python.Snapshot();
  EXPECT_THAT(RenderText(MakeReport(with_python)), HasSubstr("Python lines"));
  EXPECT_THAT(RenderText(MakeReport(with_python)), Not(HasSubstr("-g")));
  python.Malloc(python.AddStack({python.AddPythonFrame("/opt/me/train.py", 7, "main")}), kMiB);
  const Snapshot with_lines = python.Snapshot();
  EXPECT_THAT(RenderText(MakeReport(with_lines)), Not(HasSubstr("Python lines")));
}

TEST(ReportTextTest, ARefusedOperatorIsNamedOnceAndTheSameEverywhere) {
  SyntheticProgram program;
  const auto torch = program.AddModule("/v/site-packages/torch/lib/libtorch_cpu.so");
  program.Fails(program.AddStack({program.AddFrame("", 0, "at::_ops::linear::call(at::Tensor const&)", torch)}), kMiB);
  const Snapshot snapshot = program.Snapshot();
  EXPECT_THAT(RenderSummary(MakeReport(snapshot)), HasSubstr("refused in at::linear in libtorch_cpu.so"));
  EXPECT_EQ(ShortFunction("at::_ops::linear::call(at::Tensor const&)", 20), "at::linear");
  EXPECT_EQ(ShortFunction("torch::autograd::generated::AddmmBackward0::apply(std::vector<at::Tensor>&&)"),
            "AddmmBackward0");
}

TEST(ReportTextTest, SummaryIsAFewLines) {
  const Snapshot snapshot = Everything();
  EXPECT_EQ(
      RenderSummary(MakeReport(snapshot)),
      "peak of device 0: 192.1 MiB (201,391,592 B), step 60\n"
      "peak of the host's pinned memory: 8.0 MiB (8,388,608 B), step 1\n"
      "out of memory: 8.8 GiB (9,437,184,000 B) refused at src/buffer.h:9  Buffer<...>::Buffer\n"
      "2 lines leak, 60.0 MiB; worst: src/train.cc:57  Trainer::LogLoss, +768.0 KiB every step; "
      "58.6 KiB (60,000 B) piled up, freed only at the end\n"
      "incomplete: 3 stacks could not be taken: that memory is charged to \"(no stack)\".\n"
      "not observed: Calls of cuMemAllocAsync may not have been observed: a look-up of that name gave an address that "
      "is none of the driver's exports.");
}

TEST(ReportJsonTest, HoldsTheFactsOfTheText) {
  const Snapshot snapshot = Everything();
  const nlohmann::json json = nlohmann::json::parse(RenderJson(MakeReport(snapshot)));
  EXPECT_EQ(json["cuheap_report"], kReportVersion);
  EXPECT_EQ(json["verdict"], "out_of_memory");
  EXPECT_EQ(json["leak_count"], 2);
  const auto& leak = json["leaks"][0];
  EXPECT_EQ(leak["line"]["file"], "/opt/me/src/train.cc");
  EXPECT_EQ(leak["line"]["line"], 57);
  EXPECT_EQ(leak["blocks"], 60);
  EXPECT_EQ(leak["bytes"], 47'185'920);
  EXPECT_EQ(leak["bytes_per_step"], 786'432);
  EXPECT_EQ(leak["shape"], "every_step");
  EXPECT_EQ(json["leaks"][1]["period"], 20);
  EXPECT_EQ(json["memory"][0]["peak"]["bytes"], 201'391'592);
  EXPECT_EQ(json["memory"][1]["scope"]["kind"], "host");
  EXPECT_EQ(json["failures"][0]["verdict"], "capacity");
  EXPECT_EQ(json["pools"][0]["segments"].size(), 1u);
}

TEST(ReportJsonTest, SameReportSameText) {
  const Snapshot snapshot = Everything();
  EXPECT_EQ(RenderJson(MakeReport(snapshot)), RenderJson(MakeReport(snapshot)));
}

TEST(ReportJsonTest, NamesThatAreNotUtf8AreWrittenAllTheSame) {
  SyntheticProgram program;
  program.Malloc(program.Line("/opt/me/\xff\xfe.cc", 1, "F"), 1);
  const Snapshot snapshot = program.Snapshot();
  EXPECT_NO_THROW(static_cast<void>(nlohmann::json::parse(RenderJson(MakeReport(snapshot)))));
}

TEST(TextFormatTest, Bytes) {
  EXPECT_EQ(BytesBoth(0), "0 B");
  EXPECT_EQ(BytesBoth(1023), "1023 B");
  EXPECT_EQ(BytesBoth(1024), "1.0 KiB (1,024 B)");
  EXPECT_EQ(BytesBoth(1'048'575), "1.0 MiB (1,048,575 B)");
  EXPECT_EQ(HumanBytes(80.0 * (std::uint64_t{1} << 30)), "80.0 GiB");
  EXPECT_EQ(Grouped(18'446'744'073'709'551'615u), "18,446,744,073,709,551,615");
}

TEST(TextFormatTest, Times) {
  EXPECT_EQ(HumanTime(999), "0 us");
  EXPECT_EQ(HumanTime(12'300'000), "12.3 ms");
  EXPECT_EQ(HumanTime(2'310'000'000), "2.31 s");
  EXPECT_EQ(HumanTime(200'000'000'000), "3 min 20 s");
  EXPECT_EQ(HumanTime(7'260'000'000'000), "2 h 1 min");
}

TEST(TextFormatTest, Functions) {
  EXPECT_EQ(ShortFunction("(anonymous namespace)::Trainer::Step(int)"), "Trainer::Step");
  EXPECT_EQ(ShortFunction("void ns::F<std::vector<int> >(std::pair<int, char> const&)"), "ns::F<...>");
  EXPECT_EQ(ShortFunction("Buffer::operator()(int) const"), "Buffer::operator()");
  EXPECT_EQ(ShortFunction("operator<<(std::ostream&, X)"), "operator<<");
  EXPECT_EQ(ShortFunction("main::{lambda()#3}::operator()() const"), "main::{lambda#3}::operator()");
  EXPECT_EQ(
      ShortFunction("train(int, char**)::{lambda(std::vector<int>&, int)#1}::operator()(std::vector<int>&) const"),
      "train::{lambda#1}::operator()");
  EXPECT_EQ(ShortFunction("Model::Step(int) const::{lambda()#2}::operator()() const"),
            "Model::Step::{lambda#2}::operator()");
  EXPECT_EQ(ShortFunction("(anonymous)::operator()() const"), "{lambda}::operator()");
  EXPECT_EQ(ShortFunction("main"), "main");
  EXPECT_EQ(ShortFunction(std::string(100, 'x'), 10), "xxxxxxx...");
  EXPECT_EQ(ShortFunction("c10::cuda::Native::DeviceCachingAllocator::malloc(unsigned long)", 32),
            "DeviceCachingAllocator::malloc");
}

TEST(TextFormatTest, Paths) {
  EXPECT_EQ(ShortPath("/opt/me/src/a.cc", "/opt/me", 40, true), "src/a.cc");
  EXPECT_EQ(ShortPath("/opt/me/src/a.cc", "/opt/m", 40, true), "/opt/me/src/a.cc");
  EXPECT_EQ(ShortPath("/a/long/way/to/src/a.cc", "", 12, true), "\u2026/src/a.cc");
  EXPECT_EQ(ShortPath("/a/long/way/to/src/a.cc", "", 12, false), ".../src/a.cc");
  EXPECT_EQ(ShortPath("/a/averylongfilename.cc", "", 5, false), ".../averylongfilename.cc");
}

TEST(TextFormatTest, SparklineShowsTheHighest) {
  const std::vector<CurvePoint> curve = {{0, 0}, {1, 50}, {2, 100}, {3, 10}};
  EXPECT_EQ(Sparkline(curve, 4), "▁▅█▁");
  EXPECT_EQ(Sparkline({}, 4), "");
}

}  // namespace
}  // namespace cuheap::analysis
