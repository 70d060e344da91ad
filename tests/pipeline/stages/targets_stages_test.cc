#include <gmock/gmock.h>

#include <memory>
#include <string>
#include <vector>

#include "pipeline/memory_records.h"
#include "pipeline/pipeline.h"
#include "tests/pipeline/logical/plan_texts.h"

// Boxes and masks through a whole plan: their number is found out before the batch is laid out.

namespace millrace::pipeline {
namespace {

// Record i has i boxes, around the pixels (k, k).
OpenOptions WithBoxes(int records) {
  std::vector<std::string> images, boxes;
  for (int i = 0; i < records; ++i) {
    std::string image;
    for (int p = 0; p < 200; ++p) image.push_back(static_cast<char>(p));
    images.push_back(image);
    std::string row;
    for (int k = 0; k < i; ++k) {
      const auto x = static_cast<float>(k);
      const float box[4] = {x, x, x + 1, x + 1};
      row.append(reinterpret_cast<const char*>(box), sizeof box);
    }
    boxes.push_back(row);
  }
  OpenOptions options;
  options.memory["images"] = MemoryRecords::Make(images);
  options.memory["boxes"] = MemoryRecords::Make(boxes);
  return options;
}

const char kPlan[] = R"(
seed: 5 lanes: 2
stage { zip { field: ["pixels", "raw"]
  input { stage { name: "images" memory {} } } input { stage { name: "boxes" memory {} } } } }
stage { decode_raw { field: "pixels" output: "image" shape: [10, 20, 1] } }
stage { decode_raw { field: "raw" output: "boxes" dtype: FLOAT32 shape: [-1, 4] } }
stage { random_crop { height: 6 width: 8 boxes {} } }
stage { padded_batch { size: 4 } }
)";

// Every box lies around the pixel that it was given for, and none is missing.
TEST(TargetsStagesTest, BoxesOfAPaddedBatchLieWhereTheirPixelsDo) {
  ContextOptions threads;
  threads.threads = 3;
  int64_t boxes = 0, pixels = 0;
  for (int rank = 0; rank < 2; ++rank) {
    OpenOptions options = WithBoxes(40);
    options.rank = rank;
    options.world = 2;
    const auto pipeline = Pipeline::Open(Make(kPlan), *MakeContext(threads), options);
    ASSERT_TRUE(pipeline.ok()) << pipeline.status();
    for (;;) {
      const auto batch = (*pipeline)->Next();
      ASSERT_TRUE(batch.ok()) << batch.status();
      if (!batch->has_value()) break;
      const ConstTensorView image = (*batch)->Find("image"), boxed = (*batch)->Find("boxes");
      const int64_t width = boxed.shape[1] * 4;
      for (int64_t r = 0; r < (*batch)->num_rows(); ++r) {
        if ((*batch)->valid()[r] == 0) continue;
        const auto pixel = image.as<uint8_t>().subspan(r * 48, 48);
        // Pixel (k, k) has the value 21 k, and record i has those with k < i.
        for (const uint8_t value : pixel) {
          pixels += value % 21 == 0 && value / 21 < (*batch)->ids()[r].record ? 1 : 0;
        }
        const auto row = boxed.as<float>().subspan(r * width, width);
        for (int64_t b = 0; b < width; b += 4) {
          if (row[b + 2] == 0) break;  // padding
          ++boxes;
          EXPECT_EQ(pixel[static_cast<size_t>(row[b + 1] * 8 + row[b])] % 21, 0);
          EXPECT_EQ(row[b + 2], row[b] + 1);
        }
      }
    }
  }
  EXPECT_EQ(boxes, pixels);
  EXPECT_GT(boxes, 10);
}

}  // namespace
}  // namespace millrace::pipeline
