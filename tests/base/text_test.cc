#include "base/text.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace millrace {
namespace {

std::vector<std::string> Lines(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) lines.emplace_back(TakeLine(text));
  return lines;
}

TEST(TextTest, LinesEndWithAnyLineEnd) {
  using Strings = std::vector<std::string>;
  EXPECT_EQ(Lines("a\nb\r\nc\rd"), (Strings{"a", "b", "c", "d"}));
  EXPECT_EQ(Lines("\n\r\r\n\n\r"), (Strings{"", "", "", "", ""}));
  EXPECT_EQ(Lines(std::string(300, 'x') + "\r\n" + std::string(255, 'y') + "\r\nz"),
            (Strings{std::string(300, 'x'), std::string(255, 'y'), "z"}));
}

TEST(TextTest, OtherEncodingsAreKnownByTheirFirstBytes) {
  EXPECT_EQ(WhyNotText("plain"), "");
  EXPECT_EQ(WhyNotText("\xef\xbb\xbfmarked"), "");
  EXPECT_EQ(WhyNotText(""), "");
  EXPECT_EQ(WhyNotText(std::string("\0\0\0\0", 4)), "");
  for (const std::string& utf16 :
       {std::string("\xff\xfe"
                    "a\0",
                    4),
        std::string("\xfe\xff\0a", 4), std::string("a\0\n\0", 4), std::string("\0a\0\r", 4)}) {
    EXPECT_EQ(WhyNotText(utf16), "this is UTF-16 text; write it as UTF-8");
  }
  EXPECT_EQ(WhyNotText(std::string("\xff\xfe\0\0", 4)), "this is UTF-32 text; write it as UTF-8");
  EXPECT_EQ(ByteOrderMarkBytes("\xef\xbb\xbf"), 3u);
  EXPECT_EQ(ByteOrderMarkBytes("\xef\xbb"), 0u);
}

// The pointer is the one of the specification (git-lfs, docs/spec.md).
TEST(TextTest, FilesThatStandForOthersAreKnown) {
  const std::string pointer =
      "version https://git-lfs.github.com/spec/v1\n"
      "oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\n"
      "size 12345\n";
  EXPECT_TRUE(IsGitLfsPointer(pointer));
  EXPECT_TRUE(IsGitLfsPointer(pointer.substr(0, 12)));
  EXPECT_FALSE(IsGitLfsPointer(pointer.substr(0, 11)));
  EXPECT_FALSE(IsGitLfsPointer("version https://example.com/spec/v1\n"));
  EXPECT_EQ(WhyNotText(pointer), kIsGitLfsPointer);
  for (const char* page : {"<!DOCTYPE html>\n<html>", "<!doctype HTML PUBLIC", "\n  <html lang=en>",
                           "\xef\xbb\xbf<HTML>"}) {
    EXPECT_TRUE(IsHtml(page)) << page;
    EXPECT_EQ(WhyNotText(page), kIsHtml);
  }
  for (const char* other : {"", "<", "<!-- html -->", "a <html>", "<htm"}) {
    EXPECT_FALSE(IsHtml(other)) << other;
  }
}

// S-ERROR-8. Names of characters: the Unicode Character Database.
TEST(TextTest, WhatCannotBeSeenIsShownByItsNumber) {
  EXPECT_EQ(ShownText("caf\xc3\xa9 \xe6\x97\xa5"), "caf\xc3\xa9 \xe6\x97\xa5");
  EXPECT_EQ(ShownText("\xef\xbb\xbfid"), "<U+FEFF>id");  // byte order mark
  EXPECT_EQ(ShownText("a\xc2\xa0"
                      "b\xe2\x80\x8b"),
            "a<U+00A0>b<U+200B>");  // NBSP, ZWSP
  EXPECT_EQ(ShownText("\xe2\x80\xaetxt\xe3\x80\x80"), "<U+202E>txt<U+3000>");
  EXPECT_EQ(ShownText("\xf3\xa0\x80\xa1"), "<U+E0021>");  // a tag
  EXPECT_EQ(ShownText(std::string("\0\t\n\r\x7f", 5)), "<U+0000><U+0009><U+000A><U+000D><U+007F>");
  EXPECT_EQ(ShownText("\xff\xc3("), "<0xFF><0xC3>(");
  EXPECT_EQ(ShownMessage("a\n\tb\r"), "a\n\tb<U+000D>");
}

}  // namespace
}  // namespace millrace
