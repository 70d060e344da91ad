#include "cli/tune/report.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace millrace::cli {
namespace {

std::vector<std::string> FieldsOf(const TuneReport& report, TunedFile file = TunedFile::kPlan) {
  std::vector<std::string> fields;
  for (const pipeline::FieldChange& change : ChangesOf(report, file)) {
    fields.push_back(change.field);
  }
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

TEST(ChangesOfTest, AJobHasItsOwnFieldsAndItsPlanTheOthers) {
  TuneReport report;
  report.plan_file = "train.pbtxt";
  report.defaults = {.threads = 1, .ring = 2, .memory_budget_mib = 1024, .cores = 4};
  report.result.settings = {.threads = 2, .memory_budget_mib = 2048, .io_threads = 16};
  EXPECT_EQ(FieldsOf(report, TunedFile::kJob),
            (std::vector<std::string>{"pipeline_threads", "memory_budget_mib"}));
  EXPECT_EQ(FieldsOf(report, TunedFile::kPlan), std::vector<std::string>{"io_threads"});
  EXPECT_EQ(ChangesOf(report, TunedFile::kJob)[0].comment,
            "was 1 by default: over the limit of the search");
  report.plan_file.clear();
  EXPECT_EQ(FieldsOf(report, TunedFile::kJob), std::vector<std::string>());
  EXPECT_EQ(FieldsOf(report, TunedFile::kPlan),
            (std::vector<std::string>{"threads", "io_threads", "memory_budget_mib"}));
}

}  // namespace
}  // namespace millrace::cli
