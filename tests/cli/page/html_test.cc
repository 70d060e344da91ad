#include "cli/page/html.h"

#include <gtest/gtest.h>

#include <string>

namespace millrace::cli {
namespace {

TEST(HtmlTest, MarkupIsEscaped) {
  EXPECT_EQ(EscapeHtml("<a href=\"x\" b='y'>&amp;"),
            "&lt;a href=&quot;x&quot; b=&#39;y&#39;&gt;&amp;amp;");
}

TEST(HtmlTest, LettersOfAllLanguagesStay) { EXPECT_EQ(EscapeHtml("aé漢😀\n"), "aé漢😀\n"); }

TEST(HtmlTest, WhatIsNoTextIsSpeltOut) {
  EXPECT_EQ(EscapeHtml(std::string("a\0b", 3)), "a\\x00b");
  EXPECT_EQ(EscapeHtml("\t\r\x7F"), "\\x09\\x0D\\x7F");
  EXPECT_EQ(EscapeHtml("\xFF\xC3<"), "\\xFF\\xC3&lt;");
  EXPECT_EQ(EscapeHtml("\xE6\xBC"), "\\xE6\\xBC");  // the begin of a character
  EXPECT_EQ(EscapeHtml("\xC2\x85"), "\\xC2\\x85");  // U+0085, a control character
  EXPECT_EQ(EscapeHtml("\xC0\xBC"), "\\xC0\\xBC");  // an overlong '<'
}

TEST(HtmlTest, APngIsItsOwnAddress) {
  EXPECT_EQ(PngUri("\x89PNG"), "data:image/png;base64,iVBORw==");
}

}  // namespace
}  // namespace millrace::cli
