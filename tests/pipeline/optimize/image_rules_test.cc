#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "augment/codec/encoder.h"
#include "base/run.h"
#include "pipeline/optimize/optimizer.h"
#include "tests/augment/image_testing.h"
#include "tests/messages.h"
#include "tests/pipeline/logical/plan_texts.h"
#include "tests/sanitized.h"

// The rules about images, over real images: whichever of them are on, a plan has the same bits and
// the same errors.

namespace millrace::pipeline {
namespace {

using ::testing::ElementsAre;

std::string MakeJpeg(int64_t height, int64_t width, int seed) {
  std::vector<uint8_t> pixels;
  for (int64_t i = 0; i < height * width * 3; ++i) {
    pixels.push_back(static_cast<uint8_t>((i * 7 + i / (3 * width) * 5 + seed * 31) % 251));
  }
  return *augment::EncodeJpeg(pixels.data(), height, width, 3, 90);
}

// Of several sizes and kinds, some cut.
std::vector<std::string> Records() {
  namespace images = augment::testing;
  std::vector<std::string> records;
  for (int i = 0; i < 6; ++i) {
    records.push_back(MakeJpeg(30 + i * 18, 110 - i * 14, i));
    if (i % 3 == 2) records.back().resize(records.back().size() * (i + 5) / 20);
  }
  records.push_back("no image");
  const images::Image colour = images::MakeImage(64, 75, 3, 1);
  const std::string png = images::EncodePng(64, 75, 2, 8, colour.pixels);
  records.push_back(png);
  records.push_back(png.substr(0, png.size() / 2));
  records.push_back(images::EncodeJpeg(images::MakeImage(70, 61, 1, 2)));
  records.push_back(images::WithExif(images::EncodeJpeg(colour), 6));
  return records;
}

// The error without what in front of it names the field it was met in: which of two ops meets it
// depends on the rules.
std::string ErrorOfRow(const absl::Status& status) {
  const std::string_view text(status.message().data(), status.message().size());
  const size_t field = text.find(": ");
  return absl::StatusCodeToString(status.code()) +
         std::string(field == std::string_view::npos ? text : text.substr(field));
}

// Per row: the image that the plan's ops make of it, or its error.
std::vector<std::string> Execute(const std::string& stages, const OptimizerOptions& options,
                                 const std::string& decode = "") {
  const Plan plan = Make(absl::StrCat(kSource, "stage { decode_image { field: \"record\" ", decode,
                                      " } } ", stages, kBatch));
  const auto physical = MakePhysicalPlan(plan, options, MakeBuiltinOp);
  EXPECT_TRUE(physical.ok()) << physical.status();
  const std::vector<std::string> records = Records();
  RunArena arena;
  std::vector<SampleId> ids;
  for (uint64_t i = 0; i < records.size(); ++i) ids.push_back({0, i, 0});
  Run run(arena, 5, 0, ids);
  Column& record = run.Add("record", DType::kBytes);
  for (size_t row = 0; row < records.size(); ++row) {
    record.Set(static_cast<int64_t>(row), records[row].data(),
               Shape{static_cast<int64_t>(records[row].size())});
  }
  for (const PhysicalOp& op : physical->ops) op.op->Apply(run);
  std::vector<std::string> results;
  for (int64_t row = 0; row < run.num_rows(); ++row) {
    if (!run.ok(row)) {
      results.push_back(ErrorOfRow(run.status(row)));
      continue;
    }
    const ConstTensorView value = run.Get("image").at(row);
    results.push_back(value.shape.ToString() + std::string(Name(value.dtype)) +
                      std::string(static_cast<const char*>(value.data), value.size_bytes()));
  }
  return results;
}

std::vector<std::string> Resizes() {
  std::vector<std::string> resizes;
  for (const char* method : {"\"bilinear\"", "\"bilinear\" antialias: true", "\"bicubic\"",
                             "\"bicubic\" antialias: true", "\"nearest\"", "\"area\""}) {
    for (const char* dtype : {"", "dtype: FLOAT32", "dtype: UINT8"}) {
      resizes.push_back(absl::StrCat("stage { resize { height: 12 width: 17 method: ", method, " ",
                                     dtype, " } } "));
    }
  }
  return resizes;
}

std::vector<std::string> Heads() {
  std::vector<std::string> heads = Resizes();
  for (const char* crop :
       {"center_crop { height: 28 width: 33 }", "center_crop { height: 90 width: 40 }",
        "random_crop { height: 29 width: 31 }", "random_crop { height: 60 width: 50 }"}) {
    const std::string stage = absl::StrCat("stage { ", crop, " } ");
    heads.push_back(stage);
    for (const std::string& resize : Resizes()) heads.push_back(stage + resize);
  }
  for (const char* options :
       {"", "interpolation: \"nearest\"", "interpolation: \"area\" max_attempts: 1",
        "antialias: true", "interpolation: \"bicubic\"",
        "interpolation: \"bicubic\" antialias: true max_attempts: 100"}) {
    heads.push_back(
        absl::StrCat("stage { random_resized_crop { height: 11 width: 13 ", options, " } } "));
  }
  return heads;
}

constexpr const char* kTails[] = {
    "", "stage { flip {} } ",
    "stage { flip {} } stage { normalize { mean: [1, 2, 3] stddev: [4, 5, 6] } } "
    "stage { cast { field: \"image\" dtype: FLOAT16 } } stage { pad_channels {} } "
    "stage { transpose {} } ",
    "stage { cast { field: \"image\" dtype: UINT8 } } stage { flip { vertical: true } } "
    "stage { transpose {} } stage { cast { field: \"image\" dtype: BFLOAT16 scale: 0.5 } } "};

// S-ROUND-1, S-ROUND-2, S-ROUND-4.
TEST(ImageRulesTest, NoRuleChangesABitOrAnErrorOfAnyHeadAndTail) {
  const OptimizerOptions none{
      .project = false, .decode_region = false, .map_into_batch = false, .fuse_image = false};
  int num_failed = 0;
  std::mt19937 random(1);
  for (const std::string& head : Heads()) {
    for (const char* tail : kTails) {
      if (kSanitized && random() % 5 != 0) continue;
      const std::vector<std::string> expected = Execute(head + tail, none);
      num_failed += static_cast<int>(std::ranges::count_if(
          expected, [](const std::string& row) { return row.starts_with("DATA_LOSS"); }));
      for (int bits = 1; bits < 4; ++bits) {
        OptimizerOptions options = none;
        options.decode_region = (bits & 1) != 0;
        options.fuse_image = (bits & 2) != 0;
        ASSERT_TRUE(Execute(head + tail, options) == expected) << bits << ": " << head << tail;
      }
    }
  }
  EXPECT_GT(num_failed, Rounds(100));
}

// S-IMAGE-5: how small an image is decoded does not depend on them either.
TEST(ImageRulesTest, NoRuleChangesABitOfSmallerDecoding) {
  const std::string decode = "dct_downscale: true";
  for (const char* head : {"resize { height: 12 width: 11 }",
                           "resize { height: 9 width: 12 method: \"area\" dtype: FLOAT32 }",
                           "random_resized_crop { height: 11 width: 13 antialias: true }"}) {
    for (const char* tail : kTails) {
      const std::string stages = absl::StrCat("stage { ", head, " } ", tail);
      const std::vector<std::string> expected = Execute(stages, {}, decode);
      EXPECT_NE(expected, Execute(stages, {})) << stages;
      OptimizerOptions options;
      options.decode_region = options.fuse_image = false;
      ASSERT_TRUE(Execute(stages, options, decode) == expected) << stages;
    }
  }
}

// The error of a plan, with decode_region on; it is the same with that rule off.
absl::Status ErrorWhateverTheRule(const std::string& stages) {
  absl::Status errors[2];
  for (const bool enabled : {false, true}) {
    OptimizerOptions options;
    options.decode_region = enabled;
    const Plan plan = Make(absl::StrCat(kSource, stages, kBatch));
    const auto physical = BuildPhysicalPlan(plan, options);
    EXPECT_FALSE(physical.ok()) << stages;
    errors[enabled] = physical.status();
  }
  EXPECT_EQ(errors[0], errors[1]);
  return errors[1];
}

// decode_image stands in the second line, what crops its output in the third.
TEST(ImageRulesTest, ErrorsOfAPairNameTheStageThatIsWrong) {
  constexpr char kDecode[] = "stage { decode_image { field: \"record\" dct_downscale: true } }\n";
  for (const char* crop :
       {"center_crop { height: 4 width: 4 }", "random_crop { height: 4 width: 4 }",
        "center_crop { height: 4 width: 4 mask: \"record\" }"}) {
    EXPECT_MESSAGE(ErrorWhateverTheRule(absl::StrCat(kDecode, "stage { ", crop, " }\n"))) << crop;
  }
  for (const char* crop :
       {"center_crop { height: 4 width: 4 }", "random_resized_crop { height: 4 width: 4 }",
        "random_crop { height: 4 width: 4 mask: \"mask\" }"}) {
    const std::string behind = absl::StrCat("stage { ", crop, " }\n");
    EXPECT_MESSAGE(ErrorWhateverTheRule("stage { decode_image { field: \"absent\" } }\n" + behind))
        << crop;
    EXPECT_MESSAGE(
        ErrorWhateverTheRule("stage { decode_raw { field: \"record\" output: \"raw\" dtype: UINT8 "
                             "shape: 4 } }\nstage { decode_image { field: \"raw\" } }\n" +
                             behind))
        << crop;
  }
}

TEST(ImageRulesTest, WhatGoesAlongWithACropIsLookedForBehindTheDecode) {
  constexpr char kDecode[] = "stage { decode_image { field: \"record\" } }\n";
  for (const char* targets :
       {"boxes { field: \"record\" }", "mask: \"record\"", "mask: \"absent\""}) {
    EXPECT_MESSAGE(ErrorWhateverTheRule(
        absl::StrCat(kDecode, "stage { center_crop { height: 4 width: 4 ", targets, " } }\n")))
        << targets;
  }
}

TEST(ImageRulesTest, ARuleIsNamedForWhatItDoes) {
  const auto rules = [](const std::string& stages, bool enabled) {
    OptimizerOptions options;
    options.decode_region = enabled;
    options.fuse_image = options.map_into_batch = false;
    const auto physical = BuildPhysicalPlan(Make(absl::StrCat(kSource, stages, kBatch)), options);
    EXPECT_TRUE(physical.ok()) << physical.status();
    return physical->rules;
  };
  constexpr char kDecode[] = "stage { decode_image { field: \"record\" dct_downscale: true } }\n";
  for (const char* stage : {"resize", "random_resized_crop"}) {
    const std::string stages =
        absl::StrCat(kDecode, "stage { ", stage, " { height: 4 width: 4 } }\n");
    for (const bool enabled : {false, true}) {
      EXPECT_THAT(rules(stages, enabled),
                  ElementsAre(absl::StrCat("dct_downscale: decode_image decodes what ", stage,
                                           " resizes at a part of its size")));
    }
  }
}

}  // namespace
}  // namespace millrace::pipeline
