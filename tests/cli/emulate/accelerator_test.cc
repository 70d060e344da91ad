#include "cli/emulate/accelerator.h"

#include <gtest/gtest.h>

#include <cmath>

namespace millrace::cli {
namespace {

TEST(AcceleratorTest, RatesAreThoseOfTheBenchmarks) {
  // MLPerf Storage v2.0: batches of 400 in 0.224 s and 0.435 s.
  EXPECT_EQ(std::lround(FindAccelerator("h100-storage")->samples_per_second()), 1786);
  EXPECT_EQ(std::lround(FindAccelerator("a100-storage")->samples_per_second()), 920);
  EXPECT_EQ(std::lround(FindAccelerator("h100-train")->samples_per_second()), 7050);
  EXPECT_EQ(std::lround(FindAccelerator("a100-train")->samples_per_second()), 3180);
  for (const Accelerator& accelerator : Accelerators()) EXPECT_EQ(accelerator.batch, 400);
}

TEST(AcceleratorTest, NamesAreFoundAndOthersAreNot) {
  for (const std::string& name : AcceleratorNames()) {
    ASSERT_NE(FindAccelerator(name), nullptr);
    EXPECT_EQ(FindAccelerator(name)->name, name);
  }
  EXPECT_EQ(FindAccelerator(""), nullptr);
  EXPECT_EQ(FindAccelerator("h100"), nullptr);
}

}  // namespace
}  // namespace millrace::cli
