#include "interpose/python/utf8.h"

#include <gtest/gtest.h>

#include <string>

namespace cuheap::python {
namespace {

template <typename Character>
std::string Convert(const std::basic_string<Character>& text, std::size_t room, bool* cut = nullptr) {
  std::string out(room, '\0');
  const Utf8Result result = ToUtf8(text.data(), sizeof(Character), text.size(), out.data(), room);
  if (cut != nullptr) *cut = result.cut;
  out.resize(result.bytes);
  return out;
}

TEST(Utf8Test, EveryWidthIsConverted) {
  EXPECT_EQ(Convert(std::string("gr\xF6\xDF"
                                "e"),
                    100),
            "größe");
  EXPECT_EQ(Convert(std::u16string(u"путь €"), 100), "путь €");
  EXPECT_EQ(Convert(std::u32string(U"a\u00E9\u20AC\U0001F600"), 100), "aé€😀");
  EXPECT_EQ(Convert(std::u32string(1, 0x10FFFF), 100), "\xF4\x8F\xBF\xBF");
}

TEST(Utf8Test, WhatIsNoCharacterIsReplaced) {
  EXPECT_EQ(Convert(std::u16string(1, 0xDC80), 100), "\uFFFD");
  EXPECT_EQ(Convert(std::u32string(1, 0x110000), 100), "\uFFFD");
}

TEST(Utf8Test, CutsOnlyBetweenCharacters) {
  bool cut = false;
  EXPECT_EQ(Convert(std::u16string(u"ab€"), 4, &cut), "ab");
  EXPECT_TRUE(cut);
  EXPECT_EQ(Convert(std::u16string(u"ab€"), 5, &cut), "ab€");
  EXPECT_FALSE(cut);
  EXPECT_EQ(Convert(std::u16string(u"a"), 0, &cut), "");
  EXPECT_TRUE(cut);
}

}  // namespace
}  // namespace cuheap::python
