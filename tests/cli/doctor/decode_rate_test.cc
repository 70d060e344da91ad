#include "cli/doctor/decode_rate.h"

#include <gmock/gmock.h>

#include <chrono>
#include <fstream>
#include <string>

#include "readers/image_header.h"
#include "tests/temp_folder.h"

namespace millrace::cli::doctor {
namespace {

using ::testing::AllOf;
using ::testing::Ge;
using ::testing::Le;

using TimePoint = std::chrono::steady_clock::time_point;

// A clock that goes on by 10 ms with each look.
std::chrono::milliseconds g_passed{0};
TimePoint SteppingNow() {
  g_passed += std::chrono::milliseconds(10);
  return TimePoint() + g_passed;
}

// A thread that has the core for half of that time.
double g_used = 0;
double SteppingCpu() { return g_used += 0.005; }

void WriteFile(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

TEST(MakeJpegTest, IsAPhotographsSize) {
  const auto jpeg = MakeJpeg();
  ASSERT_TRUE(jpeg.ok()) << jpeg.status();
  EXPECT_THAT(jpeg->size(), AllOf(Ge(size_t{80} << 10), Le(size_t{110} << 10)));
  const auto header = readers::ReadImageHeader(*jpeg);
  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_EQ(header->width, 500);
  EXPECT_EQ(header->channels, 3);
  EXPECT_EQ(*MakeJpeg(), *jpeg);
}

TEST(MeasureDecodeRateTest, CountsImagesUntilTheTimeIsOver) {
  int ticks = 0;
  const DecodeRate rate = MeasureDecodeRate(
      {.seconds = 0.1, .now = &SteppingNow, .cpu_seconds = &SteppingCpu, .tick = [&ticks] {
         ++ticks;
       }});
  EXPECT_EQ(rate.error, "");
  EXPECT_NEAR(rate.images_per_second, 200, 1e-6);  // of the thread's own time
  EXPECT_NEAR(rate.core_share, 0.5, 1e-6);
  EXPECT_EQ(ticks, 10);
  EXPECT_EQ(rate.from, "");
}

TEST(MeasureDecodeRateTest, AJpegInsideOfAFileIsTakenAndOneThatIsCutIsNot) {
  const TempFolder folder;
  const std::string jpeg = *MakeJpeg();
  WriteFile(folder / "text", "no image");
  WriteFile(folder / "record", "head" + jpeg.substr(0, jpeg.size() / 2) + jpeg + "tail");
  const DecodeRate rate = MeasureDecodeRate(
      {.files = {folder / "text", folder / "record"}, .seconds = 0.01, .now = &SteppingNow});
  EXPECT_EQ(rate.error, "");
  EXPECT_EQ(rate.from, folder / "record");
  EXPECT_EQ(rate.image_bytes, jpeg.size());
  EXPECT_EQ(rate.height, 375);
}

TEST(MeasureDecodeRateTest, FilesWithoutAWholeJpegLeaveTheMadeOne) {
  const TempFolder folder;
  const std::string jpeg = *MakeJpeg();
  WriteFile(folder / "cut", jpeg.substr(0, jpeg.size() / 2));
  const DecodeRate rate = MeasureDecodeRate(
      {.files = {folder / "cut", folder / "none"}, .seconds = 0.01, .now = &SteppingNow});
  EXPECT_EQ(rate.error, "");
  EXPECT_EQ(rate.from, "");
  EXPECT_EQ(rate.image_bytes, jpeg.size());
}

}  // namespace
}  // namespace millrace::cli::doctor
