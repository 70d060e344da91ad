#include "cli/metrics/metrics_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <fstream>
#include <iterator>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "base/metric_table.h"
#include "base/unique_fd.h"
#include "tests/messages.h"
#include "tests/temp_folder.h"

namespace millrace::cli {
namespace {

std::vector<nlohmann::json> LinesOf(const std::string& path) {
  std::ifstream file(path);
  std::vector<nlohmann::json> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

std::ptrdiff_t CountLines(const std::string& path) {
  std::ifstream file(path);
  return std::count(std::istreambuf_iterator<char>(file), {}, '\n');
}

TEST(MetricsFileTest, TheLastLineIsWrittenAtTheEnd) {
  const TempFolder folder;
  const MetricsFileOptions options = {
      .path = folder / "metrics.jsonl", .every = std::chrono::hours(1), .rank = 3};
  const auto metrics = std::make_shared<Metrics>();
  for (int run = 1; run <= 2; ++run) {
    const auto file = MetricsFile::Open(options, metrics);
    ASSERT_TRUE(file.ok()) << file.status();
    metrics->counter(metric::kBatches).Add();
    metrics->gauge(metric::kTrainLoss).Set(0.5);
    metrics->gauge(metric::kTrainEpoch).Set(std::numeric_limits<double>::infinity());
  }
  const std::vector<nlohmann::json> lines = LinesOf(options.path);
  ASSERT_EQ(lines.size(), 2u) << "a second run appends";
  EXPECT_GT(lines[1]["time"], 1.7e9);
  EXPECT_EQ(lines[1]["rank"], 3);
  EXPECT_EQ(lines[1]["metrics"]["millrace_batches_total"], 2);
  EXPECT_TRUE(lines[1]["metrics"]["millrace_batches_total"].is_number_integer());
  EXPECT_EQ(lines[1]["metrics"]["millrace_train_loss"], 0.5);
  EXPECT_TRUE(lines[1]["metrics"]["millrace_train_epoch"].is_null());
}

TEST(MetricsFileTest, LinesComeAgainAndAgain) {
  const TempFolder folder;
  const MetricsFileOptions options = {.path = folder / "metrics.jsonl",
                                      .every = std::chrono::milliseconds(1)};
  const auto file = MetricsFile::Open(options, std::make_shared<Metrics>());
  ASSERT_TRUE(file.ok()) << file.status();
  while (CountLines(options.path) < 3) std::this_thread::yield();
}

TEST(MetricsFileTest, AFileThatCannotBeOpenedIsNamed) {
  const TempFolder folder;
  EXPECT_MESSAGE(
      MetricsFile::Open({.path = folder / "missing/metrics.jsonl"}, std::make_shared<Metrics>())
          .status());
}

TEST(MetricsFileTest, AFullDiskIsAWarning) {
  testing::internal::CaptureStderr();
  {
    const auto file = MetricsFile::Open({.path = "/dev/full", .every = std::chrono::hours(1)},
                                        std::make_shared<Metrics>());
    ASSERT_TRUE(file.ok()) << file.status();
  }
  EXPECT_MESSAGE(testing::internal::GetCapturedStderr());
}

TEST(MetricsFileTest, APipeWhoseReaderHasEndedIsAWarning) {
  const TempFolder folder;
  const std::string path = folder / "pipe";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  UniqueFd reader(::open(path.c_str(), O_RDONLY | O_NONBLOCK));
  testing::internal::CaptureStderr();
  {
    const auto file = MetricsFile::Open({.path = path, .every = std::chrono::hours(1)},
                                        std::make_shared<Metrics>());
    ASSERT_TRUE(file.ok()) << file.status();
    reader = UniqueFd();
  }
  EXPECT_MESSAGE(testing::internal::GetCapturedStderr());
}

}  // namespace
}  // namespace millrace::cli
