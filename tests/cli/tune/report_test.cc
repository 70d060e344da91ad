#include "cli/tune/report.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace millrace::cli {
namespace {

std::vector<std::string> FieldsOf(const TuneReport& report) {
  std::vector<std::string> fields;
  for (const pipeline::FieldChange& change : ChangesOf(report)) fields.push_back(change.field);
  return fields;
}

TEST(ChangesOfTest, ASettingAsBeforeIsNoChange) {
  TuneReport report;
  report.defaults = {.threads = 8, .ring = 2, .memory_budget_mib = 2048};
  report.before.threads = 4;
  report.result.settings.threads = 4;
  report.result.settings.prefetch_batches = 2;
  EXPECT_TRUE(FieldsOf(report).empty());
  report.result.settings.prefetch_batches = 4;
  EXPECT_EQ(FieldsOf(report), std::vector<std::string>{"prefetch"});
}

// With 8 threads 16 threads read by default, with 2 threads 4.
TEST(ChangesOfTest, ASettingWhoseDefaultFollowsAnotherIsWritten) {
  TuneReport report;
  report.defaults = {.threads = 8, .ring = 2, .memory_budget_mib = 2048};
  report.result.settings.threads = 2;
  report.result.settings.io_threads = 16;
  EXPECT_EQ(FieldsOf(report), (std::vector<std::string>{"threads", "io_threads"}));
}

}  // namespace
}  // namespace millrace::cli
