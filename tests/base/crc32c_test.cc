#include "base/crc32c.h"

#include <gtest/gtest.h>

#include <string>

#include "base/little_endian.h"
#include "tests/slow_crc32c.h"

namespace millrace {
namespace {

std::span<const std::byte> BytesOf(const std::string& text) {
  return std::as_bytes(std::span(text));
}

TEST(Crc32cTest, MatchesPublishedVectors) {  // RFC 3720, B.4, and "123456789"
  EXPECT_EQ(SlowCrc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(SlowCrc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(SlowCrc32c(std::string(32, '\xff')), 0x62a8ab43u);
  for (const size_t size : {0, 1, 3, 4, 7, 8, 9, 31, 32, 100, 1000, 5000}) {
    const std::string bytes(size, 'x');
    EXPECT_EQ(MaskedCrc32c(BytesOf(bytes)), SlowMaskedCrc(bytes)) << size;
  }
}

TEST(Crc32cTest, PiecesSumToTheWhole) {
  const std::string bytes(1000, 'y');
  Crc32c crc;
  for (size_t i = 0; i < bytes.size(); i += 250) crc.Add(BytesOf(bytes).subspan(i, 250));
  EXPECT_EQ(crc.Masked(), SlowMaskedCrc(bytes));
}

TEST(Crc32cTest, BothSumsMustBeRight) {
  for (const size_t size : {5, 512, 513, 4000}) {
    const std::string first(8, 'a');
    const std::string second(size, 'b');
    const SummedBytes a{BytesOf(first), SlowMaskedCrc(first)};
    const SummedBytes b{BytesOf(second), SlowMaskedCrc(second)};
    EXPECT_TRUE(BothCrcsOk(a, b)) << size;
    EXPECT_FALSE(BothCrcsOk({a.bytes, a.masked ^ 1}, b)) << size;
    EXPECT_FALSE(BothCrcsOk(a, {b.bytes, b.masked ^ 1})) << size;
  }
}

TEST(LittleEndianTest, LowestByteComesFirst) {
  std::byte bytes[9] = {};
  StoreU64(0x0102030405060708u, bytes + 1);  // unaligned
  EXPECT_EQ(bytes[1], std::byte{8});
  EXPECT_EQ(bytes[8], std::byte{1});
  EXPECT_EQ(LoadU64(bytes + 1), 0x0102030405060708u);
  EXPECT_EQ(LoadU32(bytes + 1), 0x05060708u);
  StoreU32(7, bytes + 5);
  EXPECT_EQ(LoadU64(bytes + 1), 0x0000000705060708u);
}

}  // namespace
}  // namespace millrace
