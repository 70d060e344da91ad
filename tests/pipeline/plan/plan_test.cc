#include "pipeline/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "pipeline/plan/message.h"
#include "tests/pipeline/plan/plan_texts.h"

namespace millrace::pipeline {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> Names(const Plan& plan) {
  std::vector<std::string> names;
  for (const auto& stage : plan.message().pipeline.stage()) names.push_back(stage.name());
  return names;
}

// S-PLAN-1.
TEST(PlanTest, UnnamedStagesAreNamedAfterTheirOps) {
  EXPECT_THAT(Names(Make(std::string(kSource) +
                         "stage { flip {} } stage { name: \"flip_2\" flip {} }"
                         "stage { flip {} } stage { name: \"mine\" flip {} }" +
                         kBatch)),
              ElementsAre("tfrecord", "flip", "flip_2", "flip_3", "mine", "batch"));
}

// S-PLAN-2.
TEST(PlanTest, DefaultsAreFilledIn) {
  const Plan plan = Make(std::string(kSource) +
                         "stage { parse_example { feature { key: \"x\" dtype: "
                         "INT64 } } } stage { decode_image {} } stage { "
                         "random_resized_crop { height: 2 width: 3 } }" +
                         kBatch + "stage { prefetch {} }");
  const auto& p = plan.message().pipeline;
  EXPECT_EQ(p.semantics_version(), 1u);
  EXPECT_EQ(p.stage(0).tfrecord().compression(), "auto");
  EXPECT_EQ(p.stage(0).tfrecord().max_record_bytes(), uint64_t{1} << 30);
  EXPECT_EQ(p.stage(1).parse_example().feature(0).name(), "x");
  EXPECT_EQ(p.stage(2).decode_image().field(), "image/encoded");
  EXPECT_EQ(p.stage(2).decode_image().output(), "image");
  EXPECT_EQ(p.stage(2).decode_image().channels(), 3u);
  EXPECT_THAT(p.stage(3).random_resized_crop().area(), ElementsAre(0.08f, 1.0f));
  EXPECT_EQ(p.stage(5).prefetch().batches(), 0u);
}

TEST(PlanTest, ExplicitZeroProbabilityAndScaleAreKept) {
  const Plan plan = Make(std::string(kSource) +
                         "stage { flip { probability: 0 } }"
                         "stage { cast { field: \"x\" dtype: INT32 scale: 0 } }" +
                         kBatch);
  EXPECT_EQ(plan.message().pipeline.stage(1).flip().probability(), 0.0f);
  EXPECT_EQ(plan.message().pipeline.stage(2).cast().scale(), 0.0f);
}

// S-PLAN-3.
TEST(PlanTest, StagesInImpossibleOrderAreRefusedAtTheirPlace) {
  const std::string s = kSource;
  const std::string b = kBatch;
  EXPECT_EQ(ErrorOf(""), "p: a plan needs stages; the first is a source");
  EXPECT_EQ(ErrorOf(b),
            "p:1:1: the first stage must be a source (tfrecord, text, csv, tar, idx, fixed_length, "
            "image_folder, memory, range, push, concatenate, mix, zip), not "
            "batch");
  EXPECT_EQ(
      ErrorOf(s + s + b),
      "p:2:1: a second source; a plan has one, first (concatenate, mix and zip join several)");
  EXPECT_EQ(ErrorOf(s), "p:1:1: no batch stage; add stage { batch { size: ... } }");
  EXPECT_EQ(ErrorOf(s + b + b), "p:3:1: a second batch; the first is at p:2:1");
  EXPECT_EQ(ErrorOf(s + b + "stage { flip {} }"),
            "p:3:1: flip works on samples and must stand before the batch at p:2:1");
  EXPECT_EQ(ErrorOf(s + b + "stage { global_shuffle {} }"),
            "p:3:1: global_shuffle permutes samples and must stand before the batch at p:2:1");
  EXPECT_EQ(ErrorOf(s + "stage { prefetch {} }\n" + b), "p:2:1: prefetch must stand after batch");
  EXPECT_EQ(ErrorOf(s + b + "stage { prefetch {} }\n stage { prefetch {} }\n"),
            "p:4:2: a second prefetch; the first is at p:3:1");
  EXPECT_EQ(ErrorOf(s + "stage { name: \"x\" }\n" + b),
            "p:2:1: this stage has no op (tfrecord, parse_example, batch, ...)");
}

// S-PLAN-3.
TEST(PlanTest, NothingThatNeedsAnEndFollowsAnEndlessRepeat) {
  const std::string s = kSource;
  const std::string b = kBatch;
  EXPECT_THAT(ErrorOf(s + "stage { repeat {} }\nstage { global_shuffle {} }\n" + b),
              HasSubstr("p:3:1: global_shuffle after the endless repeat at p:2:1"));
  EXPECT_THAT(ErrorOf(s + "stage { repeat {} }\n" + b + "stage { repeat { epochs: 2 } }"),
              HasSubstr("p:4:1: repeat after the endless repeat at p:2:1"));
  Make(s + "stage { repeat {} } stage { take { count: 9 } } stage { global_shuffle {} }" + b);
  Make(s + "stage { repeat { epochs: 2 } } stage { global_shuffle {} }" + b);
}

// S-PLAN-3.
TEST(PlanTest, OrderStagesMayFollowBatchAndMixWithMaps) {
  Make(std::string(kSource) +
       "stage { flip {} } stage { global_shuffle {} } stage { skip { count: 1 } } stage { resize { "
       "height: 1 width: 1 } }" +
       kBatch +
       "stage { skip { count: 1 } } stage { take { count: 3 } } stage { prefetch {} } "
       "stage { repeat {} }");
}

// S-PLAN-1.
TEST(PlanTest, StageNamesAreUniqueAndPlain) {
  EXPECT_EQ(ErrorOf(std::string(kSource) +
                    "stage { name: \"x\" flip {} }\nstage {\n  name: \"x\"\n  "
                    "flip {} }\n" +
                    kBatch),
            "p:4:3: a second stage is called \"x\"; the first is at p:2:1");
  EXPECT_THAT(StageError("name: \"a b\" flip {}"), HasSubstr("p:2:9: a stage's name has only"));
  EXPECT_THAT(StageError("name: \"" + std::string(65, 'x') + "\" flip {}"),
              HasSubstr("at most 64"));
}

// S-PLAN-2.
TEST(PlanTest, UnknownSemanticsVersionIsRefused) {
  EXPECT_EQ(ErrorOf(std::string(kSource) + kBatch + "semantics_version: 2"),
            "p:3:1: semantics_version 2 is not known here; this program has 1");
}

TEST(PlanTest, SourceOptionsAreChecked) {
  const std::string b = kBatch;
  EXPECT_EQ(ErrorOf("stage { tfrecord {} }" + b),
            "p:1:9: files is empty; name at least one file or pattern");
  EXPECT_EQ(ErrorOf("stage { tfrecord { files: \"\" } }" + b), "p:1:20: files has an empty name");
  EXPECT_EQ(ErrorOf("stage { tfrecord { files: \"a\" compression: \"gzp\" } }" + b),
            "p:1:31: compression \"gzp\" is not known; did you mean \"gzip\"?");
  EXPECT_THAT(
      ErrorOf("stage { tfrecord { files: \"a\" max_record_bytes: 18446744073709551615 } }" + b),
      HasSubstr("p:1:31: max_record_bytes is 18446744073709551615 but must be in"));
}

TEST(PlanTest, FeatureOptionsAreChecked) {
  const auto feature = [](const std::string& f) {
    return StageError("parse_example { " + f + " }");
  };
  EXPECT_EQ(feature(""), "p:2:9: feature: none given; name those that are used");
  EXPECT_EQ(feature("feature { dtype: INT64 }"), "p:2:25: a feature needs a key");
  EXPECT_THAT(feature("feature { key: \"a\" }"),
              HasSubstr("p:2:25: dtype of feature \"a\" must be"));
  EXPECT_THAT(feature("feature { key: \"a\" dtype: UINT8 }"), HasSubstr("p:2:44: dtype of"));
  EXPECT_EQ(
      feature(
          "feature { key: \"a\" dtype: INT64 } feature { key: \"a\" name: \"b\" dtype: INT64 }"),
      "p:2:69: feature \"a\" is there twice");
  EXPECT_EQ(
      feature(
          "feature { key: \"a\" dtype: INT64 } feature { key: \"b\" name: \"a\" dtype: INT64 }"),
      "p:2:78: two features are named \"a\"");
  EXPECT_THAT(feature("feature { key: \"record\" dtype: INT64 }"), HasSubstr("is taken"));
  EXPECT_THAT(feature("field: \"x\" feature { key: \"x\" dtype: INT64 }"),
              HasSubstr("the name \"x\" is taken by the whole record"));
  EXPECT_THAT(feature("feature { key: \"a\" dtype: BYTES shape: 2 }"),
              HasSubstr("p:2:57: a BYTES feature has no shape"));
  EXPECT_THAT(feature("feature { key: \"a\" dtype: INT64 shape: [2, 0] }"),
              HasSubstr("must be > 0"));
  EXPECT_THAT(feature("feature { key: \"a\" dtype: INT64 shape: [2, -1] }"),
              HasSubstr("p:2:57: only the first extent of shape may be -1"));
  EXPECT_THAT(feature("feature { key: \"a\" dtype: INT64 shape: [1,1,1,1,1,1] }"),
              HasSubstr("more than 5 extents"));
  EXPECT_THAT(feature("feature { key: \"a\" dtype: INT64 shape: [4611686018427387904, 4] }"),
              HasSubstr("elements"));
  EXPECT_THAT(feature("feature { key: \"a\" dtype: INT64 default_float: 2 }"),
              HasSubstr("p:2:57: default_float does not fit the feature's dtype INT64"));
}

TEST(PlanTest, ImageOptionsAreChecked) {
  EXPECT_EQ(StageError("decode_image { channels: 4 }"), "p:2:24: channels is 4 but must be 1 or 3");
  EXPECT_THAT(StageError("decode_image { max_scans: 99999 }"),
              HasSubstr("max_scans is 99999 but must be in [1, 65536]"));
  EXPECT_THAT(StageError("decode_image { max_memory_bytes: 2000000000000 }"),
              HasSubstr("max_memory_bytes is 2000000000000 but must be"));
  EXPECT_THAT(StageError("decode_image { verify_full: true allow_truncated: true }"),
              HasSubstr("verify_full and allow_truncated do not go together"));
  EXPECT_THAT(StageError("peek_image_shape { output: \"image/encoded\" }"),
              HasSubstr("output is \"image/encoded\""));
  EXPECT_THAT(StageError("resize { height: 3 }"),
              HasSubstr("p:2:9: width is 0 but must be in [1, 65536]"));
  EXPECT_THAT(StageError("random_resized_crop { height: 99999 width: 1 }"),
              HasSubstr("p:2:31: height"));
  const std::string crop = "random_resized_crop { height: 1 width: 1 ";
  for (const char* area : {"0.5", "[0, 1]", "[0.9, 0.1]", "[0.5, 1.5]", "[nan, 1]", "[0.1, nan]"}) {
    EXPECT_EQ(StageError(crop + "area: " + area + "}"),
              "p:2:50: area must be two numbers, 0 < low <= high <= 1")
        << area;
  }
  EXPECT_EQ(StageError(crop + "aspect: [1, inf] }"),
            "p:2:50: aspect must be two numbers, 0 < low <= high, finite");
  EXPECT_EQ(StageError(crop + "interpolation: \"cubic\" }"),
            "p:2:50: interpolation is \"cubic\" but must be \"bilinear\", \"nearest\", "
            "\"bicubic\" or \"area\"");
  EXPECT_EQ(StageError(crop + "antialias: true interpolation: \"nearest\" }"),
            "p:2:50: antialias is of interpolations \"bilinear\" and \"bicubic\" only");
  EXPECT_EQ(StageError(crop + "max_attempts: 1001 }"),
            "p:2:50: max_attempts is 1001 but must be in [1, 1000]");
  EXPECT_THAT(StageError("flip { probability: 1.5 }"), HasSubstr("p:2:16: probability is 1.5"));
  EXPECT_THAT(StageError("flip { probability: nan }"), HasSubstr("p:2:16: probability is nan"));
  EXPECT_EQ(StageError("resize { shorter: 3 width: 2 }"),
            "p:2:18: shorter stands instead of height and width");
  EXPECT_EQ(StageError("resize { height: 3 width: 2 method: \"cubic\" }"),
            "p:2:37: method is \"cubic\" but must be \"bilinear\", \"nearest\", \"bicubic\" or "
            "\"area\"");
  EXPECT_EQ(StageError("resize { shorter: 3 method: \"area\" antialias: true }"),
            "p:2:44: antialias is of methods \"bilinear\" and \"bicubic\" only");
  EXPECT_EQ(StageError("resize { shorter: 3 dtype: INT32 }"),
            "p:2:29: dtype must be UINT8 or FLOAT32");
  EXPECT_THAT(StageError("center_crop { height: 3 }"), HasSubstr("p:2:9: width is 0"));
  EXPECT_THAT(StageError("random_crop { width: 3 }"), HasSubstr("p:2:9: height is 0"));
  EXPECT_THAT(StageError("pad { left: 4097 }"), HasSubstr("p:2:15: left is 4097"));
  EXPECT_THAT(StageError("pad { mode: \"wrap\" }"), HasSubstr("p:2:15: mode is \"wrap\""));
  EXPECT_EQ(StageError("pad { value: inf }"), "p:2:15: value must be finite");
  EXPECT_THAT(StageError("transpose { perm: [0, 2] }"),
              HasSubstr("perm must have every number from 0 to 1 once"));
  EXPECT_THAT(StageError("pad_channels { channels: 70000 }"), HasSubstr("p:2:24: channels"));
}

TEST(PlanTest, ColorOptionsAreChecked) {
  for (const char* factor : {"", "factor: -1", "factor: [2, 1]", "factor: [1, 2, 3]", "factor: nan",
                             "factor: [0, 101]"}) {
    EXPECT_THAT(StageError(std::string("contrast { ") + factor + " }"),
                HasSubstr("factor must be one number, or two, low <= high, in [0, 100]"))
        << factor;
  }
  EXPECT_EQ(StageError("hue { factor: 0.6 }"),
            "p:2:15: factor must be one number, or two, low <= high, in [-0.5, 0.5]");
  EXPECT_EQ(StageError("invert { probability: 2 }"),
            "p:2:18: probability is 2 but must be in [0, 1]");
  EXPECT_THAT(StageError("brightness { factor: 1 probability: nan }"), HasSubstr("probability"));
  EXPECT_THAT(StageError("posterize {}"), HasSubstr("bits is 0 but must be in [1, 8]"));
  EXPECT_THAT(StageError("solarize { threshold: 300 }"), HasSubstr("p:2:20: threshold is 300"));
  EXPECT_THAT(StageError("gaussian_blur {}"), HasSubstr("kernel_size is 0"));
  EXPECT_THAT(StageError("gaussian_blur { kernel_size: 4 }"), HasSubstr("kernel_size must be odd"));
  EXPECT_THAT(StageError("gaussian_blur { kernel_size: 3 sigma: 0 }"), HasSubstr("sigma must be"));
  EXPECT_EQ(StageError("color_jitter { hue: 0.7 }"), "p:2:24: hue is 0.7 but must be in [0, 0.5]");
  EXPECT_THAT(StageError("color_jitter { contrast: -1 }"), HasSubstr("contrast is -1"));
}

TEST(PlanTest, DistortionsAreChecked) {
  EXPECT_EQ(StageError("affine { degrees: [10, -10] }"),
            "p:2:18: degrees must be one number, or two, low <= high, in [-360, 360]");
  for (const char* shift : {"0.1", "[0.1, 2]", "[-1, 0]", "[nan, 0]", "[0, nan]"}) {
    EXPECT_EQ(StageError(std::string("affine { translate: ") + shift + " }"),
              "p:2:18: translate must be two numbers in [0, 1]")
        << shift;
  }
  EXPECT_THAT(StageError("affine { scale: 0 }"), HasSubstr("scale must be one number"));
  EXPECT_THAT(StageError("affine { shear_x: 90 }"), HasSubstr("shear_x must be"));
  EXPECT_THAT(StageError("affine { shear_y: nan }"), HasSubstr("shear_y must be"));
  EXPECT_THAT(StageError("affine { method: \"area\" }"),
              HasSubstr("method is \"area\" but must be \"nearest\" or \"bilinear\""));
  EXPECT_EQ(StageError("affine { fill: 256 }"), "p:2:18: fill is 256 but must be in [0, 255]");
  EXPECT_THAT(StageError("affine { probability: 2 }"), HasSubstr("probability is 2"));
  EXPECT_THAT(StageError("random_erasing { area: [0.5, 1.5] }"), HasSubstr("area must be"));
  EXPECT_THAT(StageError("random_erasing { aspect: 0 }"), HasSubstr("aspect must be"));
  EXPECT_THAT(StageError("random_erasing { value: inf }"), HasSubstr("value must be finite"));
  EXPECT_THAT(StageError("cutout {}"), HasSubstr("size is 0 but must be in [1, 65536]"));
  EXPECT_THAT(StageError("cutout { size: 3 probability: -1 }"), HasSubstr("probability is -1"));
}

TEST(PlanTest, AutoAugmentIsChecked) {
  EXPECT_EQ(StageError("auto_augment { policy: \"best\" }"),
            "p:2:24: policy is \"best\" but must be \"rand_augment\", \"trivial_augment\" or "
            "\"imagenet\"");
  EXPECT_THAT(StageError("auto_augment { num_ops: 17 }"), HasSubstr("num_ops is 17"));
  EXPECT_THAT(StageError("auto_augment { magnitude: 31 }"),
              HasSubstr("magnitude is 31 but must be in [0, 30]"));
  EXPECT_THAT(StageError("auto_augment { num_magnitude_bins: 1 }"),
              HasSubstr("num_magnitude_bins is 1"));
  EXPECT_THAT(StageError("auto_augment { method: \"area\" }"), HasSubstr("method is \"area\""));
  EXPECT_THAT(StageError("auto_augment { fill: -1 }"), HasSubstr("fill is -1"));
  EXPECT_EQ(StageError("label_smoothing { smoothing: 1.5 }"),
            "p:2:27: smoothing is 1.5 but must be in [0, 1]");
}

TEST(PlanTest, NumericOptionsAreChecked) {
  EXPECT_EQ(StageError("normalize {}"), "p:2:9: mean is empty; give one number per channel");
  EXPECT_EQ(StageError("normalize { mean: [1, 2] stddev: 1 }"),
            "p:2:34: stddev has 1 numbers but mean has 2");
  EXPECT_EQ(StageError("normalize { mean: 1 stddev: 0 }"), "p:2:29: stddev must be > 0 and finite");
  EXPECT_EQ(StageError("normalize { mean: nan stddev: 1 }"), "p:2:21: mean must be finite");
  EXPECT_EQ(StageError("cast { dtype: INT32 }"), "p:2:9: field must name a field");
  EXPECT_THAT(StageError("cast { field: \"x\" }"), HasSubstr("p:2:9: dtype must be a numeric"));
  EXPECT_THAT(StageError("cast { field: \"x\" dtype: BYTES }"), HasSubstr("p:2:27: dtype"));
  EXPECT_THAT(StageError("cast { field: \"x\" dtype: INT8 }"),
              HasSubstr("did you mean \"UINT8\"?"));
  EXPECT_THAT(StageError("one_hot {}"), HasSubstr("p:2:9: depth is 0"));
  EXPECT_THAT(StageError("take {}"), HasSubstr("p:2:9: count is 0"));
  EXPECT_THAT(StageError("skip {}"), HasSubstr("p:2:9: count is 0"));
  EXPECT_THAT(ErrorOf(std::string(kSource) + "stage { batch {} }"), HasSubstr("p:2:9: size is 0"));
  EXPECT_EQ(ErrorOf(std::string(kSource) + "stage { batch { size: 2147483649 } }"),
            "p:2:17: size is 2147483649 but must be in [1, 2147483648]");
  EXPECT_THAT(ErrorOf(std::string(kSource) + kBatch + "stage { prefetch { batches: 5000 } }"),
              HasSubstr("p:3:20: batches is 5000"));
}

TEST(PlanTest, TextReadsBackAsTheSamePlan) {
  const Plan plan = Make(
      "name: \"\\\"$${x}\" seed: 18446744073709551615\n"
      "stage { tfrecord { files: [\"$$a\", \"b\\n\"] } } stage { flip { probability: 0.1 } }"
      "stage { normalize { mean: [0.1, 123.675] stddev: [1e-30, 3] } }" +
      std::string(kBatch));
  const Plan again = Make(plan.ToText());
  EXPECT_EQ(again.message().pipeline.SerializeAsString(),
            plan.message().pipeline.SerializeAsString());
  EXPECT_EQ(again.ToText(), plan.ToText());
  EXPECT_EQ(again.Fingerprint(), plan.Fingerprint());
  EXPECT_EQ(plan.message().pipeline.stage(0).tfrecord().files(0), "$a");
}

// S-FINGERPRINT-1, -2.
TEST(PlanTest, FingerprintIgnoresNamesOfFilesRingAndDefaultsWrittenOut) {
  const uint64_t base = Make(std::string(kSource) + "stage { flip {} }" + kBatch).Fingerprint();
  for (const char* text :
       {"name: \"p\" stage { tfrecord { files: \"elsewhere\" files: \"b\" } } stage { flip {} } "
        "stage "
        "{ batch { size: 4 } }",
        "stage { tfrecord { files: \"a\" } } stage { flip {} } stage { batch { size: 4 } } stage { "
        "prefetch { batches: 7 } }",
        "semantics_version: 1 stage { name: \"tfrecord\" tfrecord { files: \"a\" compression: "
        "\"auto\" } } stage { flip { probability: 0.5 } } stage { batch { size: 4 drop_remainder: "
        "false } }"}) {
    EXPECT_EQ(Make(text).Fingerprint(), base) << text;
  }
}

// S-FINGERPRINT-2.
TEST(PlanTest, FingerprintCoversWhatChangesResults) {
  const std::string s = kSource;
  const std::string b = kBatch;
  std::vector<uint64_t> prints;
  for (const std::string& text :
       {s + b, s + b + "seed: 1", s + "stage { flip {} }" + b,
        s + "stage { name: \"f\" flip {} }" + b, s + "stage { flip { probability: 0.4 } }" + b,
        s + "stage { batch { size: 5 } }", s + "stage { batch { size: 4 drop_remainder: true } }",
        s + "stage { global_shuffle {} }" + b, s + b + "stage { repeat {} }",
        s + "stage { repeat {} }" + b, "stage { tfrecord { files: \"a\" skip_crc: true } }" + b}) {
    prints.push_back(Make(text).Fingerprint());
  }
  std::ranges::sort(prints);
  EXPECT_EQ(std::ranges::adjacent_find(prints), prints.end());
}

// S-FINGERPRINT-3: resume tokens and checkpoints hold this number.
TEST(PlanTest, FingerprintNeverChanges) {
  EXPECT_EQ(Make(std::string(kSource) + kBatch).Fingerprint(), 9837109802709686586u);
}

// S-FINGERPRINT-3: the number was taken before parse_example could name its field.
TEST(PlanTest, TheDefaultFieldOfAParseLeavesFingerprintsAsTheyWere) {
  const auto plan = [](const std::string& field) {
    return Make(kSource +
                ("stage { parse_example { " + field + "feature { key: \"x\" dtype: INT64 } } }\n") +
                kBatch);
  };
  EXPECT_EQ(plan("").Fingerprint(), 0x5C87734D85ABCA4Bu);
  EXPECT_EQ(plan("field: \"record\" ").Fingerprint(), plan("").Fingerprint());
  EXPECT_NE(plan("field: \"other\" ").Fingerprint(), plan("").Fingerprint());
  EXPECT_EQ(plan("").message().pipeline.stage(1).parse_example().field(), "record");
}

// S-FINGERPRINT-3: the number was taken before random_resized_crop had more options than these.
TEST(PlanTest, TheDefaultsOfAResizedCropLeaveFingerprintsAsTheyWere) {
  const auto print = [](const std::string& options) {
    return Make(std::string(kSource) +
                "stage { decode_image { field: \"record\" } } stage { random_resized_crop { "
                "height: 2 "
                "width: 3 " +
                options + "} }" + kBatch)
        .Fingerprint();
  };
  const uint64_t base = print("");
  EXPECT_EQ(base, 0xDE53CC0DCB677638u);
  EXPECT_EQ(print("interpolation: \"bilinear\" antialias: false max_attempts: 10"), base);
  for (const char* option : {"interpolation: \"area\"", "antialias: true", "max_attempts: 11"}) {
    EXPECT_NE(print(option), base) << option;
  }
}

// S-FINGERPRINT-3: the number was taken before decode_image had more options than these.
TEST(PlanTest, TheDefaultsOfADecodeLeaveFingerprintsAsTheyWere) {
  const auto print = [](const std::string& options) {
    return Make(std::string(kSource) + "stage { decode_image { field: \"record\" " + options +
                "} }" + kBatch)
        .Fingerprint();
  };
  const uint64_t base = print("");
  EXPECT_EQ(base, 15777054083174361396u);
  EXPECT_EQ(print("max_scans: 100 max_memory_bytes: 2147483648 fancy_upsampling: true"), base);
  for (const char* option : {"max_scans: 99", "max_memory_bytes: 1", "fancy_upsampling: false",
                             "fast_dct: true", "dct_downscale: true", "verify_full: true",
                             "allow_truncated: true", "apply_exif_orientation: true"}) {
    EXPECT_NE(print(option), base) << option;
  }
}

// S-DAMAGE-6, S-FINGERPRINT-3: a plan that says what held before is the same plan.
TEST(PlanTest, OnDamageIsPartOfThePlanUnlessItIsTheDefault) {
  const std::string stages = std::string(kSource) + kBatch;
  const uint64_t none = Make(stages).Fingerprint();
  EXPECT_EQ(Make(stages + "on_damage {}").Fingerprint(), none);
  EXPECT_EQ(Make(stages + "on_damage { policy: \"fail\" }").Fingerprint(), none);
  const Plan skip = Make(stages + "on_damage { policy: \"skip\" }");
  EXPECT_NE(skip.Fingerprint(), none);
  EXPECT_EQ(skip.message().pipeline.on_damage().max_share(), 0.1);
  EXPECT_EQ(Make(stages + "on_damage { policy: \"skip\" max_share: 0.1 }").Fingerprint(),
            skip.Fingerprint());
  for (const char* other : {"policy: \"mask\"", "policy: \"replace\"",
                            "policy: \"skip\" max_count: 3", "policy: \"skip\" max_share: 1"}) {
    const Plan plan = Make(stages + "on_damage { " + other + " }");
    EXPECT_NE(plan.Fingerprint(), none) << other;
    EXPECT_NE(plan.Fingerprint(), skip.Fingerprint()) << other;
    EXPECT_EQ(Make(plan.ToText()).Fingerprint(), plan.Fingerprint()) << other;
  }
}

// S-DAMAGE-5, S-DAMAGE-6.
TEST(PlanTest, OnDamageIsChecked) {
  const std::string s = kSource;
  const std::string b = kBatch;
  const std::string replace = "on_damage { policy: \"replace\" }";
  EXPECT_EQ(ErrorOf(s + b + "on_damage { policy: \"drop\" }"),
            "p:3:13: on_damage: policy \"drop\" is none of fail, skip, mask, replace");
  EXPECT_THAT(ErrorOf(s + b + "on_damage { policy: \"skip\" max_share: 1.5 }"),
              HasSubstr("p:3:28: on_damage: max_share is 1.5 but must be in [0, 1]"));
  EXPECT_THAT(ErrorOf(s + b + "on_damage { policy: \"skip\" max_share: nan }"),
              HasSubstr("max_share is nan"));
  EXPECT_THAT(ErrorOf(s + b + "on_damage { max_count: 1 }"), HasSubstr("no meaning with policy"));
  for (const char* stage :
       {"take { count: 3 }", "skip { count: 3 }", "filter { predicate: \"len(record) > 3\" }"}) {
    const std::string text = s + "stage { name: \"it\" " + stage + " }\n" + b;
    EXPECT_THAT(ErrorOf(text + replace), HasSubstr("stage \"it\" does not admit"));
    Make(text + "on_damage { policy: \"skip\" }");
  }
  EXPECT_THAT(ErrorOf("stage { push {} }" + b + replace), HasSubstr("stage \"push\""));
  EXPECT_THAT(ErrorOf(s + "stage { ragged_batch { size: 4 } }" + replace),
              HasSubstr("stage \"ragged_batch\""));
  Make(s + b + "stage { take { count: 3 } }" + replace);
  EXPECT_THAT(ErrorOf("stage { concatenate { input { on_damage {} " + s + "} } }" + b),
              HasSubstr("on_damage belongs to the whole plan"));
}

TEST(PlanTest, VariablesFillAPlan) {
  const Plan plan =
      Make("stage { tfrecord { files: \"${DATA}/x\" } } stage { batch { size: ${B:-8} } }",
           {{"DATA", "/d"}});
  EXPECT_EQ(plan.message().pipeline.stage(0).tfrecord().files(0), "/d/x");
  EXPECT_EQ(plan.message().pipeline.stage(1).batch().size(), 8u);
}

TEST(PlanTest, MissingFileIsNotFound) {
  EXPECT_EQ(Plan::FromFile("/no/such.pbtxt").status().code(), absl::StatusCode::kNotFound);
}

// The options of an op, and of the messages in it, that docs/pipeline.md does not name as code.
std::vector<std::string> Undocumented(const google::protobuf::Descriptor& type,
                                      const std::string& page) {
  std::vector<std::string> missing;
  for (int i = 0; i < type.field_count(); ++i) {
    const auto* field = type.field(i);
    if (page.find("`" + field->name() + "`") == std::string::npos) {
      missing.push_back(type.name() + "." + field->name());
    }
    if (field->message_type() == nullptr || field->message_type()->name() == "Pipeline") continue;
    for (const std::string& more : Undocumented(*field->message_type(), page)) {
      missing.push_back(more);
    }
  }
  return missing;
}

// What stands between fences.
std::string Examples(const std::string& page) {
  std::string text;
  bool inside = false;
  std::istringstream lines(page);
  for (std::string line; std::getline(lines, line);) {
    if (line == "```") {
      inside = !inside;
    } else if (inside) {
      text += line + "\n";
    }
  }
  return text;
}

TEST(PlanTest, ReferencePageHasEveryStageAndOptionAndItsExamplesParse) {
  const char* root = std::getenv("MILLRACE_SOURCE_DIR");
  if (root == nullptr) GTEST_SKIP() << "MILLRACE_SOURCE_DIR is not set";
  std::ifstream file(std::string(root) + "/docs/pipeline.md");
  const std::string page{std::istreambuf_iterator<char>(file), {}};
  EXPECT_THAT(Undocumented(*proto::Stage::descriptor(), page), ElementsAre());
  proto::Pipeline pipeline;
  const auto parsed = ParseTextProto(Examples(page), "page", {{"DATA", "/d"}}, &pipeline);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  std::set<std::string> shown;
  for (const proto::Stage& stage : pipeline.stage()) shown.insert(OpName(stage));
  for (int i = 0; i < proto::Stage::descriptor()->field_count(); ++i) {
    const std::string& op = proto::Stage::descriptor()->field(i)->name();
    EXPECT_TRUE(op == "name" || shown.contains(op)) << op << " has no example";
  }
}

TEST(PlanTest, AllExamplePlansAreFine) {
  const char* root = std::getenv("MILLRACE_SOURCE_DIR");
  if (root == nullptr) GTEST_SKIP() << "MILLRACE_SOURCE_DIR is not set";
  int plans = 0;
  for (const char* name :
       {"fashion_mnist/train.pbtxt", "fashion_mnist/eval.pbtxt", "imagenet/train.pbtxt",
        "imagenet/train_dali.pbtxt", "imagenet/train_torchvision.pbtxt", "detection/train.pbtxt",
        "cifar/train.pbtxt", "tabular/train.pbtxt", "tabular/train_tsv.pbtxt",
        "text/train.pbtxt"}) {
    const std::string path = std::string(root) + "/examples/" + name;
    ASSERT_TRUE(std::filesystem::exists(path)) << path;
    const auto plan = Plan::FromFile(path, {{"DATA", "/data"}, {"BATCH", "32"}});
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_THAT(plan->ToText(), HasSubstr("size: 32"));
    ++plans;
  }
  EXPECT_EQ(plans, 10);
  EXPECT_TRUE(Plan::FromFile(std::string(root) + "/examples/fashion_mnist/train.pbtxt").ok());
}

}  // namespace
}  // namespace millrace::pipeline
