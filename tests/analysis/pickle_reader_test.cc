#include "analysis/pickle_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>

namespace cuheap::analysis {
namespace {

using testing::HasSubstr;
using Kind = PickleValue::Kind;
using std::string_literals::operator""s;

class Pieces final : public TextSource {
 public:
  explicit Pieces(std::string_view text) : text_(text) {}
  std::size_t Read(char* out, std::size_t bytes) override {
    const std::size_t here = std::min({bytes, std::size_t{3}, text_.size()});
    std::memcpy(out, text_.data(), here);
    text_.remove_prefix(here);
    return here;
  }
  const std::string& error() const override { return error_; }

 private:
  std::string_view text_;
  std::string error_;
};

// Replaces dicts that have a key "n" by its value.
class Visitor final : public PickleVisitor {
 public:
  std::optional<std::int64_t> Filled(const PickleData& data, const PickleValue& dict) override {
    return PickleData::Signed(data.Find(dict, "n"));
  }
};

struct Result {
  PickleProblem problem;
  PickleData data;
  PickleValue root;
};
Result Read(std::string_view pickle) {
  Pieces source(pickle);
  Visitor visitor;
  Result result;
  result.problem = ReadPickle(source, visitor, result.data, result.root);
  return result;
}
std::optional<std::int64_t> Number(const std::string& opcodes) {
  const Result result = Read("\x80\x02" + opcodes + ".");
  EXPECT_EQ(result.problem.text, "");
  return PickleData::Signed(result.root);
}
std::string Problem(const std::string& pickle) { return Read(pickle).problem.text; }

TEST(PickleReaderTest, Numbers) {
  EXPECT_EQ(Number("K\xff"), 255);
  EXPECT_EQ(Number("M\x01\x02"), 513);
  EXPECT_EQ(Number("J\xff\xff\xff\xff"), -1);
  EXPECT_EQ(Number("\x8a\x00"s), 0);
  EXPECT_EQ(Number("\x8a\x02\x00\xff"s), -256);
  EXPECT_EQ(Number("\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f"s), std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(Number("\x88"), 1);
  EXPECT_EQ(Number("N"), std::nullopt);
}

TEST(PickleReaderTest, AddressesBeyondTheSignedRange) {
  const Result result = Read("\x80\x02\x8a\x09\x01\x00\x00\x00\x00\x00\x00\x80\x00."s);
  EXPECT_TRUE(result.root.is(Kind::kBig));
  EXPECT_EQ(PickleData::Unsigned(result.root), (std::uint64_t{1} << 63) + 1);
  EXPECT_EQ(PickleData::Signed(result.root), std::nullopt);
  EXPECT_THAT(Problem("\x80\x02\x8a\x09\x01\x00\x00\x00\x00\x00\x00\x80\x01."s), HasSubstr("more than 64 bits"));
}

// {"a": [1, "x", (2, 3)], "f": 1.5} as pickle.dumps writes it with protocol 4.
TEST(PickleReaderTest, Containers) {
  const std::string pickle =
      "\x80\x04\x95\x28\x00\x00\x00\x00\x00\x00\x00}\x94(\x8c\x01\x61\x94]\x94(K\x01\x8c\x01x\x94K\x02K\x03\x86\x94\x65"
      "\x8c\x01\x66\x94G\x3f\xf8\x00\x00\x00\x00\x00\x00u."s;
  const Result result = Read(pickle);
  ASSERT_EQ(result.problem.text, "");
  const PickleData::Elements& list = result.data.Of(result.data.Find(result.root, "a"));
  ASSERT_EQ(list.size(), 3u);
  EXPECT_EQ(result.data.Text(list[1]), "x");
  EXPECT_EQ(PickleData::Signed(result.data.Of(list[2])[1]), 3);
  EXPECT_EQ(result.data.Find(result.root, "f").real, 1.5);
  EXPECT_TRUE(result.data.Find(result.root, "missing").is(Kind::kNone));
}

TEST(PickleReaderTest, AVisitorsNumberStandsForTheDictWhereverItIs) {
  // d = {"n": 7}; [d, d]: the second comes from the memo.
  const Result result = Read("\x80\x02](}q\x00(X\x01\x00\x00\x00nK\x07uh\x00\x65."s);
  ASSERT_EQ(result.problem.text, "");
  const PickleData::Elements& list = result.data.Of(result.root);
  ASSERT_EQ(list.size(), 2u);
  for (const PickleValue& value : list) {
    EXPECT_TRUE(value.is(Kind::kRecord));
    EXPECT_EQ(value.integer, 7);
  }
}

TEST(PickleReaderTest, NeverRunsCode) {
  EXPECT_THAT(Problem("\x80\x02\x63os\nsystem\n."), HasSubstr("Python objects"));
  EXPECT_THAT(Problem("\x80\x04\x8c\x02os\x8c\x06system\x93."), HasSubstr("Python objects"));
  EXPECT_THAT(Problem("\x80\x02NNR."), HasSubstr("Python objects"));
  EXPECT_THAT(Problem("\x80\x02NNb."), HasSubstr("Python objects"));
}

TEST(PickleReaderTest, DamagedFiles) {
  EXPECT_THAT(Problem(""), HasSubstr("empty"));
  EXPECT_THAT(Problem("{\"json\": 1}"), HasSubstr("0x80"));
  EXPECT_THAT(Problem("\x80\x06."), HasSubstr("protocol 6"));
  EXPECT_THAT(Problem("\x80\x02."), HasSubstr("not made"));
  EXPECT_THAT(Problem("\x80\x02u."), HasSubstr("mark"));
  EXPECT_THAT(Problem("\x80\x02(a."), HasSubstr("not made"));
  EXPECT_THAT(Problem("\x80\x02](N0."), HasSubstr("not made"));  // the root lies below an open mark
  EXPECT_THAT(Problem("\x80\x02](Na."), HasSubstr("no list"));   // and so does the list
  EXPECT_THAT(Problem("\x80\x02K\x01K\x02\x61."), HasSubstr("no list"));
  EXPECT_THAT(Problem("\x80\x02}(K\x01u."), HasSubstr("no value"));
  EXPECT_THAT(Problem("\x80\x02h\x05."), HasSubstr("did not keep"));
  EXPECT_THAT(Problem("\x80\x02Nr\xff\xff\xff\x7f."), HasSubstr("hole"));
  EXPECT_THAT(Problem("\x80\x02\x55\x01x."), HasSubstr("not plain data"));
  const Result cut = Read("\x80\x04\x8d\xff\xff\xff\0\0\0\0\0short"s);
  EXPECT_TRUE(cut.problem.cut_off);
  EXPECT_EQ(cut.problem.place, "byte 16");
}

// Whatever goes on for ever fails after some megabytes; each of these made a reader ask for memory without end.
TEST(PickleReaderTest, WhatHasNoEndIsRefused) {
  const auto endless = [](const std::string& piece) {
    std::string text = "\x80\x02";
    while (text.size() < 12u << 20) text += piece;
    return Problem(text);
  };
  EXPECT_THAT(endless("("), HasSubstr("marks"));
  EXPECT_THAT(endless("K\x01"), HasSubstr("plain values"));
  EXPECT_THAT(endless("}"), HasSubstr("plain values"));
  EXPECT_THAT(endless("]\x94"), HasSubstr("plain values"));
  EXPECT_THAT(endless("}K\x01K\x02s0"), HasSubstr("drops"));
  EXPECT_THAT(endless("(N1"), HasSubstr("drops"));
  EXPECT_THAT(Problem("\x80\x02N" + std::string(12u << 20, '\x94')), HasSubstr("keeps more"));
  EXPECT_THAT(Problem("\x80\x02X\xff\xff\xff\x7f"), HasSubstr("a string longer"));
}

// PyTorch's own pickler writes a list of all its dicts in one go.
TEST(PickleReaderTest, MillionsOfDictsInOneListAreRead) {
  constexpr std::size_t kDicts = (std::size_t{1} << 20) + 10;
  std::string text = "\x80\x02](";
  for (std::size_t i = 0; i < kDicts; ++i) text += "}(X\x01\0\0\0nK\x07u"s;
  const Result result = Read(text + "e.");
  EXPECT_EQ(result.problem.text, "");
  EXPECT_EQ(result.data.Of(result.root).size(), kDicts);
}

}  // namespace
}  // namespace cuheap::analysis
