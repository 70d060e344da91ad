#include "augment/decode_crop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "tests/augment/image_testing.h"
#include "tests/messages.h"
#include "tests/sanitized.h"

// decode_image and a crop as one op (the optimizer's rule decode_region on) and as two (off) have
// the same bits, boxes, masks and errors.

namespace millrace::augment {
namespace {

using testing::EncodeJpeg;
using testing::EncodePng;
using testing::Image;
using testing::MakeImage;
using testing::WithExif;

constexpr char kStage[] = "crop";
constexpr int64_t kHeight = 70, kWidth = 90;

struct File {
  std::string bytes;
  Shape upright;  // of the image as its Exif data say
  bool turned = false;
};

// Each kind of image, whole, ended in the middle and near the end, and with a byte changed.
std::vector<File> Files() {
  const Image colour = MakeImage(kHeight, kWidth, 3, 1), grey = MakeImage(kHeight, kWidth, 1, 2);
  const std::vector<std::string> images = {
      EncodeJpeg(colour),
      EncodeJpeg(colour, {.h_samp = 2, .v_samp = 2}),
      EncodeJpeg(colour, {.h_samp = 2, .progressive = true}),
      EncodeJpeg(grey),
      EncodeJpeg(grey, {.progressive = true}),
      EncodePng(kHeight, kWidth, 2, 8, colour.pixels),
      EncodePng(kHeight, kWidth, 0, 8, grey.pixels),
  };
  std::vector<File> files;
  for (const std::string& image : images) {
    for (const int orientation : {1, 6, 3}) {
      const bool transposed = orientation == 6;
      const std::string whole = orientation == 1 ? image : WithExif(image, orientation);
      const auto add = [&](const std::string& bytes) {
        files.push_back({bytes, transposed ? Shape{kWidth, kHeight, 1} : Shape{kHeight, kWidth, 1},
                         orientation != 1});
      };
      add(whole);
      add(whole.substr(0, whole.size() / 2));
      add(whole.substr(0, whole.size() * 9 / 10));
      std::string changed = whole;
      changed[changed.size() * 2 / 3] ^= 0x55;
      add(changed);
    }
  }
  files.push_back({"no image", {kHeight, kWidth, 1}});
  return files;
}

// What became of a row.
struct Outcome {
  absl::Status status;
  std::string image, boxes, mask;
  friend bool operator==(const Outcome&, const Outcome&) = default;
};

using Ops = std::vector<std::unique_ptr<Op>>;

void Add(absl::StatusOr<std::unique_ptr<Op>> op, Ops& ops) {
  ASSERT_TRUE(op.ok()) << op.status();
  ops.push_back(*std::move(op));
}

std::string BytesOf(const Run& run, const char* name, int64_t row) {
  const ConstTensorView value = run.Get(name).at(row);
  return value.shape.ToString() +
         std::string(static_cast<const char*>(value.data), value.size_bytes());
}

std::vector<Outcome> RunAll(const Ops& ops, const std::vector<File>& files, bool exif) {
  testing::TestRun run(static_cast<int64_t>(files.size()));
  std::vector<std::string> encoded;
  for (const File& file : files) encoded.push_back(file.bytes);
  run.AddBytes("image/encoded", encoded);
  const std::vector<float> boxes = {2, 3, 40, 50, 30, 20, 70, 60};
  run.AddValue("boxes", DType::kF32, {2, 4}, boxes.data());
  std::vector<uint8_t> mask(static_cast<size_t>(kHeight * kWidth));
  for (size_t i = 0; i < mask.size(); ++i) mask[i] = static_cast<uint8_t>(i * 7);
  Column& masks = run->Add("mask", DType::kU8);
  for (size_t row = 0; row < files.size(); ++row) {
    masks.Set(static_cast<int64_t>(row), mask.data(),
              exif ? files[row].upright : Shape{kHeight, kWidth, 1});
  }
  Schema schema = testing::EncodedSchema();
  schema.Set({"boxes", DType::kF32, {Shape::kUnknown, 4}});
  schema.Set({"mask", DType::kU8, {Shape::kUnknown, Shape::kUnknown, 1}});
  for (const auto& op : ops) schema = testing::ResolveAndApply(*op, schema, *run);
  std::vector<Outcome> outcomes;
  for (int64_t row = 0; row < run->num_rows(); ++row) {
    if (run->ok(row)) {
      outcomes.push_back({absl::OkStatus(), BytesOf(*run, "image", row),
                          BytesOf(*run, "boxes", row), BytesOf(*run, "mask", row)});
    } else {
      outcomes.push_back({run->status(row), "", "", ""});
    }
  }
  return outcomes;
}

absl::StatusOr<std::unique_ptr<Op>> MakeCrop(const CropOptions& crop) {
  if (const auto* o = std::get_if<RandomCropOptions>(&crop)) return MakeRandomCrop(*o, kStage);
  if (const auto* o = std::get_if<CenterCropOptions>(&crop)) return MakeCenterCrop(*o);
  return MakeRandomResizedCrop(std::get<RandomResizedCropOptions>(crop), kStage);
}

TargetsOptions WithTargets(const CropOptions& crop) {
  TargetsOptions targets{{}, BoxOptions(), "mask"};
  std::visit([&](const auto& options) { targets.geometry = options; }, crop);
  return targets;
}

Ops AsOne(const DecodeImageOptions& decode, const CropOptions& crop, bool with_targets) {
  Ops ops;
  if (with_targets) {
    Add(MakeDecodeWithTargets(decode, WithTargets(crop), kStage), ops);
  } else {
    Add(MakeDecodeCrop(decode, crop, kStage), ops);
  }
  return ops;
}

Ops Apart(const DecodeImageOptions& decode, const CropOptions& crop, bool with_targets) {
  Ops ops;
  Add(MakeDecodeImageToCrop(decode, crop, kStage), ops);
  Add(with_targets ? MakeWithTargets(WithTargets(crop), kStage) : MakeCrop(crop), ops);
  return ops;
}

// decode_image of the whole file, which does not know what follows.
Ops Whole(const DecodeImageOptions& decode, const CropOptions& crop) {
  Ops ops;
  Add(MakeDecodeImage(decode), ops);
  Add(MakeCrop(crop), ops);
  return ops;
}

std::vector<CropOptions> Crops() {
  return {
      RandomResizedCropOptions{.height = 9, .width = 12, .area = {0.05f, 0.4f}},
      RandomResizedCropOptions{.height = 20, .width = 12, .area = {0.3f, 1}, .antialias = true},
      RandomResizedCropOptions{.height = 9, .width = 20, .interpolation = ResizeMethod::kBicubic},
      RandomCropOptions{.height = 16, .width = 20},
      RandomCropOptions{.height = 71, .width = 60},  // of upright images turned by 90 degrees only
      CenterCropOptions{.height = 25, .width = 31},
      CenterCropOptions{.height = 80, .width = 40},  // beyond the image at some sides
      CenterCropOptions{.height = 120, .width = 121}};
}

const DecodeImageOptions kDecodes[] = {
    {},
    {.channels = 1},
    {.apply_exif_orientation = true},
    {.verify_full = true},
    {.apply_exif_orientation = true, .allow_truncated = true},
    {.fast_dct = true, .fancy_upsampling = false},
};

// S-ROUND-2, S-ROUND-3.
TEST(DecodeCrop, OneOpHasTheBitsBoxesMasksAndErrorsOfTwo) {
  const std::vector<File> files = Files();
  for (const DecodeImageOptions& decode : kDecodes) {
    for (const CropOptions& crop : Crops()) {
      for (const bool with_targets : {false, true}) {
        if (TakesFewSettings() && with_targets != (&decode - kDecodes) % 2) continue;
        const bool exif = decode.apply_exif_orientation;
        const auto one = RunAll(AsOne(decode, crop, with_targets), files, exif);
        const auto two = RunAll(Apart(decode, crop, with_targets), files, exif);
        for (size_t row = 0; row < files.size(); ++row) {
          ASSERT_EQ(one[row].status, two[row].status) << "crop " << crop.index() << ", row " << row;
          ASSERT_TRUE(one[row] == two[row])
              << "crop " << crop.index() << ", with_targets " << with_targets << ", row " << row;
        }
      }
    }
  }
}

// S-ROUND-2, S-IMAGE-2: the region's verdict is milder than the file's, and never other pixels.
TEST(DecodeCrop, AFileThatDecodesWholeHasTheSameCrop) {
  const std::vector<File> files = Files();
  for (const DecodeImageOptions& decode : kDecodes) {
    int unseen = 0;
    for (const CropOptions& crop : Crops()) {
      const auto part = RunAll(AsOne(decode, crop, false), files, decode.apply_exif_orientation);
      const auto whole = RunAll(Whole(decode, crop), files, decode.apply_exif_orientation);
      for (size_t row = 0; row < files.size(); ++row) {
        if (whole[row].status.ok()) {
          ASSERT_TRUE(part[row] == whole[row]) << "crop " << crop.index() << ", row " << row;
        } else if (part[row].status.ok()) {
          ++unseen;
        }
      }
    }
    EXPECT_EQ(unseen > 0, !decode.verify_full && !decode.allow_truncated);
  }
}

TEST(DecodeCrop, AnImageSmallerThanARandomCropNeedsNoPixels) {
  const std::string whole = EncodeJpeg(MakeImage(60, 60, 3, 1));
  const std::vector<File> files = {{whole, {60, 60, 1}},
                                   {whole.substr(0, whole.size() * 9 / 10), {60, 60, 1}}};
  const RandomCropOptions crop{.height = 61, .width = 5};
  for (const Ops& ops : {AsOne({}, crop, false), Apart({}, crop, false)}) {
    for (const Outcome& outcome : RunAll(ops, files, false)) {
      EXPECT_MESSAGE(outcome.status, "smaller");
    }
  }
  // But a file that has to be whole is an error first.
  for (const Ops& ops :
       {AsOne({.verify_full = true}, crop, false), Apart({.verify_full = true}, crop, false)}) {
    const auto outcomes = RunAll(ops, files, false);
    EXPECT_EQ(outcomes[0].status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(outcomes[1].status.code(), absl::StatusCode::kDataLoss);
  }
}

// S-IMAGE-5: boxes and masks are moved by the region, however large it is decoded.
TEST(DecodeCrop, DctDownscaleTakesBoxesAndMasksAlong) {
  std::vector<File> files;
  for (uint32_t seed = 0; seed < 8; ++seed) {
    files.push_back({EncodeJpeg(MakeImage(kHeight, kWidth, 3, seed)), {kHeight, kWidth, 1}});
  }
  const RandomResizedCropOptions crop{.height = 12, .width = 12, .area = {0.6f, 1}};
  const auto exact = RunAll(AsOne({}, crop, true), files, false);
  const auto small = RunAll(AsOne({.dct_downscale = true}, crop, true), files, false);
  const auto alone = RunAll(AsOne({.dct_downscale = true}, crop, false), files, false);
  for (size_t row = 0; row < files.size(); ++row) {
    EXPECT_EQ(small[row].boxes, exact[row].boxes);
    EXPECT_EQ(small[row].mask, exact[row].mask);
    EXPECT_EQ(small[row].image, alone[row].image);
    EXPECT_NE(small[row].image, exact[row].image);
  }
}

// S-IMAGE-5: of the small image that djpeg makes, to the extents that the whole image gives.
TEST(DecodeCrop, DctDownscaleIsOfAResizeToo) {
  const int64_t height = 203, width = 161;
  const std::string jpeg = EncodeJpeg(MakeImage(height, width, 3, 1), {.h_samp = 2, .v_samp = 2});
  const std::pair<ResizeOptions, int> cases[] = {
      {{.height = 50, .width = 40}, 4},
      {{.shorter = 40}, 4},
      {{.shorter = 41, .method = ResizeMethod::kBicubic, .antialias = true}, 2},
      {{.height = 25, .width = 20, .dtype = DType::kF32}, 8},
      {{.height = 102, .width = 20}, 1}};
  for (const auto& [resize, denominator] : cases) {
    const auto got =
        RunAll(AsOne({.dct_downscale = true}, resize, false), {{jpeg, {height, width, 1}}}, false);
    ASSERT_TRUE(got[0].status.ok()) << got[0].status;
    const auto small = testing::Djpeg(jpeg, 3, "-scale 1/" + std::to_string(denominator));
    if (!small) GTEST_SKIP() << "djpeg is not installed";
    // 40 * 203 / 161 of the whole image; the small one's extents would give other ones.
    ResizeOptions to = resize;
    if (resize.shorter != 0) {
      to.height = resize.shorter * height / width;
      to.width = std::exchange(to.shorter, 0);
    }
    testing::TestRun run(1);
    run.AddValue("image", DType::kU8, {small->height, small->width, 3}, small->pixels.data());
    const auto op = MakeResize(to);
    ASSERT_TRUE(op.ok()) << op.status();
    testing::ResolveAndApply(
        **op, Schema({{"image", DType::kU8, {Shape::kUnknown, Shape::kUnknown, 3}}}), *run);
    EXPECT_TRUE(got[0].image == BytesOf(*run, "image", 0)) << "1/" << denominator;
  }
}

// What one image takes of the run's memory besides its output serves the next one too.
TEST(DecodeCrop, ScratchOfARunIsThatOfAnImage) {
  constexpr int64_t kSide = 400;
  constexpr size_t kPixelBytes = kSide * kSide * 3;
  const Image image = MakeImage(kSide, kSide, 3, 1);
  const RandomResizedCropOptions crop{
      .height = 8, .width = kSide - 1, .area = {1, 1}, .aspect = {1, 1}, .antialias = true};
  for (const bool progressive : {false, true}) {
    const std::vector<std::string> files(16, EncodeJpeg(image, {.progressive = progressive}));
    for (const bool one : {false, true}) {
      testing::TestRun run(static_cast<int64_t>(files.size()));
      run.AddBytes("image/encoded", files);
      Schema schema = testing::EncodedSchema();
      size_t before = 0;
      for (const auto& op : one ? AsOne({}, crop, false) : Apart({}, crop, false)) {
        before = run->arena().capacity_bytes();
        schema = testing::ResolveAndApply(*op, schema, *run);
      }
      ASSERT_TRUE(run->all_ok());
      // Pixels of the few images that are decoded at a time, one image's columns, and the outputs.
      EXPECT_LT(run->arena().capacity_bytes() - before, 6 * kPixelBytes)
          << (one ? "one" : "two") << (progressive ? ", progressive" : "");
    }
  }
}

// Rows of other extents each, which come out of the decoder in any order.
TEST(DecodeCrop, ResizesToTheShorterSideAreOfEachImage) {
  std::vector<File> files;
  for (uint32_t i = 0; i < 9; ++i) {
    const int64_t side = 30 + i % 4 * 40;
    files.push_back({EncodeJpeg(MakeImage(side, side + 5 * i, 3, i)), {side, side + 5 * i, 1}});
  }
  const ResizeOptions resize{.shorter = 28};
  Ops two;
  Add(MakeDecodeImage({}), two);
  Add(MakeResize(resize), two);
  EXPECT_TRUE(RunAll(AsOne({}, resize, false), files, false) == RunAll(two, files, false));
}

TEST(DecodeCrop, PairsThatDoNotFitAreRefused) {
  const CenterCropOptions crop{.height = 4, .width = 4};
  EXPECT_MESSAGE(MakeDecodeCrop({.output = "left"}, crop, kStage).status());
  EXPECT_MESSAGE(MakeDecodeCrop({.dct_downscale = true}, crop, kStage).status());
  EXPECT_MESSAGE(MakeDecodeCrop({}, CenterCropOptions{}, kStage).status());
  EXPECT_MESSAGE(MakeDecodeWithTargets({}, {FlipOptions(), std::nullopt, "mask"}, kStage).status());
}

}  // namespace
}  // namespace millrace::augment
