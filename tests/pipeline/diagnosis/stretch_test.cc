#include "pipeline/stretch.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <numeric>

#include "pipeline/pipeline.h"

namespace millrace::pipeline {
namespace {

// 20 numbers in batches of 8, 8 and 4.
class StretchTest : public testing::Test {
 protected:
  StretchTest()
      : plan_(Plan::FromText("stage { range { count: 20 } } stage { batch { size: 8 } }", "numbers")
                  .value()),
        context_(MakeContext().value()),
        pipeline_(Open()) {}

  std::unique_ptr<Pipeline> Open() { return Pipeline::Open(plan_, context_).value(); }
  void Take(int batches) {
    for (int i = 0; i < batches; ++i) ASSERT_TRUE(pipeline_->Next().value().has_value());
  }
  Diagnosis Diagnosed(const Stretch& stretch) {
    return stretch.Diagnose(DiagnosisOptionsOf(plan_, *pipeline_));
  }

  const Plan plan_;
  const std::shared_ptr<Context> context_;
  const std::unique_ptr<Pipeline> pipeline_;
};

TEST_F(StretchTest, BeginsWhenItIsMadeAndAnew) {
  Take(1);
  Stretch stretch(*pipeline_, *context_);
  EXPECT_EQ(Diagnosed(stretch).samples, 0);
  Take(2);
  EXPECT_EQ(Diagnosed(stretch).samples, 12);
  stretch.Begin();
  EXPECT_EQ(Diagnosed(stretch).samples, 0);
}

TEST_F(StretchTest, IsOfOnePipelineOfItsContext) {
  const auto other = Open();
  const Stretch stretch(*pipeline_, *context_);
  const Stretch of_other(*other, *context_);
  Take(2);
  EXPECT_EQ(Diagnosed(stretch).samples, 16);
  EXPECT_EQ(Diagnosed(of_other).samples, 0);
}

TEST_F(StretchTest, BeginsAnewBehindAMove) {
  Stretch stretch(*pipeline_, *context_);
  Take(3);
  ASSERT_TRUE(pipeline_->Seek(1).ok());
  stretch.Begin();
  Take(1);
  EXPECT_EQ(Diagnosed(stretch).samples, 8);
}

TEST_F(StretchTest, CausesSumToTheWaits) {
  const Stretch stretch(*pipeline_, *context_);
  Take(3);
  const Diagnosis diagnosis = Diagnosed(stretch);
  const int64_t waited_ns =
      std::accumulate(diagnosis.wait_ns.begin(), diagnosis.wait_ns.end(), int64_t{0});
  EXPECT_NEAR(1e-9 * static_cast<double>(waited_ns), diagnosis.wait_fraction * diagnosis.seconds,
              1e-6);
}

TEST_F(StretchTest, HasTheProcessorsOfTheProcess) {
  const DiagnosisOptions options = DiagnosisOptionsOf(plan_, *pipeline_);
  EXPECT_GT(options.cores, 0);
  EXPECT_GE(options.processors, options.cores);
  EXPECT_EQ(options.uint8_saved_bytes, 0);
}

}  // namespace
}  // namespace millrace::pipeline
