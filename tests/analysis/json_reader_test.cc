#include "analysis/json_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace cuheap::analysis {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Gives the text in pieces of a few bytes, so that every token is cut somewhere.
class Pieces final : public TextSource {
 public:
  explicit Pieces(std::string_view text, std::size_t piece = 3) : text_(text), piece_(piece) {}
  std::size_t Read(char* out, std::size_t bytes) override {
    const std::size_t here = std::min({bytes, piece_, text_.size()});
    std::memcpy(out, text_.data(), here);
    text_.remove_prefix(here);
    return here;
  }
  const std::string& error() const override { return error_; }

 private:
  std::string_view text_;
  std::size_t piece_;
  std::string error_;
};

bool Accepts(std::string_view text, std::size_t piece = 3) {
  Pieces source(text, piece);
  JsonReader in(source);
  return in.Skip() && in.ExpectEnd();
}

template <typename T>
struct Result {
  bool ok = false;
  T value{};
  std::string problem, place;
};
template <typename T>
Result<T> ReadOne(std::string_view text) {
  Pieces source(text);
  JsonReader in(source);
  Result<T> result;
  result.ok = in.Read(result.value) && in.ExpectEnd();
  result.problem = in.problem();
  result.place = in.place();
  return result;
}

TEST(JsonReaderTest, IntegersAreExactToTheLastBit) {
  EXPECT_EQ(ReadOne<std::uint64_t>("18446744073709551615").value, UINT64_MAX);
  EXPECT_EQ(ReadOne<std::uint64_t>(" 9007199254740993 ").value, 9007199254740993u) << "a double would end in 2";
  EXPECT_EQ(ReadOne<std::int64_t>("-9223372036854775808").value, INT64_MIN);
  EXPECT_EQ(ReadOne<std::int64_t>("9223372036854775807").value, INT64_MAX);
  EXPECT_EQ(ReadOne<std::int64_t>("-0").value, 0);
  EXPECT_EQ(ReadOne<std::uint8_t>("255").value, 255);
  EXPECT_EQ(ReadOne<std::int32_t>("-2147483648").value, std::numeric_limits<std::int32_t>::min());
}

TEST(JsonReaderTest, IntegersOutOfRangeAreErrors) {
  EXPECT_FALSE(ReadOne<std::uint64_t>("18446744073709551616").ok);
  EXPECT_FALSE(ReadOne<std::uint64_t>("184467440737095516150").ok);
  EXPECT_FALSE(ReadOne<std::int64_t>("9223372036854775808").ok);
  EXPECT_FALSE(ReadOne<std::int64_t>("-9223372036854775809").ok);
  EXPECT_FALSE(ReadOne<std::uint64_t>("-1").ok);
  EXPECT_FALSE(ReadOne<std::uint8_t>("256").ok);
  EXPECT_FALSE(ReadOne<std::int32_t>("2147483648").ok);
  for (const char* text : {"1.0", "1e3", "01", "-", "+1", "0x10", "\"1\"", "null", "true", "[1]", ""}) {
    EXPECT_FALSE(ReadOne<std::uint64_t>(text).ok) << text;
    EXPECT_FALSE(ReadOne<std::int64_t>(text).ok) << text;
  }
}

TEST(JsonReaderTest, StringsAreDecoded) {
  EXPECT_EQ(ReadOne<std::string>(R"("a\"\\\/\b\f\n\r\tz")").value, "a\"\\/\b\f\n\r\tz");
  EXPECT_EQ(ReadOne<std::string>(R"("\u0041\u00e9\u20AC\ud83d\ude00")").value, "A\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80");
  EXPECT_EQ(ReadOne<std::string>("\"\xF0\x9F\x98\x80\"").value, "\xF0\x9F\x98\x80");
  EXPECT_EQ(ReadOne<std::string>(R"("\u0000")").value, std::string(1, '\0'));
  for (const char* text :
       {"\"\x80\"", "\"\xC0\x80\"", "\"\xED\xA0\x80\"", "\"\xF4\x90\x80\x80\"", "\"\xE2\x82\"", "\"\n\"", R"("\x")",
        R"("\u12G4")", R"("\ud800")", R"("\udc00")", R"("\ud800\u0041")", "\"abc", "'a'"}) {
    EXPECT_FALSE(ReadOne<std::string>(text).ok) << text;
  }
}

TEST(JsonReaderTest, ObjectsAndArraysAreWalked) {
  Pieces source(R"( { "a" : [ 1 , 2 ] , "b" : { } , "c":[],"skip":[[{"x":[1,{}]}],"]",-1.5e+3,null], "d" : true } )");
  JsonReader in(source);
  std::vector<std::string> names;
  std::vector<std::uint32_t> values;
  bool flag = false;
  ASSERT_TRUE(in.EnterObject());
  std::string name;
  while (in.NextMember(name)) {
    names.push_back(name);
    if (name == "a") {
      EXPECT_TRUE(in.ReadArray(values, 2));
    } else if (name == "d") {
      EXPECT_TRUE(in.Read(flag));
    } else {
      EXPECT_TRUE(in.Skip());
    }
  }
  EXPECT_TRUE(in.ExpectEnd()) << in.problem();
  EXPECT_THAT(names, ElementsAre("a", "b", "c", "skip", "d"));
  EXPECT_THAT(values, ElementsAre(1u, 2u));
  EXPECT_TRUE(flag);
}

TEST(JsonReaderTest, ErrorsNameByteAndPath) {
  Pieces source(R"({"events":{"stack":[1,2,-3]}})");
  JsonReader in(source);
  std::string name;
  std::vector<std::uint32_t> values;
  ASSERT_TRUE(in.EnterObject() && in.NextMember(name) && in.EnterObject() && in.NextMember(name));
  EXPECT_FALSE(in.ReadArray(values, 10));
  EXPECT_EQ(in.place(), "byte 24 ($.events.stack[2])");
  EXPECT_THAT(in.problem(), HasSubstr("not negative"));
  EXPECT_FALSE(in.NextElement()) << "errors are sticky";
  EXPECT_FALSE(in.ExpectEnd());
}

TEST(JsonReaderTest, ATextThatEndsSaysSo) {
  for (const char* text :
       {"{", "{\"a", "{\"a\"", "{\"a\":", "{\"a\":1", "{\"a\":1,", "[", "[1", "[1,", "[\"\\u12", "[tru"}) {
    Pieces source(text);
    JsonReader in(source);
    EXPECT_FALSE(in.Skip() && in.ExpectEnd()) << text;
    EXPECT_TRUE(in.cut_off()) << text << ": " << in.problem();
  }
  Pieces empty("");
  JsonReader in(empty);
  EXPECT_FALSE(in.Skip());
  EXPECT_EQ(in.problem(), "the file is empty");
}

// Reads an array of integers whole, which takes short cuts, and element by element, which takes none.
template <typename Integer>
void ExpectSameArray(const std::string& text, std::size_t piece) {
  Pieces whole_source(text, piece), single_source(text, piece);
  JsonReader whole(whole_source), single(single_source);
  std::vector<Integer> at_once, one_by_one;
  const bool read = whole.ReadArray(at_once, 100'000);
  bool also = single.EnterArray();
  while (also && single.NextElement()) {
    Integer value{};
    also = single.Read(value);
    if (also) one_by_one.push_back(value);
  }
  EXPECT_EQ(read, also && single.ok()) << text.substr(0, 200);
  EXPECT_EQ(at_once, one_by_one) << text.substr(0, 200);
  EXPECT_EQ(whole.problem(), single.problem());
  EXPECT_EQ(whole.place(), single.place());
}

TEST(JsonReaderTest, ArraysReadWholeAreReadAsTheirElementsAre) {
  const std::vector<std::string> odd = {"18446744073709551615",
                                        "18446744073709551616",
                                        "9223372036854775807",
                                        "9223372036854775808",
                                        "9999999999999999999",
                                        "10000000000000000000",
                                        "-1",
                                        "-9223372036854775808",
                                        "255",
                                        "256",
                                        "01",
                                        "00",
                                        "",
                                        " 7",
                                        "7 ",
                                        "7\n",
                                        "1.0",
                                        "1e2",
                                        "x",
                                        "\"1\"",
                                        "1]",
                                        "[1]",
                                        "7,,7",
                                        "0000000000000000000000001"};
  for (const std::string& element : odd) {
    for (const std::size_t before : {0, 1, 3, 30}) {
      for (const std::size_t piece : {1, 7, 64, 4096}) {
        std::string text = "[";
        for (std::size_t i = 0; i < before; ++i) text += std::to_string(i * i) + ",";
        text += element;
        for (std::size_t i = 0; i < 20; ++i) text += "," + std::to_string(i);
        for (const char* end : {"]", ",]", "", "}", "]]"}) {
          ExpectSameArray<std::uint64_t>(text + end, piece);
          ExpectSameArray<std::int64_t>(text + end, piece);
          ExpectSameArray<std::uint8_t>(text + end, piece);
        }
      }
    }
  }
}

TEST(JsonReaderTest, LongArraysAreReadExactly) {
  std::string text = "[";
  std::vector<std::uint64_t> values;
  for (std::uint64_t i = 0, value = 1; i < 50'000; ++i, value = value * 6364136223846793005u + 1) {
    values.push_back(value >> (i % 64));
    text += (i == 0 ? "" : ",") + std::to_string(values.back());
  }
  text += "]";
  Pieces source(text, 65536);
  JsonReader in(source);
  std::vector<std::uint64_t> read;
  ASSERT_TRUE(in.ReadArray(read, values.size())) << in.problem();
  EXPECT_EQ(read, values);
}

TEST(JsonReaderTest, DepthAndLengthsAreBounded) {
  EXPECT_TRUE(Accepts(std::string(1 << 20, ' ') + "1 ", 4096));
  EXPECT_FALSE(Accepts(std::string((1 << 20) + 1, ' ') + "1", 4096));
  EXPECT_TRUE(Accepts(std::string(4096, '1')));
  EXPECT_FALSE(Accepts(std::string(4097, '1')));
  EXPECT_TRUE(Accepts(std::string(100, '[') + std::string(100, ']')));
  EXPECT_FALSE(Accepts(std::string(1'000'000, '['), 4096));
  EXPECT_FALSE(Accepts("\"" + std::string(20 << 20, 'x') + "\"", 65536));
  Pieces source("[1,2,3]");
  JsonReader in(source);
  std::vector<std::uint32_t> values;
  EXPECT_FALSE(in.ReadArray(values, 2));
  EXPECT_THAT(in.problem(), HasSubstr("more than 2"));
}

// The grammar, against another implementation: random texts that are JSON or nearly so. (Exponents end in a space: the
// other parser also refuses numbers that a double cannot hold.)
TEST(JsonReaderTest, AcceptsExactlyWhatAnotherParserAccepts) {
  const std::vector<std::string> parts = {"{",
                                          "}",
                                          "[",
                                          "]",
                                          ",",
                                          ":",
                                          "\"a\"",
                                          "\"\"",
                                          "1",
                                          "0",
                                          "-",
                                          "-0",
                                          "1.5",
                                          "1.",
                                          ".5",
                                          "1e5 ",
                                          "1E+1 ",
                                          "1E+ ",
                                          "01",
                                          "true",
                                          "false",
                                          "null",
                                          "tru",
                                          " ",
                                          "\n",
                                          "\t",
                                          "\"\\n\"",
                                          "\"\\u00e9\"",
                                          "\"\\ud800\\udc00\"",
                                          "\"\\ud800\"",
                                          "\"\\q\"",
                                          "\"\xC3\xA9\"",
                                          "\"\xC3\"",
                                          "\"\xED\xA0\x80\"",
                                          "\"",
                                          "\\",
                                          "\x01",
                                          "x",
                                          "{\"k\":1}",
                                          "[1,2]",
                                          "[]",
                                          "{}",
                                          "\"k\":"};
  std::mt19937_64 random(3);
  int accepted = 0;
  for (int round = 0; round < 60'000; ++round) {
    std::string text;
    // Half the texts begin as something sound, so that many are accepted.
    if (round % 2 == 0) text = round % 4 == 0 ? "[1," : "{\"k\":";
    for (std::uint64_t n = random() % 5; n > 0; --n) text += parts[random() % parts.size()];
    if (round % 2 == 0) text += round % 4 == 0 ? "]" : "}";
    const bool expected = nlohmann::json::accept(text);
    accepted += expected ? 1 : 0;
    ASSERT_EQ(Accepts(text, 1 + random() % 7), expected) << text;
  }
  EXPECT_GT(accepted, 3'000) << "the texts are too wild to say anything";
}

}  // namespace
}  // namespace cuheap::analysis
