#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "pipeline/optimize/optimizer.h"
#include "pipeline/plan.h"
#include "pipeline/source/open.h"

// Which of the records behind URLs a rank reads side by side.

namespace millrace::pipeline {
namespace {

readers::FetchOrder FetchOrderOf(int lanes, bool keep_lengths, int world) {
  const auto plan = Plan::FromText(
      absl::StrCat("lanes: ", lanes,
                   " stage { tfrecord { files: \"f\" } }"
                   " stage { decode_raw { field: \"record\" dtype: UINT8 shape: -1 } }"
                   " stage { bucket_by_length { field: \"record\" boundary: 10"
                   " batch_size: [64, 32] keep_lengths: ",
                   keep_lengths ? "true" : "false", " } }"),
      "plan");
  EXPECT_TRUE(plan.ok()) << plan.status();
  return WindowOfOrder(*BuildPhysicalPlan(*plan), world).fetch;
}

// S-FETCH-1, S-CUT-22.
TEST(FetchOrderTest, WithKeptLengthsARankReadsItsLanesOrRowsAlone) {
  for (const int lanes : {1, 8}) {
    EXPECT_EQ(FetchOrderOf(lanes, false, 4).stride_records, 1u) << "all records";
    EXPECT_EQ(FetchOrderOf(lanes, true, 1).stride_records, 1u);
  }
  EXPECT_EQ(FetchOrderOf(8, true, 4).stride_records, 8u);
  EXPECT_EQ(FetchOrderOf(8, true, 4).place_records, 2u);
  EXPECT_EQ(FetchOrderOf(1, true, 4).stride_records, 64u);
  EXPECT_EQ(FetchOrderOf(1, true, 4).place_records, 16u);
}

}  // namespace
}  // namespace millrace::pipeline
