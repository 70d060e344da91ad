#include "pipeline/executor/run_sizes.h"

#include <gtest/gtest.h>

namespace millrace::pipeline {
namespace {

TEST(RunSizesTest, ARunHasAsMuchWorkAsIsSaid) {
  RunSizes plain({.preferred_rows = 1});
  RunSizes longer({.preferred_rows = 1, .run_ns = 4 * kRunNanoseconds});
  for (RunSizes* const sizes : {&plain, &longer}) {
    EXPECT_EQ(sizes->RowsPerRun(), 32);  // nothing was measured yet
    sizes->LearnRows(1000, 1);
    sizes->LearnScan(5000, 1);
  }
  EXPECT_EQ(plain.RowsPerRun(), 50);
  EXPECT_EQ(longer.RowsPerRun(), 200);
  EXPECT_EQ(longer.RowsPerScan(), 40);
}

}  // namespace
}  // namespace millrace::pipeline
