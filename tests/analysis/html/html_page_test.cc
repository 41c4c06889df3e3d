#include "analysis/html/html_page.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string_view>

#include "analysis/html/page_data.h"
#include "tests/analysis/reports/cached_program.h"

namespace cuheap::analysis {
namespace {

constexpr std::string_view kDataBegin = "<script type=\"application/json\" id=\"data\">";

std::string_view DataOf(std::string_view html) {
  const std::size_t begin = html.find(kDataBegin) + kDataBegin.size();
  return html.substr(begin, html.find("</script>", begin) - begin);
}

class HtmlPageTest : public testing::Test {
 protected:
  std::string Render() {
    snapshot_ = program_.Snapshot();
    return RenderHtml(MakeReport(snapshot_), nullptr);
  }
  CachedProgram program_;
  Snapshot snapshot_;
};

TEST_F(HtmlPageTest, DataSurvivesAnyName) {
  const std::string name = "</script><!--<script>&\"'\\\x01\x1b[31m\xff\xe2\x80\xae";
  program_.Malloc(program_.Line(name + ".cc", 1, "Function" + name), kMiB);
  program_.raw().process.command_line = {name};
  program_.raw().notes.push_back({"unseen_library", name});
  const std::string html = Render();
  const std::string_view data = DataOf(html);
  for (const char c : data) {
    ASSERT_TRUE(c != '<' && c != '>' && c != '&') << "markup in the data";
    ASSERT_TRUE(static_cast<unsigned char>(c) >= 0x20) << "control character in the data";
  }
  const auto json = nlohmann::json::parse(data);  // fails the test if it is none
  EXPECT_NE(json["title"].get<std::string>().find("</script><!--<script>&\"'\\"), std::string::npos);
  const std::size_t noscript = html.find("<noscript>"), end = html.find("</noscript>");
  const std::string_view words = std::string_view(html).substr(noscript, end - noscript);
  EXPECT_EQ(words.find("<script"), std::string_view::npos);
  EXPECT_NE(words.find("&lt;/script&gt;&lt;!--"), std::string_view::npos);
}

TEST_F(HtmlPageTest, SameReportSameBytes) {
  for (std::uint32_t i = 0; i < 50; ++i) {
    program_.Held(kBase + i * 32 * kMiB, 20 * kMiB);
    program_.Tensor(kBase + i * 32 * kMiB, 8 * kMiB);
  }
  EXPECT_EQ(Render(), Render());
}

TEST_F(HtmlPageTest, AddressesAboveWhatJavascriptCountsAreText) {
  const auto id = program_.Malloc(program_.Line("a.cc", 1, "A"), 64);
  program_.Place(id, 0xFFFFFFFFFFFFF001);
  const std::string html = Render();
  const auto json = nlohmann::json::parse(DataOf(html));
  EXPECT_EQ(json["blocks"]["address"][0], "fffffffffffff001");
}

TEST_F(HtmlPageTest, EveryIndexOfTheDataIsInRange) {
  program_.Held(kBase, 20 * kMiB);
  for (std::uint64_t i = 0; i < 8; ++i) program_.KeptTensor(kBase + i * kMiB, kMiB);
  program_.Malloc(program_.Line("b.cc", 9, "Other"), kMiB, AllocationKind::kHostPinned);
  const std::string html = Render();
  const auto json = nlohmann::json::parse(DataOf(html));
  const auto in_range = [](const nlohmann::json& column, std::size_t size) {
    for (const auto& index : column) ASSERT_LT(index.get<std::size_t>(), size);
  };
  in_range(json["frames"]["function"], json["strings"].size());
  in_range(json["frames"]["file"], json["strings"].size());
  in_range(json["nodes"]["frame"], json["frames"]["function"].size());
  in_range(json["nodes"]["parent"], json["nodes"]["frame"].size() + 1);
  in_range(json["stacks"]["node"], json["nodes"]["frame"].size() + 1);
  in_range(json["stacks"]["line"], json["lines"]["text"].size());
  in_range(json["lines"]["text"], json["strings"].size());
  in_range(json["blocks"]["stack"], json["stacks"]["node"].size());
  in_range(json["blocks"]["category"], json["categories"].size());
  in_range(json["blocks"]["rule"], json["blocks"]["rule_names"].size());
  in_range(json["blocks"]["kind"], json["blocks"]["kind_names"].size());
  in_range(json["blocks"]["thread"], json["blocks"]["thread_names"].size());
  in_range(json["blocks"]["place"], json["places"].size());
}

}  // namespace
}  // namespace cuheap::analysis
