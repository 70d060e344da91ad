#include "base/big_endian.h"

#include <gtest/gtest.h>

#include <string_view>

namespace millrace {
namespace {

// An odd offset makes the addresses unaligned.
constexpr std::string_view kBytes("\x55\x01\x02\x83\xf4\x00\xff\x10\x20", 9);

TEST(BigEndianTest, TheFirstByteIsTheHighest) {
  EXPECT_EQ(LoadBigEndianU32(kBytes.data() + 1), 0x010283f4u);
  EXPECT_EQ(LoadBigEndianU64(kBytes.data() + 1), 0x010283f400ff1020u);
}

TEST(BigEndianTest, BytesOfANumberAreThoseThatWereLoaded) {
  EXPECT_EQ(BigEndianU32(0x010283f4), kBytes.substr(1, 4));
  EXPECT_EQ(BigEndianU32(7), std::string_view("\0\0\0\7", 4));
}

}  // namespace
}  // namespace millrace
