// Frame rules against binutils: readelf interprets the same call frame information and prints each row.
#include "interpose/stacks/frame_rule.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>

#include <cstring>
#include <sstream>
#include <string>
#include <vector>

#include "interpose/stacks/loaded_objects.h"

namespace cuheap::stacks {
namespace {

TEST(FrameRuleTest, PacksIntoAWordAndBack) {
  for (CfaKind cfa : {CfaKind::kNone, CfaKind::kOutermost, CfaKind::kFramePointerDeref, CfaKind::kSignal}) {
    for (SavedKind saved : {SavedKind::kSame, SavedKind::kAtCfa, SavedKind::kAtFrame, SavedKind::kLost}) {
      for (std::int32_t offset : {0, 8, -8, 16, -16, 100000, -100000, (1 << 27) - 1, -(1 << 27)}) {
        const FrameRule rule{cfa, saved, offset, -offset / 2};
        const FrameRule back = FrameRule::Unpack(rule.Pack());
        EXPECT_NE(rule.Pack(), 0u);
        EXPECT_EQ(back.cfa, cfa);
        EXPECT_EQ(back.saved, saved);
        EXPECT_EQ(back.cfa_offset, offset);
        EXPECT_EQ(back.saved_offset, -offset / 2);
      }
    }
  }
}

// What readelf prints for one row, in our terms.
struct ExpectedRow {
  std::uint64_t address = 0;
  std::string cfa, frame_pointer, return_address;
};

std::string Describe(const FrameRule& rule) {
  std::ostringstream text;
  switch (rule.cfa) {
    case CfaKind::kStackPointer:
      text << "rsp" << std::showpos << rule.cfa_offset;
      break;
    case CfaKind::kFramePointer:
      text << "rbp" << std::showpos << rule.cfa_offset;
      break;
    case CfaKind::kFramePointerDeref:
      text << "exp";
      break;
    case CfaKind::kOutermost:
      return "outermost";
    case CfaKind::kSignal:
      return "signal";
    case CfaKind::kNone:
      return "none";
  }
  switch (rule.saved) {
    case SavedKind::kSame:
      text << " u";
      break;
    case SavedKind::kAtCfa:
      text << " c" << rule.saved_offset;
      break;
    case SavedKind::kAtFrame:
      text << " exp";
      break;
    case SavedKind::kLost:
      text << " lost";
      break;
  }
  return text.str();
}

// Rows of `readelf --debug-dump=frames-interp`: a header line names the columns of the rows below it.
std::vector<ExpectedRow> RowsOf(const std::string& path) {
  std::vector<ExpectedRow> rows;
  FILE* pipe = popen(("LC_ALL=C readelf --debug-dump=frames-interp '" + path + "' 2>/dev/null").c_str(), "r");
  if (pipe == nullptr) return rows;
  char line[4096];
  std::vector<std::string> columns;
  bool in_description = false;
  while (fgets(line, sizeof(line), pipe) != nullptr) {
    std::istringstream words(line);
    std::vector<std::string> parts;
    for (std::string word; words >> word;) parts.push_back(word);
    if (parts.empty()) continue;
    if (std::strstr(line, " FDE ") != nullptr || std::strstr(line, " CIE") != nullptr) {
      in_description = std::strstr(line, " FDE ") != nullptr;
      columns.clear();
    } else if (parts[0] == "LOC") {
      columns = parts;
    } else if (in_description && !columns.empty() && parts.size() == columns.size()) {
      ExpectedRow row;
      row.address = strtoull(parts[0].c_str(), nullptr, 16);
      row.cfa = parts[1];
      row.frame_pointer = "u";
      for (std::size_t i = 2; i < columns.size(); ++i) {
        if (columns[i] == "rbp") row.frame_pointer = parts[i];
        if (columns[i] == "ra") row.return_address = parts[i];
      }
      rows.push_back(row);
    }
  }
  pclose(pipe);
  return rows;
}

// Rows that we have no rule for, by intent: the CFA hangs on another register or on an expression.
bool IsKept(const ExpectedRow& row) {
  return (row.cfa.rfind("rsp", 0) == 0 || row.cfa.rfind("rbp", 0) == 0) && row.return_address == "c-8";
}

void CompareWithReadelf(const char* symbol_of_object) {
  const void* inside = dlsym(RTLD_DEFAULT, symbol_of_object);
  ASSERT_NE(inside, nullptr);
  LoadedObject object;
  ASSERT_TRUE(FindLoadedObject(reinterpret_cast<std::uint64_t>(inside), object));
  const std::vector<ExpectedRow> rows = RowsOf(object.name);
  if (rows.empty()) GTEST_SKIP() << "no readelf";
  std::size_t compared = 0, dereferenced = 0;
  for (const ExpectedRow& row : rows) {
    const std::string got = Describe(FindFrameRule(object.load_bias + row.address, object.eh_frame_hdr));
    if (got.rfind("exp", 0) == 0) ++dereferenced;
    if (!IsKept(row)) continue;
    std::string saved = row.frame_pointer == "s" ? "u" : row.frame_pointer;
    ASSERT_EQ(got, row.cfa + " " + saved) << std::hex << row.address;
    ++compared;
  }
  EXPECT_GT(compared, 5000u);
  EXPECT_GE(compared * 100, rows.size() * 97) << "too many rows are left out";
  ::testing::Test::RecordProperty("rows", static_cast<int>(rows.size()));
  ::testing::Test::RecordProperty("dereferenced", static_cast<int>(dereferenced));
}

TEST(FrameRuleTest, AgreesWithReadelfOnLibc) { CompareWithReadelf("gnu_get_libc_version"); }
TEST(FrameRuleTest, AgreesWithReadelfOnLibstdcxx) { CompareWithReadelf("_ZNSo5flushEv"); }

TEST(FrameRuleTest, NoRuleOutsideOfCode) {
  static int data = 0;
  LoadedObject object;
  ASSERT_TRUE(FindLoadedObject(reinterpret_cast<std::uint64_t>(&data), object));
  EXPECT_EQ(FindFrameRule(reinterpret_cast<std::uint64_t>(&data), object.eh_frame_hdr).cfa, CfaKind::kNone);
  EXPECT_EQ(FindFrameRule(object.begin, object.eh_frame_hdr).cfa, CfaKind::kNone);
  EXPECT_EQ(FindFrameRule(reinterpret_cast<std::uint64_t>(&RowsOf), nullptr).cfa, CfaKind::kNone);
}

}  // namespace
}  // namespace cuheap::stacks
