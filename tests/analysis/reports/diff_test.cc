// What changed between two runs. Golden files lie in golden/; after a wanted change: CUHEAP_UPDATE_GOLDEN=1 ctest -R
// reports_diff.
#include "analysis/reports/diff.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "analysis/reports/diff_text.h"
#include "analysis/reports/text_format.h"
#include "tests/analysis/reports/synthetic.h"

namespace cuheap::analysis {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr std::uint64_t kKiB = 1 << 10, kMiB = 1 << 20;

// The JSON and both texts of a comparison.
struct Compared {
  json facts;
  std::string text, markdown;
};
Compared Compare(const Snapshot& before, const Snapshot& after, const Threshold& threshold = {},
                 const std::string& fail_on = "", const TextOptions& options = {}) {
  const Report first = MakeReport(before), second = MakeReport(after);
  DiffOptions how;
  how.threshold = threshold;
  const Diff diff = CompareReports(first, second, how);
  std::string problem;
  DiffDocument document{&diff, "before.json", "after.json", {}};
  if (!fail_on.empty()) document.judgements = JudgeConditions(diff, ParseFailOn(fail_on, &problem).value());
  return {json::parse(RenderDiffJson(document)), RenderDiffText(document, options), RenderDiffMarkdown(document)};
}

json LineNamed(const json& rows, const std::string& function) {
  for (const json& row : rows) {
    for (const char* side : {"before", "after"}) {
      const json& line = row["line"][side];
      if (!line.is_null() && line["function"] == function) return row;
    }
  }
  return {};
}

// A training run, as it is on the main branch or with a change on another. Every line of the second checkout is two
// further down.
Snapshot Training(bool branch) {
  SyntheticProgram program;
  const std::string folder = branch ? "/opt/me/branch/" : "/opt/me/main/";
  const std::uint32_t down = branch ? 2 : 0;
  program.raw().process.working_directory = folder.substr(0, folder.size() - 1);
  program.raw().configuration["CUHEAP_MODE"] = branch ? "observe" : "default";
  program.raw().configuration["CUHEAP_DIR"] = folder;
  const auto buffer = program.Line(folder + "buffer.h", 9, "Buffer<float>::Buffer(unsigned long)");
  const auto weights = program.Through(buffer, program.Line(folder + "model.cc", 3 + down, "Model::Load()"));
  const auto activation = program.Through(buffer, program.Line(folder + "model.cc", 33 + down, "Model::Forward()"));
  const auto metric = program.Line(folder + "train.cc", 70 + down, "Trainer::Metric()");
  const auto scratch = program.Line(folder + "train.cc", 80 + down, "Trainer::Scratch()");
  const auto kept = branch ? program.Line(folder + "train.cc", 59, "Trainer::LogLoss()")
                           : program.Line(folder + "plot.cc", 5, "Plot::Keep()");
  const auto end = program.Line(folder + "train.cc", 99 + down, "Trainer::Step(int)");
  program.Segment(0x100000000, (branch ? 96 : 64) * kMiB);
  program.Malloc(weights, 30 * kMiB);
  program.Malloc(program.Line(folder + "io.cc", 12, "Reader::Open()"), 8 * kMiB,
                 branch ? AllocationKind::kManaged : AllocationKind::kDevice);
  for (int step = 1; step <= 40; ++step) {
    const auto block = program.Malloc(activation, (branch ? 18 : 12) * kMiB);
    const auto small = program.Malloc(scratch, (branch ? 520 : 512) * kKiB);
    program.Malloc(metric, branch ? 96 * kKiB : 64 * kKiB);
    program.Malloc(kept, 768 * kKiB);
    program.Free(small);
    program.Free(block);
    program.Synchronize(end);
  }
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

TEST(DiffTest, Golden) {
  const Compared compared = Compare(Training(false), Training(true), {}, "peak>+5%,leaks>1");
  ExpectGolden("diff.txt", compared.text);
  ExpectGolden("diff.md", compared.markdown);
  ExpectGolden("diff.json", compared.facts.dump(2) + "\n");
}

TEST(DiffTest, ARunAndItself) {
  const Snapshot run = Training(false);
  const Compared compared = Compare(run, run, {0, 0, 0});
  EXPECT_THAT(compared.text, StartsWith("NO DIFFERENCE  every figure that was compared is the same\n"));
  EXPECT_THAT(compared.text, Not(HasSubstr("FIGURES")));
  EXPECT_EQ(compared.facts["different"], false);
  EXPECT_EQ(compared.facts["changes"], 0);
  EXPECT_EQ(compared.facts["small_changes"], 0);
  EXPECT_THAT(compared.markdown, StartsWith("### GPU memory: NO DIFFERENCE\n"));
}

TEST(DiffTest, FiguresAndLinesAreExact) {
  const json facts = Compare(Training(false), Training(true)).facts;
  const json device = facts["memory"][0];
  // Weights, reader, forty of each leak, activation and scratch of the last step.
  const std::uint64_t before = 38 * kMiB + 40 * (64 + 768) * kKiB + 12 * kMiB + 512 * kKiB;
  const std::uint64_t after = 38 * kMiB + 40 * (96 + 768) * kKiB + 18 * kMiB + 520 * kKiB;
  EXPECT_EQ(device["peak_bytes"], json({{"before", before}, {"after", after}}));
  EXPECT_EQ(device["allocations"], json({{"before", 162}, {"after", 162}}));
  const json lines = device["lines"];
  const json wrapper = LineNamed(lines, "Buffer<float>::Buffer(unsigned long)");
  EXPECT_EQ(wrapper["peak_bytes"], json({{"before", 42 * kMiB}, {"after", 48 * kMiB}}));
  ASSERT_EQ(wrapper["peak_callers"].size(), 2u);
  EXPECT_FALSE(wrapper.contains("live_callers")) << "only the weights are live";
  EXPECT_EQ(wrapper["line"]["match"], "same");
  EXPECT_EQ(LineNamed(lines, "Trainer::Metric()")["line"]["match"], "moved");
  EXPECT_EQ(LineNamed(lines, "Trainer::LogLoss()")["line"]["match"], "new");
  EXPECT_EQ(LineNamed(lines, "Plot::Keep()")["line"]["match"], "gone");
  const json reader = LineNamed(lines, "Reader::Open()");
  EXPECT_EQ(reader["kinds_before"], json({"device"}));
  EXPECT_EQ(reader["kinds_after"], json({"managed"}));
  EXPECT_EQ(facts["settings"].size(), 1u) << "the journal's folder is no setting to tell";
}

TEST(DiffTest, LeaksNewGoneAndGrown) {
  const json leaks = Compare(Training(false), Training(true)).facts["leaks"];
  ASSERT_EQ(leaks.size(), 3u);
  EXPECT_EQ(leaks[0]["change"], "new");
  EXPECT_EQ(leaks[0]["line"]["after"]["function"], "Trainer::LogLoss()");
  EXPECT_EQ(leaks[1]["change"], "grew");
  EXPECT_EQ(leaks[1]["bytes_per_step"], json({{"before", 65536.0}, {"after", 98304.0}}));
  EXPECT_EQ(leaks[2]["change"], "gone");
  EXPECT_EQ(leaks[2]["bytes"], json({{"before", 40 * 768 * kKiB}, {"after", 0}}));
  const json back = Compare(Training(true), Training(false)).facts["leaks"];
  EXPECT_EQ(back[0]["change"], "new");
  EXPECT_EQ(back[1]["change"], "shrank");
  EXPECT_EQ(back[2]["change"], "gone");
}

// One block of a line, once.
Snapshot OneBlock(std::uint64_t bytes) {
  SyntheticProgram program;
  program.Free(program.Malloc(program.Line("a.cc", 1, "F()"), bytes));
  return program.Snapshot();
}

TEST(DiffTest, SmallDifferencesAreSummedUpAndMakeNoDifference) {
  const Compared within = Compare(OneBlock(kMiB), OneBlock(kMiB + 64 * kKiB));
  EXPECT_THAT(within.text, StartsWith("NO DIFFERENCE  beyond small ones"));
  EXPECT_EQ(within.facts["different"], false);
  EXPECT_GT(within.facts["small_changes"], 0);
  EXPECT_THAT(within.text, HasSubstr("small differences in"));
  EXPECT_EQ(Compare(OneBlock(kMiB), OneBlock(kMiB + 64 * kKiB + 1)).facts["different"], true);
  EXPECT_EQ(Compare(OneBlock(100 * kMiB), OneBlock(101 * kMiB)).facts["different"], false) << "under 1 % of the larger";
  EXPECT_EQ(Compare(OneBlock(100 * kMiB), OneBlock(102 * kMiB)).facts["different"], true);
  EXPECT_EQ(Compare(OneBlock(kMiB), OneBlock(kMiB + 1), {0, 0, 0}).facts["different"], true);
  EXPECT_EQ(Compare(OneBlock(kMiB), OneBlock(2 * kMiB), {0, 0, 0.5}).facts["different"], false);
}

TEST(DiffTest, SmallLinesShareOneRow) {
  SyntheticProgram before, after;
  for (SyntheticProgram* program : {&before, &after}) {
    const bool second = program == &after;
    program->Malloc(program->Line("a.cc", 1, "Large()"), (second ? 20 : 10) * kMiB);
    program->Malloc(program->Line("a.cc", 2, "One()"), second ? 5000 : 1000);
    program->Malloc(program->Line("a.cc", 3, "Two()"), second ? 1000 : 3000);
  }
  const std::string text = Compare(before.Snapshot(), after.Snapshot()).text;
  EXPECT_THAT(text, HasSubstr("small differences in 2 lines"));
  EXPECT_THAT(text, HasSubstr("+2.0 KiB"));  // 4000 - 2000
  EXPECT_THAT(text, Not(HasSubstr("One")));
  EXPECT_THAT(Compare(before.Snapshot(), after.Snapshot(), {0, 0, 0}).text, HasSubstr("One"));
}

TEST(DiffTest, LostEventsLeaveTheLiveSet) {
  const auto run = [](std::uint64_t kept) {
    SyntheticProgram program;
    const auto line = program.Line("a.cc", 1, "Keep()"), peak = program.Line("a.cc", 2, "Peak()");
    program.Malloc(line, kept);
    program.Free(program.Malloc(peak, 100 * kMiB));
    program.ForgetEvents();
    program.Free(program.Malloc(peak, kMiB));
    return program.Snapshot();
  };
  const Compared compared = Compare(run(10 * kMiB), run(20 * kMiB));
  const json device = compared.facts["memory"][0];
  EXPECT_EQ(device["counts"], false);
  EXPECT_EQ(device["peak_by_line"], false);
  EXPECT_TRUE(device["allocations"].is_null());
  EXPECT_EQ(device["peak_bytes"], json({{"before", 110 * kMiB}, {"after", 120 * kMiB}}));
  ASSERT_EQ(device["lines"].size(), 1u);
  EXPECT_EQ(device["lines"][0]["live_bytes"], json({{"before", 10 * kMiB}, {"after", 20 * kMiB}}));
  EXPECT_FALSE(device["lines"][0].contains("allocations"));
  EXPECT_THAT(compared.text, HasSubstr("Numbers of allocations are not compared"));
  EXPECT_THAT(compared.text, HasSubstr("before: the peak of device 0 lies before the kept events"));
  EXPECT_THAT(Compare(run(kMiB), run(kMiB)).text,
              HasSubstr("NO DIFFERENCE  every figure that was compared is the same; not "
                        "everything could be compared"));
}

TEST(DiffTest, AnotherNumberOfStepsIsSaidAndLeaksAreComparedByStep) {
  const auto run = [](int steps) {
    SyntheticProgram program;
    const auto line = program.Line("a.cc", 1, "Leak()"), end = program.Line("a.cc", 9, "Step()");
    for (int step = 0; step < steps; ++step) {
      program.Malloc(line, kMiB);
      program.Synchronize(end);
    }
    return program.Snapshot();
  };
  const Compared compared = Compare(run(40), run(80));
  EXPECT_THAT(compared.text, HasSubstr("The runs made 40 and 80 steps"));
  EXPECT_EQ(compared.facts["leaks"][0]["change"], "alike");
}

TEST(DiffTest, ARefusalThatWasNotThereIsTheHeadline) {
  SyntheticProgram before, after;
  for (SyntheticProgram* program : {&before, &after}) program->Malloc(program->Line("a.cc", 1, "F()"), kMiB);
  after.Fails(after.Line("a.cc", 2, "G()"), 9000 * kMiB);
  EXPECT_THAT(Compare(before.Snapshot(), after.Snapshot()).text, StartsWith("OUT OF MEMORY  memory is refused now"));
  EXPECT_THAT(Compare(after.Snapshot(), before.Snapshot()).text, HasSubstr("refused before and is not now"));
}

TEST(DiffTest, DevicesAreApart) {
  SyntheticProgram before, after;
  for (SyntheticProgram* program : {&before, &after}) {
    program->Malloc(program->Line("a.cc", 1, "F()"), 10 * kMiB);
    if (program == &after) program->UseDevice(1);
    program->Malloc(program->Line("a.cc", 2, "G()"), 5 * kMiB);
  }
  const json memory = Compare(before.Snapshot(), after.Snapshot()).facts["memory"];
  ASSERT_EQ(memory.size(), 2u);
  EXPECT_EQ(memory[0]["lines"][0]["live_bytes"], json({{"before", 5 * kMiB}, {"after", 0}}));
  EXPECT_EQ(memory[1]["lines"][0]["live_bytes"], json({{"before", 0}, {"after", 5 * kMiB}}));
  EXPECT_EQ(memory[0]["lines"][0]["line"]["match"], "same");
}

TEST(DiffTest, TextFitsItsWidthAndColoursAreAskedFor) {
  const Snapshot before = Training(false), after = Training(true);
  for (const std::size_t width : {80u, 100u, 160u}) {
    TextOptions options;
    options.width = width;
    options.utf8 = false;
    std::istringstream lines(Compare(before, after, {0, 0, 0}, "peak>1", options).text);
    for (std::string line; std::getline(lines, line);) EXPECT_LE(Columns(line), width) << line;
  }
  TextOptions options;
  EXPECT_THAT(Compare(before, after, {}, "", options).text, Not(HasSubstr("\033")));
  options.color = true;
  EXPECT_THAT(Compare(before, after, {}, "", options).text, StartsWith("\033[1;31mNEW LEAK\033[0m"));
  EXPECT_THAT(Compare(before, before, {}, "", options).text, StartsWith("\033[1;32mNO DIFFERENCE\033[0m"));
}

TEST(DiffTest, NamesAreNoMarkupAndSteerNoTerminal) {
  SyntheticProgram before, after;
  before.Malloc(before.Line("/a/x.cc", 1, "F()"), kMiB);
  after.Malloc(after.Line("/a/|`<img src=x onerror=1>&@me\033[2J\n## x.cc", 1, "_F_*b*[l](http://e.com)~~www.e.com"),
               kMiB);
  const Compared compared = Compare(before.Snapshot(), after.Snapshot());
  EXPECT_THAT(compared.text, Not(HasSubstr("\033")));
  const std::string row = compared.markdown.substr(compared.markdown.find("onerror") - 100, 300);
  for (const char* markup : {"<img", "`", "@me", "_F_", "*b*", "[l]", "://", "~~", "www.", "\n##", "&@"})
    EXPECT_THAT(row, Not(HasSubstr(markup)));
  // Five cells, whatever is in the name.
  std::istringstream lines(compared.markdown);
  for (std::string line; std::getline(lines, line);) {
    if (line.find("onerror") == std::string::npos || !line.starts_with("|")) continue;
    EXPECT_EQ(std::count(line.begin(), line.end(), '|'), 6) << line;
  }
}

TEST(DiffTest, SameInputSameBytes) {
  const Snapshot before = Training(false), after = Training(true);
  const Compared first = Compare(before, after, {0, 0, 0}), second = Compare(before, after, {0, 0, 0});
  EXPECT_EQ(first.text, second.text);
  EXPECT_EQ(first.markdown, second.markdown);
  EXPECT_EQ(first.facts, second.facts);
}

}  // namespace
}  // namespace cuheap::analysis
