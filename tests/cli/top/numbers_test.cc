#include "cli/top/numbers.h"

#include <gtest/gtest.h>

#include <cmath>

namespace millrace::cli {
namespace {

TEST(CountText, HasAFewColumnsWhateverTheNumber) {
  EXPECT_EQ(CountText(0), "0");
  EXPECT_EQ(CountText(999), "999");
  EXPECT_EQ(CountText(1000), "1,000");
  EXPECT_EQ(CountText(1'234'567), "1,234,567");
  EXPECT_EQ(CountText(12'345'678), "12.3M");
  EXPECT_EQ(CountText(4'560'000'000), "4.56G");
  EXPECT_EQ(CountText(1'234'500'000'000), "1234G");
}

TEST(RateText, HasADecimalWhileItIsSmall) {
  EXPECT_EQ(RateText(0), "0.0");
  EXPECT_EQ(RateText(9.94), "9.9");
  EXPECT_EQ(RateText(9.96), "10");
  EXPECT_EQ(RateText(2791.6), "2,792");
  EXPECT_EQ(RateText(std::nan("")), "-");
  EXPECT_EQ(RateText(INFINITY), "-");
}

TEST(TimeText, TakesTheUnitThatFits) {
  EXPECT_EQ(TimeText(0), "0 us");
  EXPECT_EQ(TimeText(350'400), "350 us");
  EXPECT_EQ(TimeText(999'600), "1.0 ms");
  EXPECT_EQ(TimeText(31'500'000), "31.5 ms");
  EXPECT_EQ(TimeText(1'234'000'000), "1.2 s");
}

TEST(ClockText, CountsDaysApart) {
  EXPECT_EQ(ClockText(0), "00:00:00");
  EXPECT_EQ(ClockText(751.4), "00:12:31");
  EXPECT_EQ(ClockText(3 * 86400 + 3661), "3 d 01:01:01");
  EXPECT_EQ(ClockText(120 * 86400 + 3661), "120 d");
}

TEST(PlainText, IsCutToItsWidth) {
  EXPECT_EQ(PlainText("decode_image", 12), "decode_image");
  EXPECT_EQ(PlainText("decode_image", 8), "decode..");
  EXPECT_EQ(PlainText("\t\x7f\xff", 8), "???");
}

}  // namespace
}  // namespace millrace::cli
