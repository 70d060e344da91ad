#include "base/bytes_text.h"

#include <gtest/gtest.h>

namespace millrace {
namespace {

TEST(BytesTextTest, UnitsAreBinary) {
  EXPECT_EQ(BytesText(0), "0 B");
  EXPECT_EQ(BytesText(1023), "1023 B");
  EXPECT_EQ(BytesText(1024), "1.0 KiB");
  EXPECT_EQ(BytesText(3 << 20), "3.0 MiB");
  EXPECT_EQ(BytesText(1.5 * (1 << 30)), "1.5 GiB");
  EXPECT_EQ(BytesText(0x1p60), "1024.0 PiB");
}

}  // namespace
}  // namespace millrace
