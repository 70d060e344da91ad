#include <gtest/gtest.h>

#include <cstdio>
#include <numeric>
#include <string>

#include "readers/record_source.h"
#include "readers/source/record_fetcher.h"
#include "tests/readers/inflate/deflated.h"
#include "tests/temp_files.h"

// gzip files with zeros behind them, as tapes and block devices leave them.

namespace millrace::readers {
namespace {

class PaddedGzipTest : public testing::Test {
 protected:
  // The records of a file, or the error.
  absl::StatusOr<std::vector<std::string>> Read(const std::string& bytes, bool resync = false) {
    const std::string path = folder_ / ("lines-" + std::to_string(++count_) + ".gz");
    WriteFile(path, bytes);
    RecordSourceOptions options;
    options.container.kind = ContainerKind::kText;
    options.index_folder = folder_ / "index";
    options.resync = resync;
    options.span_bytes = 4 << 10;
    const auto source = RecordSource::Open({path}, options);
    if (!source.ok()) return source.status();
    std::vector<uint64_t> all((*source)->num_records());
    std::iota(all.begin(), all.end(), 0);
    std::vector<std::string> records;
    const absl::Status read =
        RecordFetcher(**source).Fetch(all, [&](const RecordRef&, std::string_view payload) {
          records.emplace_back(payload);
          return absl::OkStatus();
        });
    if (!read.ok()) return read;
    return records;
  }

  TempFolder folder_;
  int count_ = 0;
};

std::string PaddedLines(int count) {
  std::string lines;
  uint32_t random = 1;
  for (int i = 0; i < count; ++i) {
    random = random * 1664525 + 1013904223;
    lines += "line " + std::to_string(random) + "\n";
  }
  return lines;
}

TEST_F(PaddedGzipTest, ZerosToTheEndChangeNothing) {
  const std::string one = Deflated(PaddedLines(20000), Wrapper::kGzip);
  const std::string two = one + Deflated("last\n", Wrapper::kGzip);
  for (const std::string& bytes : {one, two, Deflated("", Wrapper::kGzip)}) {
    const auto plain = Read(bytes);
    ASSERT_TRUE(plain.ok()) << plain.status();
    for (const size_t zeros : {1, 3, 8, 511, 512, 10240, 300000}) {
      for (const bool resync : {false, true}) {
        const auto padded = Read(bytes + std::string(zeros, '\0'), resync);
        ASSERT_TRUE(padded.ok()) << zeros << ": " << padded.status();
        ASSERT_EQ(*padded, *plain) << zeros;
      }
    }
  }
}

TEST_F(PaddedGzipTest, AnythingElseBehindIsDamage) {
  const std::string gzip = Deflated("line\n", Wrapper::kGzip);
  for (const size_t zeros : {1, 600, 300000}) {
    const std::string padded = gzip + std::string(zeros, '\0');
    EXPECT_EQ(Read(padded + "x").status().code(), absl::StatusCode::kDataLoss) << zeros;
    EXPECT_EQ(Read(padded + gzip).status().code(), absl::StatusCode::kDataLoss) << zeros;
  }
}

// gzip itself reads it, and says nothing.
TEST_F(PaddedGzipTest, AsGzipDoes) {
  WriteFile(folder_ / "a.gz", Deflated("line\n", Wrapper::kGzip) + std::string(512, '\0'));
  FILE* const pipe = ::popen(("gzip -dc '" + (folder_ / "a.gz") + "' 2>&1").c_str(), "r");
  ASSERT_NE(pipe, nullptr);
  char text[100] = {};
  const size_t got = std::fread(text, 1, sizeof text, pipe);
  EXPECT_EQ(::pclose(pipe), 0);
  EXPECT_EQ(std::string(text, got), "line\n");
}

}  // namespace
}  // namespace millrace::readers
