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
#include <string_view>
#include <vector>

#include "pipeline/plan/message.h"
#include "tests/messages.h"
#include "tests/pipeline/logical/plan_texts.h"

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
  EXPECT_MESSAGE(ErrorOf(""));
  EXPECT_MESSAGE(ErrorOf(b));
  EXPECT_MESSAGE(ErrorOf(s + s + b));
  EXPECT_MESSAGE(ErrorOf(s));
  EXPECT_MESSAGE(ErrorOf(s + b + b));
  EXPECT_MESSAGE(ErrorOf(s + b + "stage { flip {} }"));
  EXPECT_MESSAGE(ErrorOf(s + b + "stage { global_shuffle {} }"));
  EXPECT_MESSAGE(ErrorOf(s + "stage { prefetch {} }\n" + b));
  EXPECT_MESSAGE(ErrorOf(s + b + "stage { prefetch {} }\n stage { prefetch {} }\n"));
  EXPECT_MESSAGE(ErrorOf(s + "stage { name: \"x\" }\n" + b));
}

// S-PLAN-3.
TEST(PlanTest, NothingThatNeedsAnEndFollowsAnEndlessRepeat) {
  const std::string s = kSource;
  const std::string b = kBatch;
  EXPECT_MESSAGE(ErrorOf(s + "stage { repeat {} }\nstage { global_shuffle {} }\n" + b));
  EXPECT_MESSAGE(ErrorOf(s + "stage { repeat {} }\n" + b + "stage { repeat { epochs: 2 } }"));
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
  EXPECT_MESSAGE(ErrorOf(std::string(kSource) +
                         "stage { name: \"x\" flip {} }\nstage {\n  name: \"x\"\n  "
                         "flip {} }\n" +
                         kBatch));
  EXPECT_MESSAGE(StageError("name: \"a b\" flip {}"));
  EXPECT_MESSAGE(StageError("name: \"" + std::string(65, 'x') + "\" flip {}"));
}

// S-PLAN-2.
TEST(PlanTest, UnknownSemanticsVersionIsRefused) {
  EXPECT_MESSAGE(ErrorOf(std::string(kSource) + kBatch + "semantics_version: 2"));
}

TEST(PlanTest, SourceOptionsAreChecked) {
  const std::string b = kBatch;
  EXPECT_MESSAGE(ErrorOf("stage { tfrecord {} }" + b));
  EXPECT_MESSAGE(ErrorOf("stage { tfrecord { files: \"\" } }" + b));
  EXPECT_MESSAGE(ErrorOf("stage { tfrecord { files: \"a\" compression: \"gzp\" } }" + b));
  EXPECT_MESSAGE(
      ErrorOf("stage { tfrecord { files: \"a\" max_record_bytes: 18446744073709551615 } }" + b));
}

TEST(PlanTest, FeatureOptionsAreChecked) {
  const auto feature = [](const std::string& f) {
    return StageError("parse_example { " + f + " }");
  };
  EXPECT_MESSAGE(feature(""));
  EXPECT_MESSAGE(feature("feature { dtype: INT64 }"));
  EXPECT_MESSAGE(feature("feature { key: \"a\" }"));
  EXPECT_MESSAGE(feature("feature { key: \"a\" dtype: UINT8 }"));
  EXPECT_MESSAGE(feature(
      "feature { key: \"a\" dtype: INT64 } feature { key: \"a\" name: \"b\" dtype: INT64 }"));
  EXPECT_MESSAGE(feature(
      "feature { key: \"a\" dtype: INT64 } feature { key: \"b\" name: \"a\" dtype: INT64 }"));
  EXPECT_MESSAGE(feature("feature { key: \"record\" dtype: INT64 }"));
  EXPECT_MESSAGE(feature("field: \"x\" feature { key: \"x\" dtype: INT64 }"));
  EXPECT_MESSAGE(feature("feature { key: \"a\" dtype: BYTES shape: 2 }"));
  EXPECT_MESSAGE(feature("feature { key: \"a\" dtype: INT64 shape: [2, 0] }"));
  EXPECT_MESSAGE(feature("feature { key: \"a\" dtype: INT64 shape: [2, -1] }"));
  EXPECT_MESSAGE(feature("feature { key: \"a\" dtype: INT64 shape: [1,1,1,1,1,1] }"));
  EXPECT_MESSAGE(feature("feature { key: \"a\" dtype: INT64 shape: [4611686018427387904, 4] }"));
  EXPECT_MESSAGE(feature("feature { key: \"a\" dtype: INT64 default_float: 2 }"));
}

TEST(PlanTest, ImageOptionsAreChecked) {
  EXPECT_MESSAGE(StageError("decode_image { channels: 4 }"));
  EXPECT_MESSAGE(StageError("decode_image { max_scans: 99999 }"));
  EXPECT_MESSAGE(StageError("decode_image { max_memory_bytes: 2000000000000 }"));
  EXPECT_MESSAGE(StageError("decode_image { verify_full: true allow_truncated: true }"));
  EXPECT_MESSAGE(StageError("peek_image_shape { output: \"image/encoded\" }"));
  EXPECT_MESSAGE(StageError("resize { height: 3 }"));
  EXPECT_MESSAGE(StageError("random_resized_crop { height: 99999 width: 1 }"));
  const std::string crop = "random_resized_crop { height: 1 width: 1 ";
  for (const char* area : {"0.5", "[0, 1]", "[0.9, 0.1]", "[0.5, 1.5]", "[nan, 1]", "[0.1, nan]"}) {
    EXPECT_MESSAGE(StageError(crop + "area: " + area + "}"), "area") << area;
  }
  EXPECT_MESSAGE(StageError(crop + "aspect: [1, inf] }"));
  EXPECT_MESSAGE(StageError(crop + "interpolation: \"cubic\" }"));
  EXPECT_MESSAGE(StageError(crop + "antialias: true interpolation: \"nearest\" }"));
  EXPECT_MESSAGE(StageError(crop + "max_attempts: 1001 }"));
  EXPECT_MESSAGE(StageError("flip { probability: 1.5 }"));
  EXPECT_MESSAGE(StageError("flip { probability: nan }"));
  EXPECT_MESSAGE(StageError("resize { shorter: 3 width: 2 }"));
  EXPECT_MESSAGE(StageError("resize { height: 3 width: 2 method: \"cubic\" }"));
  EXPECT_MESSAGE(StageError("resize { shorter: 3 method: \"area\" antialias: true }"));
  EXPECT_MESSAGE(StageError("resize { shorter: 3 dtype: INT32 }"));
  EXPECT_MESSAGE(StageError("center_crop { height: 3 }"));
  EXPECT_MESSAGE(StageError("random_crop { width: 3 }"));
  EXPECT_MESSAGE(StageError("pad { left: 4097 }"));
  EXPECT_MESSAGE(StageError("pad { mode: \"wrap\" }"));
  EXPECT_MESSAGE(StageError("pad { value: inf }"));
  EXPECT_MESSAGE(StageError("transpose { perm: [0, 2] }"));
  EXPECT_MESSAGE(StageError("pad_channels { channels: 70000 }"));
}

TEST(PlanTest, ColorOptionsAreChecked) {
  for (const char* factor : {"", "factor: -1", "factor: [2, 1]", "factor: [1, 2, 3]", "factor: nan",
                             "factor: [0, 101]"}) {
    EXPECT_MESSAGE(StageError(std::string("contrast { ") + factor + " }")) << factor;
  }
  EXPECT_MESSAGE(StageError("hue { factor: 0.6 }"));
  EXPECT_MESSAGE(StageError("invert { probability: 2 }"));
  EXPECT_MESSAGE(StageError("brightness { factor: 1 probability: nan }"));
  EXPECT_MESSAGE(StageError("posterize {}"));
  EXPECT_MESSAGE(StageError("solarize { threshold: 300 }"));
  EXPECT_MESSAGE(StageError("gaussian_blur {}"));
  EXPECT_MESSAGE(StageError("gaussian_blur { kernel_size: 4 }"));
  EXPECT_MESSAGE(StageError("gaussian_blur { kernel_size: 3 sigma: 0 }"));
  EXPECT_MESSAGE(StageError("color_jitter { hue: 0.7 }"));
  EXPECT_MESSAGE(StageError("color_jitter { contrast: -1 }"));
}

TEST(PlanTest, DistortionsAreChecked) {
  EXPECT_MESSAGE(StageError("affine { degrees: [10, -10] }"));
  for (const char* shift : {"0.1", "[0.1, 2]", "[-1, 0]", "[nan, 0]", "[0, nan]"}) {
    EXPECT_MESSAGE(StageError(std::string("affine { translate: ") + shift + " }")) << shift;
  }
  EXPECT_MESSAGE(StageError("affine { scale: 0 }"));
  EXPECT_MESSAGE(StageError("affine { shear_x: 90 }"));
  EXPECT_MESSAGE(StageError("affine { shear_y: nan }"));
  EXPECT_MESSAGE(StageError("affine { method: \"area\" }"));
  EXPECT_MESSAGE(StageError("affine { fill: 256 }"));
  EXPECT_MESSAGE(StageError("affine { probability: 2 }"));
  EXPECT_MESSAGE(StageError("random_erasing { area: [0.5, 1.5] }"));
  EXPECT_MESSAGE(StageError("random_erasing { aspect: 0 }"));
  EXPECT_MESSAGE(StageError("random_erasing { value: inf }"));
  EXPECT_MESSAGE(StageError("cutout {}"));
  EXPECT_MESSAGE(StageError("cutout { size: 3 probability: -1 }"));
}

TEST(PlanTest, AutoAugmentIsChecked) {
  EXPECT_MESSAGE(StageError("auto_augment { policy: \"best\" }"));
  EXPECT_MESSAGE(StageError("auto_augment { num_ops: 17 }"));
  EXPECT_MESSAGE(StageError("auto_augment { magnitude: 31 }"));
  EXPECT_MESSAGE(StageError("auto_augment { num_magnitude_bins: 1 }"));
  EXPECT_MESSAGE(StageError("auto_augment { method: \"area\" }"));
  EXPECT_MESSAGE(StageError("auto_augment { fill: -1 }"));
  EXPECT_MESSAGE(StageError("label_smoothing { smoothing: 1.5 }"));
}

TEST(PlanTest, NumericOptionsAreChecked) {
  EXPECT_MESSAGE(StageError("normalize {}"));
  EXPECT_MESSAGE(StageError("normalize { mean: [1, 2] stddev: 1 }"));
  EXPECT_MESSAGE(StageError("normalize { mean: 1 stddev: 0 }"));
  EXPECT_MESSAGE(StageError("normalize { mean: nan stddev: 1 }"));
  EXPECT_MESSAGE(StageError("cast { dtype: INT32 }"));
  EXPECT_MESSAGE(StageError("cast { field: \"x\" }"));
  EXPECT_MESSAGE(StageError("cast { field: \"x\" dtype: BYTES }"));
  EXPECT_MESSAGE(StageError("cast { field: \"x\" dtype: INT8 }"));
  EXPECT_MESSAGE(StageError("one_hot {}"));
  EXPECT_MESSAGE(StageError("take {}"));
  EXPECT_MESSAGE(StageError("skip {}"));
  EXPECT_MESSAGE(ErrorOf(std::string(kSource) + "stage { batch {} }"));
  EXPECT_MESSAGE(ErrorOf(std::string(kSource) + "stage { batch { size: 2147483649 } }"));
  EXPECT_MESSAGE(ErrorOf(std::string(kSource) + kBatch + "stage { prefetch { batches: 5000 } }"));
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
  EXPECT_MESSAGE(ErrorOf(s + b + "on_damage { policy: \"drop\" }"));
  EXPECT_MESSAGE(ErrorOf(s + b + "on_damage { policy: \"skip\" max_share: 1.5 }"));
  EXPECT_MESSAGE(ErrorOf(s + b + "on_damage { policy: \"skip\" max_share: nan }"));
  EXPECT_MESSAGE(ErrorOf(s + b + "on_damage { max_count: 1 }"));
  for (const char* stage :
       {"take { count: 3 }", "skip { count: 3 }", "filter { predicate: \"len(record) > 3\" }"}) {
    const std::string text = s + "stage { name: \"it\" " + stage + " }\n" + b;
    EXPECT_MESSAGE(ErrorOf(text + replace));
    Make(text + "on_damage { policy: \"skip\" }");
  }
  EXPECT_MESSAGE(ErrorOf("stage { push {} }" + b + replace));
  EXPECT_MESSAGE(ErrorOf(s + "stage { ragged_batch { size: 4 } }" + replace));
  Make(s + b + "stage { take { count: 3 } }" + replace);
  EXPECT_MESSAGE(ErrorOf("stage { concatenate { input { on_damage {} " + s + "} } }" + b));
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
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(std::string(root) + "/examples")) {
    if (entry.path().extension() != ".pbtxt") continue;
    std::ifstream file(entry.path());
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    const auto has = [&](std::string_view part) { return text.find(part) != text.npos; };
    // Jobs and models have no stages; a vocabulary is a file that must be there.
    if (!has("stage {") || has("${VOCAB}")) continue;
    Variables variables = {{has("${EVAL_DATA}") ? "EVAL_DATA" : "DATA", "/data"}};
    if (has("${BATCH:")) variables["BATCH"] = "32";
    const auto plan = Plan::FromFile(entry.path(), variables);
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_EQ(plan->ToText().find("size: 32\n") != std::string::npos, has("${BATCH:"));
    ++plans;
  }
  EXPECT_GE(plans, 13);
  EXPECT_TRUE(Plan::FromFile(std::string(root) + "/examples/fashion_mnist/train.pbtxt").ok());
}

}  // namespace
}  // namespace millrace::pipeline
