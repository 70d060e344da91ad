#include <gmock/gmock.h>

#include "cli/doctor/checks.h"
#include "tests/cli/doctor/made_host.h"

namespace millrace::cli::doctor {
namespace {

using ::testing::HasSubstr;

DiskRate Fast() {
  return {.path = "data",
          .num_files = 4,
          .file_bytes = 8 << 20,
          .read_bytes = 1000000000,
          .seconds = 2};
}

TEST(CheckDecodingTest, TheRateIsThatOfACoreAndTheImageIsNamed) {
  MadeHost made;
  EXPECT_EQ(OnlyOf(CheckDecoding(made.host)).found,
            "700 JPEGs/s on one core (500 x 375, 96.0 KiB, made)");
  made.host.decoding.from = "a.tar";
  EXPECT_EQ(OnlyOf(CheckDecoding(made.host)).found,
            "700 JPEGs/s on one core (500 x 375, 96.0 KiB, of a.tar)");
}

TEST(CheckDecodingTest, AThreadThatSharesItsCoreIsAWarning) {
  MadeHost made;
  made.host.decoding.core_share = 0.9;
  EXPECT_EQ(OnlyOf(CheckDecoding(made.host)).verdict, Verdict::kOk);
  made.host.decoding.core_share = 0.25;
  const Finding finding = OnlyOf(CheckDecoding(made.host));
  EXPECT_EQ(finding.verdict, Verdict::kWarn);
  EXPECT_THAT(finding.found, HasSubstr("; the thread had a core for 25 % of the time"));
}

TEST(CheckDecodingTest, ADecoderThatFailsIsAFailure) {
  MadeHost made;
  made.host.decoding = {.error = "no memory"};
  EXPECT_EQ(OnlyOf(CheckDecoding(made.host)).verdict, Verdict::kFail);
  made.host.decoding = {};
  EXPECT_EQ(OnlyOf(CheckDecoding(made.host)).verdict, Verdict::kSkip);
}

TEST(CheckDataTest, WithoutAPathItIsSkipped) {
  EXPECT_THAT(OnlyOf(CheckData(MadeHost().host)).found, HasSubstr("--data PATH"));
}

TEST(CheckDataTest, TheRateIsToldWithHowTheFilesWereRead) {
  MadeHost made;
  made.host.disks = {Fast()};
  EXPECT_EQ(OnlyOf(CheckData(made.host)).found,
            "data: 500 MB/s past the page cache (4 files, 8.0 MiB)");
  made.host.disks[0].bypass = Bypass::kDropped;
  EXPECT_THAT(OnlyOf(CheckData(made.host)).found, HasSubstr("may come from the page cache"));
  made.host.disks[0].bypass = Bypass::kMemory;
  EXPECT_THAT(OnlyOf(CheckData(made.host)).found, HasSubstr("from memory"));
}

TEST(CheckDataTest, TooLittleIsSkippedAndAnErrorFails) {
  MadeHost made;
  made.host.disks = {Fast(), {.path = "b", .error = "no file matches b"}};
  made.host.disks[0].seconds = 0.001;
  const Findings findings = CheckData(made.host);
  ASSERT_EQ(findings.size(), 2U);
  EXPECT_EQ(findings[0].verdict, Verdict::kSkip);
  EXPECT_EQ(findings[1].verdict, Verdict::kFail);
  EXPECT_EQ(findings[1].found, "no file matches b");
}

// 16 cores decode 700 images of 96 KiB each.
TEST(CheckDataTest, ADiskBelowWhatTheCoresDecodeOfItsImagesIsAWarning) {
  MadeHost made;
  made.host.disks = {Fast()};
  EXPECT_EQ(OnlyOf(CheckData(made.host)).verdict, Verdict::kOk);  // the image is not the data's
  made.host.decoding.from = "data/a.tar";
  const Finding finding = OnlyOf(CheckData(made.host));
  EXPECT_EQ(finding.verdict, Verdict::kWarn);
  EXPECT_THAT(finding.found, HasSubstr("; 16 cores would decode 1101 MB/s of its JPEGs"));
  made.host.cores.usable = 4;
  EXPECT_EQ(OnlyOf(CheckData(made.host)).verdict, Verdict::kOk);
}

}  // namespace
}  // namespace millrace::cli::doctor
