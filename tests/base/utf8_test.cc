#include "base/utf8.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace millrace {
namespace {

// One code point by RFC 3629's table of bit patterns.
std::string Encoded(uint32_t code) {
  const auto tail = [&](int shift) { return static_cast<char>(0x80 | (code >> shift & 0x3F)); };
  if (code < 0x80) return {static_cast<char>(code)};
  if (code < 0x800) return {static_cast<char>(0xC0 | code >> 6), tail(0)};
  if (code < 0x10000) return {static_cast<char>(0xE0 | code >> 12), tail(6), tail(0)};
  return {static_cast<char>(0xF0 | code >> 18), tail(12), tail(6), tail(0)};
}

bool IsSurrogate(uint32_t code) { return code >= 0xD800 && code < 0xE000; }

TEST(Utf8Test, EveryCodePointIsTextAndNoSurrogateIs) {
  for (uint32_t code = 0; code < 0x110000; ++code) {
    ASSERT_EQ(IsUtf8(Encoded(code)), !IsSurrogate(code)) << code;
  }
  for (uint32_t code = 0x110000; code < 0x200000; code += 0x3FF) {
    ASSERT_FALSE(IsUtf8(Encoded(code))) << code;
  }
}

TEST(Utf8Test, ThreeBytesAreTextWhenTheyAreASequenceOfCodePoints) {
  std::vector<std::set<std::string>> whole(4);  // sequences by their length
  for (uint32_t code = 0; code < 0x10000; ++code) {
    const std::string bytes = Encoded(code);
    if (!IsSurrogate(code)) whole[bytes.size()].insert(bytes);
  }
  const auto is = [&](const std::string& bytes) { return whole[bytes.size()].contains(bytes); };
  const auto is_text_of_2 = [&](const std::string& bytes) {
    return is(bytes) || (is(bytes.substr(0, 1)) && is(bytes.substr(1)));
  };
  // Bytes on both sides of every limit of the table.
  const std::vector<int> limits = {0x00, 0x41, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0,
                                   0xBF, 0xC0, 0xC1, 0xC2, 0xDF, 0xE0, 0xE1, 0xEC,
                                   0xED, 0xEE, 0xEF, 0xF0, 0xF4, 0xFF};
  for (const int a : limits) {
    for (int b = 0; b < 256; ++b) {
      const std::string two = {static_cast<char>(a), static_cast<char>(b)};
      ASSERT_EQ(IsUtf8(two), is_text_of_2(two)) << a << " " << b;
      for (const int c : limits) {
        const std::string three = two + static_cast<char>(c);
        const bool want = is(three) || (is(two.substr(0, 1)) && is_text_of_2(three.substr(1))) ||
                          (is(two) && is(three.substr(2)));
        ASSERT_EQ(IsUtf8(three), want) << a << " " << b << " " << c;
      }
    }
  }
}

TEST(Utf8Test, CutSequencesAreNotText) {
  EXPECT_TRUE(IsUtf8(""));
  for (const uint32_t code : {0xFCu, 0x20ACu, 0x1F3B2u}) {
    const std::string bytes = "a" + Encoded(code);
    for (size_t size = 2; size < bytes.size(); ++size) EXPECT_FALSE(IsUtf8(bytes.substr(0, size)));
    EXPECT_TRUE(IsUtf8(bytes + "b"));
  }
}

}  // namespace
}  // namespace millrace
