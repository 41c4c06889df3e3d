#include "analysis/printable.h"

#include <gtest/gtest.h>

namespace cuheap::analysis {
namespace {

TEST(PrintableTest, TextStaysAsItIs) {
  for (const char* text : {"", "train.cc:57", "Größe/модель/模型.py", "😀 \u00A0\u200D", "\uFFFD", "\U0010FFFF"})
    EXPECT_EQ(Printable(text), text);
}

TEST(PrintableTest, ControlCharactersAreReplaced) {
  EXPECT_EQ(Printable("a\x1B[2Jb\nc\td\re\x7F"), "a?[2Jb?c?d?e?");
  EXPECT_EQ(Printable(std::string_view("a\0b", 3)), "a?b");
  EXPECT_EQ(Printable("a\xC2\x9B"
                      "31mb"),
            "a?31mb");  // CSI as one code point
  EXPECT_EQ(Printable("\xC2\x80\xC2\x85\xC2\x9F\xC2\xA0"), "???\xC2\xA0");
}

TEST(PrintableTest, WhatTurnsTheDirectionOrBreaksLinesIsReplaced) {
  EXPECT_EQ(Printable("a\u202Eb\u202Ac\u202Dd"), "a?b?c?d");
  EXPECT_EQ(Printable("\u2066x\u2069\u2067\u2068"), "?x???");
  EXPECT_EQ(Printable("\u200E\u200F\u061C"), "???");
  EXPECT_EQ(Printable("a\u2028b\u2029c"), "a?b?c");
  EXPECT_EQ(Printable("\u2027\u202F\u2065\u206A"), "\u2027\u202F\u2065\u206A");
}

TEST(PrintableTest, BytesThatAreNotUtf8AreReplacedOneByOne) {
  EXPECT_EQ(Printable("\x9B"
                      "1mx"),
            "?1mx");                                 // CSI of an 8-bit terminal
  EXPECT_EQ(Printable("caf\xE9"), "caf?");           // Latin-1
  EXPECT_EQ(Printable("\xC0\x8A"), "??");            // an overlong newline
  EXPECT_EQ(Printable("\xE0\x82\x9B"), "???");       // an overlong CSI
  EXPECT_EQ(Printable("\xED\xA0\x80"), "???");       // a surrogate
  EXPECT_EQ(Printable("\xF4\x90\x80\x80"), "????");  // beyond the last code point
  EXPECT_EQ(Printable("\xE2\x82"
                      "a\xE2\x82"),
            "??a??");  // cut short
}

TEST(PrintableJsonTest, WhatSteersATerminalIsEscaped) {
  EXPECT_EQ(PrintableJson("{\n  \"a\": \"x\xC2\x9By\xE2\x80\xAEz\x7F\"\n}\n"),
            "{\n  \"a\": \"x\\u009by\\u202ez\\u007f\"\n}\n");
}

TEST(PrintableJsonTest, EverythingElseStays) {
  const std::string json = "{\"\xC3\xA4\\n\": [1, \"\xF0\x9F\x94\xA5\"]}";
  EXPECT_EQ(PrintableJson(json), json);
}

}  // namespace
}  // namespace cuheap::analysis
